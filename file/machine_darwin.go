package file

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// machineClock returns a clock whose time since boot includes suspended time.
func machineClock() (func() moment, error) {
	boot, err := unix.Sysctl("kern.bootsessionuuid")
	if err != nil {
		return nil, fmt.Errorf("the boot cannot be identified: %w", err)
	}
	if boot == "" {
		return nil, errors.New("the boot cannot be identified: its id is empty")
	}
	return clockOf(boot, unix.CLOCK_MONOTONIC_RAW)
}

// checkFilesystem returns an error if other machines may see the directory.
func checkFilesystem(dir string) error {
	var fs unix.Statfs_t
	if err := ignoringEINTR(func() error { return unix.Statfs(dir, &fs) }); err != nil {
		return fmt.Errorf("is on an unknown file system: %w", err)
	}
	if fs.Flags&unix.MNT_LOCAL == 0 {
		return errors.New("is on a file system that other machines may share, where locks do not hold")
	}
	return nil
}
