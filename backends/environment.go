package backends

import (
	"context"
	"fmt"
	"os"

	"github.com/locker-go/locker"
)

// The environment variables that say where locks are kept.
const (
	urlVariable    = "LOCKER_URL"
	configVariable = "LOCKER_CONFIG"
)

// ErrNotConfigured is an ErrInvalid that says that the environment names no backend.
var ErrNotConfigured = fmt.Errorf("%w: set the environment variable %s to the URL of a backend, or %s to the name of a configuration file",
	locker.ErrInvalid, urlVariable, configVariable)

// FromEnv returns the configuration that the environment names: in LOCKER_URL the
// URL of a backend, or in LOCKER_CONFIG the name of a file for [LoadConfig]. A variable
// that is empty counts as not set. If neither is set it fails with ErrNotConfigured. If
// both are it fails with ErrInvalid: whichever it took, a program that expects the other
// would share no lock with this one, and nobody would notice.
func FromEnv() (Config, error) {
	rawURL, path := os.Getenv(urlVariable), os.Getenv(configVariable)
	switch {
	case rawURL != "" && path != "":
		return Config{}, invalid("the environment variables %s and %s are both set: set one of them", urlVariable, configVariable)
	case path != "":
		c, err := LoadConfig(path)
		if err != nil {
			return Config{}, fmt.Errorf("%s: %w", configVariable, err)
		}
		return c, nil
	case rawURL != "":
		if err := checkURL(rawURL); err != nil {
			return Config{}, fmt.Errorf("%s: %w", urlVariable, err)
		}
		return Config{URL: rawURL}, nil
	}
	return Config{}, ErrNotConfigured
}

// OpenEnv opens what the environment names, see [FromEnv], and returns a
// client of it, as [OpenConfig] does.
func OpenEnv(ctx context.Context, opts *locker.Options) (*locker.Client, error) {
	c, err := FromEnv()
	if err != nil {
		return nil, err
	}
	return OpenConfig(ctx, c, opts)
}
