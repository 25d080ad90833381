//go:build linux || darwin

package file

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/locker-go/locker"
)

func TestNewMakesPrivateFiles(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	l := open(t, dir, nil)
	acquire(t, l, "k", time.Minute)
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		if info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %s", path, info.Mode())
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestNewRefuses(t *testing.T) {
	plain := filepath.Join(t.TempDir(), "plain")
	if err := os.WriteFile(plain, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	loose := t.TempDir()
	l := open(t, loose, nil)
	if err := os.Chmod(l.dir, 0o777); err != nil { //nolint:gosec // that is what is refused
		t.Fatal(err)
	}
	linked := t.TempDir()
	if err := os.Symlink(t.TempDir(), filepath.Join(linked, namespaceDir("locker"))); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		what, dir string
		opts      *Options
		kind      error
		says      string
	}{
		{"no directory", "", nil, locker.ErrInvalid, "empty"},
		{"bad namespace", t.TempDir(), &Options{Namespace: "a/b"}, locker.ErrInvalid, "a/b"},
		{"bad timeout", t.TempDir(), &Options{Timeout: -1}, locker.ErrInvalid, "positive"},
		{"a file", plain, nil, locker.ErrUnavailable, plain},
		{"beneath a file", filepath.Join(plain, "x"), nil, locker.ErrUnavailable, plain},
		{"writable by others", loose, nil, locker.ErrUnavailable, "0777"},
		{"a link in place of the namespace", linked, nil, locker.ErrUnavailable, "not a directory"},
	} {
		_, err := New(c.dir, c.opts)
		if !errors.Is(err, c.kind) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: got %v, want %v with %q", c.what, err, c.kind, c.says)
		}
	}
}

func TestOpen(t *testing.T) {
	dir := t.TempDir()
	for raw, says := range map[string]string{
		"file://" + dir: "",
		"file://" + dir + "?namespace=x&timeout=1s":           "",
		"file://" + dir + "/with%20space?any_filesystem=true": "",
		"file:relative/dir":                                      "three slashes",
		"file://relative/dir":                                    "three slashes",
		"file://localhost" + dir:                                 "three slashes",
		"file://":                                                "three slashes",
		"file:///":                                               "three slashes",
		"file://user:canary@" + dir:                              "three slashes",
		"file://" + dir + "?namespace=":                          "the namespace is empty",
		"file://" + dir + "?namespace=a/b":                       "a/b",
		"file://" + dir + "?timeout=0":                           "from 10ms to 1h0m0s",
		"file://" + dir + "?tiemout=1s":                          "known are any_filesystem, namespace, timeout",
		"file://" + dir + "?any_filesystem=perhaps":              "one of false, true",
		"file://" + dir + "#fragment":                            "fragment",
		"file:///dev/null/x?namespace=" + strings.Repeat("n", 9): "/dev/null/x",
	} {
		u, err := url.Parse(raw)
		if err != nil {
			t.Fatal(err)
		}
		_, err = Open(t.Context(), u)
		if says == "" && err != nil {
			t.Errorf("%s: %v", raw, err)
		}
		if says != "" && (err == nil || !strings.Contains(err.Error(), says)) {
			t.Errorf("%s: got %v, want an error with %q", raw, err, says)
		}
		if err != nil && strings.Contains(err.Error(), "canary") {
			t.Errorf("the password is in: %v", err)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "with space")); err != nil {
		t.Error(err)
	}
}

// Two namespaces never meet, also where file names ignore case.
func TestNamespaces(t *testing.T) {
	dir := t.TempDir()
	names := map[string]string{}
	for _, namespace := range []string{"a", "A", ".", "..", "-", "con", strings.Repeat("n", 128), strings.Repeat("N", 128)} {
		acquire(t, open(t, dir, &Options{Namespace: namespace}), "k", time.Minute)
		name := strings.ToLower(namespaceDir(namespace))
		if other, ok := names[name]; ok {
			t.Errorf("%q and %q are both in %s", namespace, other, name)
		}
		names[name] = namespace
	}
}

