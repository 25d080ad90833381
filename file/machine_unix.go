//go:build linux || darwin

package file

import (
	"errors"
	"fmt"
	"os"
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
