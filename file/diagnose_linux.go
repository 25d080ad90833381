package file

import "golang.org/x/sys/unix"

// transients are the magic numbers of file systems that end with the system, or with
// a container.
var transients = map[uint32]string{
	unix.TMPFS_MAGIC:           "tmpfs",
	unix.RAMFS_MAGIC:           "ramfs",
	unix.OVERLAYFS_SUPER_MAGIC: overlay,
}

// transient returns the kind of a file system of those, and an empty text for others.
func transient(dir string) string {
	var fs unix.Statfs_t
	if err := ignoringEINTR(func() error { return unix.Statfs(dir, &fs) }); err != nil {
		return ""
	}
	return transients[uint32(fs.Type)]
}