// A million keys once used do not fill the directory, and leave no hole in the order of tokens
// (redisson#6510 leaked a record per key; litestream deleted the record, and the tokens with it).
func TestManyKeys(t *testing.T) {
	l := open(t, t.TempDir(), nil)
	l.sync = func(*os.File) error { return nil }
	st := &state{Grants: map[string]grant{}}
	for i := range 5000 {
		st.Grants[fmt.Sprint(i)] = newGrant("h.1.x", 1, time.Minute, moment{"another boot", 0, noon.Add(-365 * 24 * time.Hour)})
	}
	st.Fence = locker.Token(time.Now().Add(time.Hour).UnixMicro())
	if err := l.shardOf("k").write(st); err != nil {
		t.Fatal(err)
	}
	lease := acquire(t, l, "k", time.Minute)
	if lease.Token != st.Fence+1 {
		t.Errorf("token %d, want %d", lease.Token, st.Fence+1)
	}
	info, err := os.Stat(l.shardOf("k").stateFile())
	if err != nil {
		t.Fatal(err)
	}
	if info.Size() > 1000 {
		t.Errorf("the state has %d bytes for one grant", info.Size())
	}
	release(t, l, lease)
	for i := range 600 {
		acquire(t, l, fmt.Sprint("key ", i), time.Minute)
	}
	names, err := os.ReadDir(l.dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(names) > 2*shards {
		t.Errorf("%d files", len(names))
	}
}

// Tokens go on from what is stored, although the clock was set back and every key is free.
func TestTokensRiseWithTheClockSetBack(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir, nil)
	first := acquire(t, l, "k", time.Minute)
	release(t, l, first)
	back := open(t, dir, nil)
	clock := back.clock
	back.clock = func() moment {
		now := clock()
		now.wall = time.Unix(0, 0).Add(-time.Hour)
		return now
	}
	second := acquire(t, back, "k", time.Minute)
	if second.Token != first.Token+1 {
		t.Errorf("token %d after %d", second.Token, first.Token)
	}
	if high, err := back.HighWater(t.Context()); err != nil || high != second.Token {
		t.Errorf("high water: %d, %v, want %d", high, err, second.Token)
	}
}

func TestReboot(t *testing.T) {
	dir := t.TempDir()
	before, after := open(t, dir, nil), open(t, dir, nil)
	lease := acquire(t, before, "k", time.Minute)
	clock := before.clock
	for _, c := range []struct {
		up, wall time.Duration
		held     bool
	}{
		{time.Second, 5 * time.Second, true},
		{time.Second, -1000 * time.Hour, true},
		{59 * time.Second, -1000 * time.Hour, true},
		{time.Minute, -1000 * time.Hour, false},
		{time.Second, 61 * time.Second, false},
	} {
		after.clock = func() moment { return moment{"another boot", c.up, clock().wall.Add(c.wall)} }
		h, err := after.Inspect(t.Context(), "k")
		if held := err == nil; held != c.held || h.Remaining > time.Minute-c.up {
			t.Errorf("%+v: %v, %v", c, h, err)
		}
	}
	next := acquire(t, after, "k", time.Minute)
	if next.Token <= lease.Token {
		t.Errorf("token %d after %d", next.Token, lease.Token)
	}
	if err := before.Release(t.Context(), lease); !errors.Is(err, locker.ErrNotHeld) {
		t.Errorf("got %v, want ErrNotHeld", err)
	}
}

func TestRaiseIsBounded(t *testing.T) {
	l := open(t, t.TempDir(), nil)
	floor := locker.Token(time.Now().Add(5 * time.Second).UnixMicro())
	if err := l.Raise(t.Context(), "k", floor); err != nil {
		t.Fatal(err)
	}
	if lease := acquire(t, l, "k", time.Minute); lease.Token != floor+1 {
		t.Errorf("token %d, want %d", lease.Token, floor+1)
	}
	if err := l.Raise(t.Context(), "k", locker.Token(time.Now().Add(time.Hour).UnixMicro())); !errors.Is(err, locker.ErrInvalid) {
		t.Errorf("got %v, want ErrInvalid", err)
	}
	if err := l.Raise(t.Context(), "k", 1); err != nil {
		t.Error(err)
	}
	if high, err := l.HighWater(t.Context()); err != nil || high != floor+1 {
		t.Errorf("high water: %d, %v", high, err)
	}
}
