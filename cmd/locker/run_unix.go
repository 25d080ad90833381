//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/locker-go/locker"
	"github.com/locker-go/locker/backends"
	"github.com/locker-go/locker/cmd/locker/internal/group"
)

// guarded does the work of a guard, if this process was started as one.
func guarded() bool {
	if len(os.Args) != 2 || os.Args[1] != group.GuardArg {
		return false
	}
	group.Guard(os.Stdin)
	return true
}

func (a *app) run(ctx context.Context, c backends.Config, key string, argv []string, opts runOptions) (err error) {
	path, err := lookUp(argv[0]) // before others have to wait for a command that is not there
	if err != nil {
		return err
	}
	client, err := backends.OpenConfig(ctx, c, &locker.Options{OnEvent: a.logEvent})
	if err != nil {
		return err
	}
	defer func() {
		if closeErr := client.Close(); closeErr != nil && a.verbose {
			a.logf("closing the client: %v", closeErr)
		}
	}()
	g, err := group.New()
	if err != nil {
		return &exitError{exitSystem, err}
	}
	defer func() {
		if closeErr := g.Close(); err == nil && closeErr != nil {
			err = &exitError{exitSystem, closeErr}
		}
	}()
	hold, err := a.lock(ctx, client, key, opts.wait)
	if err != nil {
		return err
	}
	// From here on a signal is the command's.
	a.handOff()
	if ctx.Err() != nil {
		return errors.Join(context.Cause(ctx), hold.Unlock())
	}
	s := newSupervisor(a, g, hold, opts.killAfter)
	if err := g.Start(path, argv, environment(os.Environ(), hold.Lease())); err != nil {
		return errors.Join(cannotStart(argv[0], err), hold.Unlock())
	}
	status := s.supervise()
	unlockErr := hold.Unlock()
	switch {
	case s.lost:
		return &exitError{code: exitNotHeld}
	case errors.Is(unlockErr, locker.ErrNotHeld):
		return &exitError{exitNotHeld, fmt.Errorf("the lock was lost before the command had ended: %w", unlockErr)}
	case status != 0:
		return &exitError{code: status}
	}
	return nil // if only the release failed the client has reported it, and the TTL frees the lock
}

// lock takes the lock and waits for it if it has to.
func (a *app) lock(ctx context.Context, client *locker.Client, key string, wait waiting) (*locker.Hold, error) {
	if wait.no {
		return client.TryLock(ctx, key)
	}
	if a.verbose {
		hold, err := client.TryLock(ctx, key)
		if !errors.Is(err, locker.ErrHeld) {
			return hold, err
		}
		a.logf("waiting: %v", err)
	}
	return client.Lock(ctx, key)
}

// environment returns env with what the command is to know. A variable of an outer
// locker run is replaced, not shadowed: which of two counts differs between programs.
func environment(env []string, lease locker.Lease) []string {
	const keyVar, tokenVar = "LOCKER_KEY=", "LOCKER_FENCE_TOKEN="
	inner := make([]string, 0, len(env)+2)
	for _, v := range env {
		if !strings.HasPrefix(v, keyVar) && !strings.HasPrefix(v, tokenVar) {
			inner = append(inner, v)
		}
	}
	return append(inner, keyVar+lease.Key, tokenVar+strconv.FormatUint(uint64(lease.Token), 10))
}

// lookUp finds a command as a shell does, and fails with the exit codes of a shell.
func lookUp(name string) (string, error) {
	path, err := exec.LookPath(name)
	switch {
	case err == nil, errors.Is(err, exec.ErrDot): // a shell takes relative entries of PATH
		return path, nil
	case errors.Is(err, exec.ErrNotFound) && executableMissing(name), errors.Is(err, os.ErrNotExist):
		return "", &exitError{exitNotFound, fmt.Errorf("%s: command not found", name)}
	}
	return "", &exitError{exitCannotExecute, fmt.Errorf("%s: cannot be executed", name)}
}

// executableMissing reports whether PATH has not even a file of that name that is not
// executable.
func executableMissing(name string) bool {
	if strings.Contains(name, "/") {
		return false
	}
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		if info, err := os.Stat(filepath.Join(dir, name)); err == nil && !info.IsDir() {
			return false
		}
	}
	return true
}

// cannotStart returns the error for a command that was found and yet failed to start.
func cannotStart(name string, err error) error {
	code := exitCannotExecute
	switch {
	case errors.Is(err, syscall.ENOENT): // it is gone by now, or its interpreter is missing
		code = exitNotFound
	case errors.Is(err, syscall.EAGAIN), errors.Is(err, syscall.ENOMEM):
		code = exitSystem
	}
	return &exitError{code, fmt.Errorf("%s: cannot be started: %w", name, err)}
}
