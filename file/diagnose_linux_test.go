package file

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/locker-go/locker"
)

func TestDiagnoseFilesystem(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("/dev/shm", "locker-")
	if err != nil {
		t.Skipf("no file system in memory: %v", err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	if transient(dir) != "tmpfs" {
		t.Skip("/dev/shm is not in memory")
	}
	expect(t, open(t, dir, nil), "filesystem", locker.SeverityWarning, "tmpfs, in memory")
}

func TestDiagnoseRemoteFilesystem(t *testing.T) { // not parallel: it changes the table
	l := open(t, t.TempDir(), nil)
	var fs unix.Statfs_t
	if err := unix.Statfs(l.dir, &fs); err != nil {
		t.Fatal(err)
	}
	magic := uint32(fs.Type)
	remote[magic] = "test"
	defer delete(remote, magic)
	expect(t, l, "filesystem", locker.SeverityDanger, "(test)")
}
