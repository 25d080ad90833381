//go:build unix && !linux

package group

import (
	"os"
	"syscall"
)

func self() (string, error) { return os.Executable() }

// dieWithParent has nothing to set: the guard does it alone.
func dieWithParent(attr *syscall.SysProcAttr) *syscall.SysProcAttr { return attr }

// adoptOrphans does nothing: init reaps them.
func adoptOrphans() {}
