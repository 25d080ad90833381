//go:build !unix

package testbed

import "syscall"

// These systems cannot pause a process; sending the signals fails.
const (
	stopSignal     = syscall.Signal(-1)
	continueSignal = syscall.Signal(-1)
)

// diesWithParent: only Linux can; elsewhere a killed test leaves its servers.
func diesWithParent() *syscall.SysProcAttr { return nil }
