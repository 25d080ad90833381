package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/locker-go/locker"
	"github.com/locker-go/locker/backends"
)

// backendURL returns the URL of the backend, which may have a password in it.
func (a *app) backendURL() (string, error) {
	if a.url != "" {
		return a.url, nil
	}
	if env := os.Getenv("LOCKER_URL"); env != "" {
		return env, nil
	}
	dir, err := stateDir()
	if err != nil {
		return "", &exitError{exitSystem, fmt.Errorf("there is no place for the default backend: %w; set --url or LOCKER_URL", err)}
	}
	return (&url.URL{Scheme: "file", Path: filepath.ToSlash(dir)}).String(), nil
}

// stateDir returns this user's directory for locks, by the XDG base directory
// specification.
func stateDir() (string, error) {
	if dir := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "locker"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", err
	}
	if !filepath.IsAbs(home) {
		return "", errors.New("the home directory is not an absolute path")
	}
	return filepath.Join(home, ".local", "state", "locker"), nil
}

// sharedURL is backendURL for locks that are to exclude other processes.
func (a *app) sharedURL() (string, error) {
	raw, err := a.backendURL()
	if err != nil {
		return "", err
	}
	if scheme, _, _ := strings.Cut(raw, "://"); strings.EqualFold(scheme, "memory") {
		return "", usage("locks of memory:// end with this process and exclude no other: choose another backend with --url")
	}
	return raw, nil
}

// withLocker opens the backend for do.
func (a *app) withLocker(ctx context.Context, do func(locker.Locker) error) error {
	raw, err := a.sharedURL()
	if err != nil {
		return err
	}
	l, err := backends.OpenLocker(ctx, raw)
	if err != nil {
		return err
	}
	err = do(l)
	if closeErr := closeLocker(l); closeErr != nil && a.verbose {
		a.logf("closing the connection: %v", closeErr) // what was asked for is done
	}
	return err
}

func closeLocker(l locker.Locker) error {
	if c, ok := l.(io.Closer); ok {
		return c.Close()
	}
	return nil
}

// withAdmin opens the backend for do, if it lets operators look and intervene.
func (a *app) withAdmin(ctx context.Context, do func(locker.Admin) error) error {
	return a.withLocker(ctx, func(l locker.Locker) error {
		admin, ok := locker.As[locker.Admin](l)
		if !ok {
			return usage("this backend does not let others look at its locks")
		}
		return do(admin)
	})
}
