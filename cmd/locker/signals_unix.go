//go:build unix

package main

import (
	"os"
	"syscall"
)

// ending are the signals that end a process which does nothing about them.
var ending = []os.Signal{
	syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGALRM,
}
