//go:build linux || darwin

package file

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

func clockOf(boot string, id int32) (func() moment, error) {
	var ts unix.Timespec
	if err := unix.ClockGettime(id, &ts); err != nil {
		return nil, fmt.Errorf("the time since boot cannot be read: %w", err)
	}
	return func() moment {
		var ts unix.Timespec
		if err := unix.ClockGettime(id, &ts); err != nil {
			panic(fmt.Sprintf("file: a clock that could be read cannot be read any more: %v", err))
		}
		return moment{boot, time.Duration(ts.Nano()), time.Now()}
	}, nil
}

// checkOwner returns an error unless dir belongs to this process's user alone, who
// else could neither keep others from changing its locks nor use the files of others.
func checkOwner(dir string) error {
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	switch stat, ok := info.Sys().(*syscall.Stat_t); {
	case !info.IsDir():
		return errors.New("it is not a directory")
	case ok && int(stat.Uid) != os.Geteuid():
		return fmt.Errorf("it belongs to user %d, and this process runs as user %d", stat.Uid, os.Geteuid())
	case info.Mode().Perm()&0o022 != 0:
		return fmt.Errorf("its mode %#o lets others write", info.Mode().Perm())
	}
	return nil
}

// flock locks f, or returns false if somebody else has it locked.
func flock(f *os.File) (bool, error) {
	err := control(f, unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return false, nil
	}
	return err == nil, err
}

// funlock unlocks f also for a child process that just inherited it.
func funlock(f *os.File) error { return control(f, unix.LOCK_UN) }

func control(f *os.File, how int) error {
	conn, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var flockErr error
	err = conn.Control(func(fd uintptr) {
		flockErr = ignoringEINTR(func() error { return unix.Flock(int(fd), how) })
	})
	if err == nil && flockErr != nil {
		err = &os.PathError{Op: "flock", Path: f.Name(), Err: flockErr}
	}
	return err
}

func ignoringEINTR(call func() error) error {
	for {
		if err := call(); err != unix.EINTR {
			return err
		}
	}
}
