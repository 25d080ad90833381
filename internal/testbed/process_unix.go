//go:build unix && !linux

package testbed

import "syscall"

const (
	stopSignal     = syscall.SIGSTOP
	continueSignal = syscall.SIGCONT
)

// diesWithParent: only Linux can; elsewhere a killed test leaves its servers.
func diesWithParent() *syscall.SysProcAttr { return nil }
