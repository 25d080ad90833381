//go:build unix

package group

import (
	"bufio"
	"io"
	"os/signal"
	"strconv"

	"golang.org/x/sys/unix"
)

// dismissed is the line that ends a guard.
const dismissed = "done"

// Guard is the work of the guard process: it reads the number of a process group
// from r, and when r ends without the guard being dismissed, because the writer is
// gone, it kills the group.
func Guard(r io.Reader) {
	// Whoever ends the program by its name does not mean the guard.
	signal.Ignore(unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGTERM, unix.SIGUSR1, unix.SIGUSR2, unix.SIGALRM)
	pgid := 0
	for lines := bufio.NewScanner(r); lines.Scan(); {
		if lines.Text() == dismissed {
			return
		}
		if n, err := strconv.Atoi(lines.Text()); err == nil {
			pgid = n
		}
	}
	if pgid > 1 {
		_ = unix.Kill(-pgid, unix.SIGKILL) // fails if it is empty
	}
}
