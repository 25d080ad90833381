//go:build !unix

package main

import (
	"os"
	"syscall"
)

// ending are the signals that end a process which does nothing about them.
var ending = []os.Signal{os.Interrupt, syscall.SIGTERM}
