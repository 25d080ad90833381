//go:build !unix

package main

import (
	"context"
	"runtime"

	"github.com/locker-go/locker/backends"
)

func guarded() bool { return false }

func (a *app) run(context.Context, backends.Config, string, []string, runOptions) error {
	return usage("locker run needs the process groups of Unix, which %s does not have; use locker acquire, renew and release", runtime.GOOS)
}
