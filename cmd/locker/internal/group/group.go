//go:build unix

package group

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Change is what happened to the command.
type Change = unix.WaitStatus

// Group is a process group that one command leads. One process has one Group at most,
// which waits for all of its children.
type Group struct {
	guard     *os.File // the guard dies, and the group with it, when this is closed
	guardPid  int
	guardGone chan struct{}
	pgid      int
	changes   chan Change
}

// GuardArg is the first argument that this program is started with to call Guard.
const GuardArg = "guard"

// New starts the guard of a group: this program again, as "guard", which ends
// what is in the group as soon as this process is gone.
func New() (*Group, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		return nil, errors.Join(err, w.Close())
	}
	defer null.Close()
	program, err := self()
	if err != nil {
		return nil, errors.Join(err, w.Close())
	}
	pid, err := syscall.ForkExec(program, []string{os.Args[0], GuardArg}, &syscall.ProcAttr{
		Dir:   "/",
		Env:   goSettings(os.Environ()),
		Files: []uintptr{r.Fd(), null.Fd(), null.Fd()},
		// Out of the way of signals that a terminal or a shell sends to our job.
		Sys: &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s cannot be started: %w", program, err), w.Close())
	}
	return &Group{guard: w, guardPid: pid, guardGone: make(chan struct{}), changes: make(chan Change)}, nil
}

// goSettings returns the variables that are for Go's runtime. In others there may be
// a password, which is nothing that a guard needs.
func goSettings(env []string) []string {
	settings := []string{}
	for _, v := range env {
		if strings.HasPrefix(v, "GO") {
			settings = append(settings, v)
		}
	}
	return settings
}

// Start starts the command that leads the group, with this process's standard input,
// output and error. The error is an errno of fork or exec.
func (g *Group) Start(path string, argv, env []string) error {
	started := make(chan error)
	go func() {
		// Where a child dies with its parent, that is the thread which started it.
		// So it must not end before the child: it waits, and is never unlocked.
		runtime.LockOSThread()
		adoptOrphans()
		pid, err := syscall.ForkExec(path, argv, &syscall.ProcAttr{
			Env:   env,
			Files: []uintptr{os.Stdin.Fd(), os.Stdout.Fd(), os.Stderr.Fd()},
			Sys:   dieWithParent(&syscall.SysProcAttr{Setpgid: true}),
		})
		g.pgid = pid
		started <- err
		if err == nil {
			g.reap()
		}
	}()
	if err := <-started; err != nil {
		return err
	}
	// The guard may be gone. It is only missed if this process is killed too.
	_, _ = g.guard.WriteString(strconv.Itoa(g.pgid) + "\n")
	return nil
}

// reap waits for all children, also for orphans that this process was given, until
// there are none.
func (g *Group) reap() {
	for {
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, unix.WUNTRACED, nil)
		switch {
		case err == unix.EINTR:
		case err != nil:
			return
		case pid == g.pgid:
			g.changes <- status
		case pid == g.guardPid && !status.Stopped():
			close(g.guardGone)
		}
	}
}

// Changes delivers when the command stopped, and at last when it ended. It must be
// received from until then.
func (g *Group) Changes() <-chan Change { return g.changes }

// Signal sends sig to all processes of the group.
func (g *Group) Signal(sig syscall.Signal) {
	_ = unix.Kill(-g.pgid, sig) // fails if there are none, or none that may be signalled
}

// Empty reports whether no process is left in the group. The command itself counts
// until its end was received.
func (g *Group) Empty() bool { return unix.Kill(-g.pgid, 0) == unix.ESRCH }

// ID is the number of the process group.
func (g *Group) ID() int { return g.pgid }

// Close dismisses the guard, and waits for its end. What is in the group lives on.
func (g *Group) Close() error {
	_, err := g.guard.WriteString(dismissed + "\n")
	if errors.Is(err, syscall.EPIPE) {
		err = nil
	}
	err = errors.Join(err, g.guard.Close())
	if g.pgid != 0 {
		<-g.guardGone
		return err
	}
	for {
		if _, waitErr := unix.Wait4(g.guardPid, nil, 0, nil); waitErr != unix.EINTR {
			return err
		}
	}
}
