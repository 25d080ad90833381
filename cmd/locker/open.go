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

// configuration returns where locks are kept, by the flags, the environment or the
// default, of which the first that says anything counts alone.
func (a *app) configuration() (backends.Config, error) {
	switch {
	case a.url != "":
		return backends.Config{URL: a.url}, nil
	case a.config != "":
		return backends.LoadConfig(a.config)
	}
	c, err := backends.FromEnv()
	if !errors.Is(err, backends.ErrNotConfigured) {
		return c, err
	}
	dir, err := stateDir()
	if err != nil {
		return backends.Config{}, &exitError{exitSystem, fmt.Errorf("there is no place for the default backend: %w; set --url or LOCKER_URL", err)}
	}
	return backends.Config{URL: (&url.URL{Scheme: "file", Path: filepath.ToSlash(dir)}).String()}, nil
}

// backendURL returns the URL of the one backend that there is, which may have a password
// in it.
func (a *app) backendURL() (string, error) {
	c, err := a.configuration()
	switch {
	case err != nil:
		return "", err
	case len(c.Routes) > 0:
		return "", usage("the configuration has several backends: name one of them with --url")
	case c.Namespace == "":
		return c.URL, nil
	}
	separator := "?"
	if strings.Contains(c.URL, "?") {
		separator = "&"
	}
	return c.URL + separator + "namespace=" + c.Namespace, nil
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

// shared is configuration for locks that are to exclude other processes.
func (a *app) shared() (backends.Config, error) {
	c, err := a.configuration()
	if err != nil {
		return backends.Config{}, err
	}
	for _, raw := range urls(c) {
		if scheme, _, _ := strings.Cut(raw, "://"); strings.EqualFold(scheme, "memory") {
			return backends.Config{}, usage("locks of memory:// end with this process and exclude no other: choose another backend with --url or --config")
		}
	}
	return c, nil
}

// urls returns all that a configuration names.
func urls(c backends.Config) []string {
	all := []string{c.URL}
	for _, r := range c.Routes {
		all = append(all, r.URL)
	}
	return all
}

// local says whether the locks of a URL end with the process that took them.
func local(raw string) bool {
	scheme, _, _ := strings.Cut(raw, "://")
	return strings.EqualFold(scheme, "zookeeper")
}

// outliving is configuration for locks that are to outlive this process.
func (a *app) outliving() (backends.Config, error) {
	c, err := a.shared()
	if err != nil {
		return backends.Config{}, err
	}
	for _, raw := range urls(c) {
		if local(raw) {
			return backends.Config{}, usage("locks of zookeeper:// end with the process that took them: use locker run, or another backend")
		}
	}
	return c, nil
}

// withLocker opens the backend for do.
func (a *app) withLocker(ctx context.Context, do func(locker.Locker) error) error {
	c, err := a.shared()
	if err != nil {
		return err
	}
	return a.withLockerOf(ctx, c, do)
}

// withLockerOf opens the backends of a configuration for do.
func (a *app) withLockerOf(ctx context.Context, c backends.Config, do func(locker.Locker) error) error {
	l, err := new(backends.Registry).OpenConfig(ctx, c)
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
