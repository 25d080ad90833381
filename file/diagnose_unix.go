//go:build linux || darwin

package file

import (
	"fmt"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// room returns how many bytes and how many files a file system has left for this user.
func room(dir string) (bytes, files uint64, err error) {
	var fs unix.Statfs_t
	if err := ignoringEINTR(func() error { return unix.Statfs(dir, &fs) }); err != nil {
		return 0, 0, err
	}
	files = fs.Ffree
	if fs.Files == 0 { // it has no limit
		files = ^uint64(0)
	}
	return fs.Bavail * uint64(fs.Bsize), files, nil
}

// renamers returns who, besides root and this user, may rename what is in a directory
// and does not belong to them; empty if that is nobody.
func renamers(dir fs.FileInfo) string {
	if stat, ok := dir.Sys().(*syscall.Stat_t); ok && stat.Uid != 0 && int(stat.Uid) != os.Geteuid() {
		return fmt.Sprintf("user %d", stat.Uid)
	}
	switch perm := dir.Mode().Perm(); {
	case dir.Mode()&fs.ModeSticky != 0:
		return ""
	case perm&0o002 != 0:
		return "everybody"
	case perm&0o020 != 0:
		return "its group"
	}
	return ""
}
