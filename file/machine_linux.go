package file

import (
	"bytes"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// machineClock returns a clock whose time since boot includes suspended time.
func machineClock() (func() moment, error) {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return nil, fmt.Errorf("the boot cannot be identified: %w", err)
	}
	boot := string(bytes.TrimSpace(id))
	if boot == "" {
		return nil, errors.New("the boot cannot be identified: its id is empty")
	}
	return clockOf(boot, unix.CLOCK_BOOTTIME)
}

// remote are the magic numbers of file systems on which several machines may meet.
// See statfs(2).
var remote = map[uint32]string{
	unix.AFS_FS_MAGIC:      "AFS",
	unix.AFS_SUPER_MAGIC:   "AFS",
	unix.CEPH_SUPER_MAGIC:  "Ceph",
	unix.CIFS_SUPER_MAGIC:  "CIFS",
	unix.CODA_SUPER_MAGIC:  "Coda",
	unix.FUSE_SUPER_MAGIC:  "FUSE",
	0x01161970:             "GFS2",
	0x47504653:             "GPFS",
	0x0bd00bd0:             "Lustre",
	unix.NCP_SUPER_MAGIC:   "NCP",
	unix.NFS_SUPER_MAGIC:   "NFS",
	unix.OCFS2_SUPER_MAGIC: "OCFS2",
	unix.SMB_SUPER_MAGIC:   "SMB",
	unix.SMB2_SUPER_MAGIC:  "SMB",
	unix.V9FS_MAGIC:        "9P",
	0xbacbacbc:             "a virtual machine's shared folder",
	0x786f4256:             "a virtual machine's shared folder",
}

// checkFilesystem returns an error if other machines may see the directory.
func checkFilesystem(dir string) error {
	var fs unix.Statfs_t
	if err := ignoringEINTR(func() error { return unix.Statfs(dir, &fs) }); err != nil {
		return fmt.Errorf("is on an unknown file system: %w", err)
	}
	if name, ok := remote[uint32(fs.Type)]; ok {
		return fmt.Errorf("is on a file system (%s) that other machines may share, where locks do not hold", name)
	}
	return nil
}
