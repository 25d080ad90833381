package locker_test

import (
	"go/build"
	"slices"
	"strings"
	"testing"
)

// The root package imports no driver: who uses one backend compiles none of the
// others.
func TestRootImportsNoDriver(t *testing.T) {
	allowed := []string{"github.com/cenkalti/backoff/v5", "golang.org/x/sys/unix"}
	for _, goos := range []string{"linux", "darwin", "windows"} {
		ctx := build.Default
		ctx.GOOS = goos
		pkg, err := ctx.ImportDir(".", 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range pkg.Imports {
			first, _, _ := strings.Cut(path, "/")
			if strings.Contains(first, ".") && !slices.Contains(allowed, path) {
				t.Errorf("on %s it imports %s", goos, path)
			}
		}
	}
}
