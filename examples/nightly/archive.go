package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/locker-go/locker"
)

// archive is a directory of reports. Each is published under its fencing token, and the
// one with the highest counts: so a machine that was stalled while it held the lock, and
// goes on after another has published, changes nothing that anybody reads. It
// needs no comparison, since the names compare.
type archive struct{ dir string }

// publish writes a report, which appears whole or not at all.
func (a archive) publish(token locker.Token, text []byte) (path string, err error) {
	// As many digits as the highest token has, so that names sort as numbers do.
	path = filepath.Join(a.dir, fmt.Sprintf("report-%016d.txt", token))
	unfinished := path + ".unfinished"
	if err := os.WriteFile(unfinished, text, 0o644); err != nil {
		return "", err
	}
	return path, os.Rename(unfinished, path)
}

// current returns the path of the report that counts, or nothing if there is none.
func (a archive) current() (string, error) {
	paths, err := filepath.Glob(filepath.Join(a.dir, "report-*.txt")) // sorted
	if err != nil || len(paths) == 0 {
		return "", err
	}
	return paths[len(paths)-1], nil
}
