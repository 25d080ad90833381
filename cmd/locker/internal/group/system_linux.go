package group

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// self is this program, also if its file was replaced or deleted.
func self() (string, error) { return "/proc/self/exe", nil }

// dieWithParent makes the command itself die with this process even if the guard,
// which ends all of the group, was killed before.
func dieWithParent(attr *syscall.SysProcAttr) *syscall.SysProcAttr {
	attr.Pdeathsig = syscall.SIGKILL
	return attr
}

// adoptOrphans makes this process the parent of those processes that the command
// leaves behind, so that they can be reaped: in a container there may be nobody else
// who does, and a process that is not reaped remains in the group.
func adoptOrphans() {
	_ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) // Linux 3.4
}
