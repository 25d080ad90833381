package backends_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/locker-go/locker"
	"github.com/locker-go/locker/backends"
)

func TestFromEnv(t *testing.T) {
	dir := t.TempDir()
	good, bad := filepath.Join(dir, "good.yaml"), filepath.Join(dir, "bad.yaml")
	for path, content := range map[string]string{good: "url: memory://\nttl: 5s", bad: "url: redis://u:" + canary + "@h:x"} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, test := range []struct {
		name, url, file string
		want            backends.Config
		wrong           string // what the error says
	}{
		{"a URL", "memory://", "", backends.Config{URL: "memory://"}, ""},
		{"a file", "", good, backends.Config{URL: "memory://", TTL: 5 * time.Second}, ""},
		{"none", "", "", backends.Config{}, "set the environment variable LOCKER_URL to the URL of a backend, or LOCKER_CONFIG to the name of a configuration file"},
		{"both", "redis://u:" + canary + "@h", good, backends.Config{}, "the environment variables LOCKER_URL and LOCKER_CONFIG are both set: set one of them"},
		{"a wrong URL", "redis://u:" + canary + "@h:x", "", backends.Config{}, "LOCKER_URL: invalid argument: the redis URL cannot be parsed"},
		{"no URL", canary, "", backends.Config{}, "LOCKER_URL: invalid argument: a locker URL has the form scheme://"},
		{"a wrong file", "", bad, backends.Config{}, "LOCKER_CONFIG: " + bad + ":1:6: url: "},
		{"no file", "", filepath.Join(dir, "missing"), backends.Config{}, "LOCKER_CONFIG: "},
		{"a URL for a file", "", "redis://u:" + canary + "@h", backends.Config{}, "a URL alone goes into LOCKER_URL"},
	} {
		t.Setenv("LOCKER_URL", test.url)
		t.Setenv("LOCKER_CONFIG", test.file)
		c, err := backends.FromEnv()
		if test.wrong == "" {
			if err != nil || c.String() != test.want.String() {
				t.Errorf("%s: got %v, %v", test.name, c, err)
			}
			continue
		}
		if !errors.Is(err, locker.ErrInvalid) || !strings.Contains(err.Error(), test.wrong) || strings.Contains(err.Error(), canary) {
			t.Errorf("%s: got %v, %v; want %s", test.name, c, err, test.wrong)
		}
		if errors.Is(err, backends.ErrNotConfigured) != (test.name == "none") {
			t.Errorf("%s: %v is ErrNotConfigured: %t", test.name, err, test.name != "none")
		}
		if _, openErr := backends.OpenEnv(t.Context(), nil); openErr == nil || openErr.Error() != err.Error() {
			t.Errorf("%s: OpenEnv = %v, want %v", test.name, openErr, err)
		}
	}
}

func TestOpenEnv(t *testing.T) {
	t.Setenv("LOCKER_CONFIG", "")
	t.Setenv("LOCKER_URL", "memory://?namespace=env")
	client, err := backends.OpenEnv(t.Context(), &locker.Options{TTL: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	err = client.Do(t.Context(), "k", func(_ context.Context, lease locker.Lease) error {
		if lease.TTL != time.Hour {
			t.Errorf("the TTL is %s", lease.TTL)
		}
		return nil
	})
	if err := errors.Join(err, client.Close()); err != nil {
		t.Error(err)
	}
}
