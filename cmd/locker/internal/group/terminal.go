//go:build unix

package group

import (
	"os"

	"golang.org/x/sys/unix"
)

// Terminal is the controlling terminal of this process.
type Terminal struct {
	f    *os.File
	ours int // this process's group, which the shell takes for the job
}

// OpenTerminal returns nil if there is no controlling terminal.
func OpenTerminal() *Terminal {
	f, err := os.OpenFile("/dev/tty", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return nil
	}
	return &Terminal{f, unix.Getpgrp()}
}

// Close closes the terminal.
func (t *Terminal) Close() error { return t.f.Close() }

// Ours reports whether this process's group is the foreground group, which gets the
// terminal's signals and may read from it.
func (t *Terminal) Ours() bool { return t.Has(t.ours) }

// Has reports whether pgid is the foreground group.
func (t *Terminal) Has(pgid int) bool { return t.foreground() == pgid }

func (t *Terminal) foreground() int {
	pgid, err := unix.IoctlGetInt(int(t.f.Fd()), unix.TIOCGPGRP)
	if err != nil {
		return 0
	}
	return pgid
}

// Give makes pgid the foreground group. This process must ignore SIGTTOU, which
// stops it otherwise when it is in the background.
func (t *Terminal) Give(pgid int) error {
	return unix.IoctlSetPointerInt(int(t.f.Fd()), unix.TIOCSPGRP, pgid)
}

// TakeBack makes this process's group the foreground group if pgid is.
func (t *Terminal) TakeBack(pgid int) error {
	if !t.Has(pgid) {
		return nil
	}
	return t.Give(t.ours)
}

// Is reports whether f is the controlling terminal.
func (t *Terminal) Is(f *os.File) bool {
	_, err := unix.IoctlGetInt(int(f.Fd()), unix.TIOCGPGRP)
	return err == nil
}
