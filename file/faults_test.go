//go:build linux || darwin

package file

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/locker-go/locker"
)

// What a crash left of the next state is overwritten.
func TestLeftoverOfACrash(t *testing.T) {
	l := open(t, t.TempDir(), nil)
	lease := acquire(t, l, "k", time.Minute)
	next := l.shardOf("k").path + ".next"
	for _, garbage := range []string{"", "locker file st", strings.Repeat("garbage", 1000)} {
		if err := os.WriteFile(next, []byte(garbage), 0o600); err != nil {
			t.Fatal(err)
		}
		var err error
		if lease, err = l.Renew(t.Context(), lease, time.Minute); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(next); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("still there: %v", err)
		}
	}
	release(t, l, lease)
}

// A damaged state is never taken for a free lock: every call says which file it is.
func TestDamagedState(t *testing.T) {
	l := open(t, t.TempDir(), nil)
	lease := acquire(t, l, "k", time.Minute)
	path := l.shardOf("k").stateFile()
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, garbage := range [][]byte{nil, []byte("garbage"), good[:len(good)-2]} {
		if err := os.WriteFile(path, garbage, 0o600); err != nil {
			t.Fatal(err)
		}
		ctx := t.Context()
		_, acquireErr := l.Acquire(ctx, "k", time.Minute)
		_, renewErr := l.Renew(ctx, lease, time.Minute)
		_, fenceErr := l.FenceToken(ctx, lease)
		_, inspectErr := l.Inspect(ctx, "k")
		_, highErr := l.HighWater(ctx)
		var listErr error
		for _, listErr = range l.Holdings(ctx, "") {
		}
		for _, err := range []error{
			acquireErr, renewErr, fenceErr, inspectErr, highErr, listErr,
			l.Release(ctx, lease), l.Break(ctx, lease.Holding()), l.Raise(ctx, "k", 1),
		} {
			if !errors.Is(err, locker.ErrUnavailable) || !strings.Contains(err.Error(), path) {
				t.Errorf("got %v, want ErrUnavailable with %s", err, path)
			}
		}
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if next := acquire(t, l, "k", time.Minute); next.Token <= lease.Token {
		t.Errorf("token %d after %d", next.Token, lease.Token)
	}
}

// A new state is on the disk before it takes the place of the old one, and that it did is
// on the disk before a call returns.
func TestOrderOfSyncs(t *testing.T) {
	l := open(t, t.TempDir(), nil)
	path := l.shardOf("k").stateFile()
	before, err := os.Stat(path)
	var synced []string
	l.sync = func(f *os.File) error {
		synced = append(synced, filepath.Base(f.Name()))
		now, statErr := os.Stat(path)
		if replaced := statErr == nil && (err != nil || !os.SameFile(before, now)); replaced != (f.Name() == l.dir) {
			t.Errorf("at the sync of %s the state is replaced: %v", f.Name(), replaced)
		}
		return f.Sync()
	}
	lease := acquire(t, l, "k", time.Minute)
	for _, change := range []func() error{
		func() error { _, err := l.Renew(t.Context(), lease, time.Hour); return err },
		func() error { return l.Raise(t.Context(), "k", lease.Token+5) },
		func() error { return l.Release(t.Context(), lease) },
	} {
		before, err = os.Stat(path)
		if changeErr := change(); changeErr != nil {
			t.Fatal(changeErr)
		}
	}
	if len(synced) != 8 {
		t.Errorf("%d syncs in 4 changes: %q", len(synced), synced)
	}
}

// A lease whose writing failed after the new state was in place is given back.
func TestAcquireIsUndone(t *testing.T) {
	l := open(t, t.TempDir(), nil)
	broken := errors.New("broken disk")
	failures := 1
	l.sync = func(f *os.File) error {
		if f.Name() == l.dir {
			if failures--; failures >= 0 {
				return broken
			}
		}
		return f.Sync()
	}
	if _, err := l.Acquire(t.Context(), "k", time.Minute); !errors.Is(err, locker.ErrUnavailable) || !errors.Is(err, broken) {
		t.Fatalf("got %v, want ErrUnavailable and its cause", err)
	}
	if h, err := l.Inspect(t.Context(), "k"); !errors.Is(err, locker.ErrNotHeld) {
		t.Errorf("got %v, %v, want ErrNotHeld", h, err)
	}
	failures = 2
	if _, err := l.Acquire(t.Context(), "k", time.Minute); err == nil || !strings.Contains(err.Error(), "not undone") {
		t.Errorf("got %v, want an error that says that it was not undone", err)
	}
}

// A lease that ended before it could be returned is not returned (node-redlock#296 returned
// it, with a validity of -202 ms).
func TestWritingTakesLongerThanTheTTL(t *testing.T) {
	l := open(t, t.TempDir(), nil)
	l.sync = func(f *os.File) error {
		time.Sleep(locker.MinTTL)
		return f.Sync()
	}
	lease, err := l.Acquire(t.Context(), "k", locker.MinTTL)
	if !errors.Is(err, locker.ErrUnavailable) || !strings.Contains(err.Error(), "10ms") {
		t.Fatalf("got %v, %v, want ErrUnavailable", lease, err)
	}
}

// Whoever locks a lock file that was deleted or replaced since it was opened is not alone.
func TestDeletedLockFile(t *testing.T) {
	s := open(t, t.TempDir(), nil).shardOf("k")
	for what, c := range map[string]struct {
		change func() error
		want   bool
	}{
		"as it was": {func() error { return nil }, true},
		"deleted":   {func() error { return os.Remove(s.lockFile()) }, false},
		"replaced": {func() error {
			return errors.Join(os.WriteFile(s.path+".new", nil, 0o600), os.Rename(s.path+".new", s.lockFile()))
		}, false},
	} {
		f, err := os.OpenFile(s.lockFile(), os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.change(); err != nil {
			t.Fatal(err)
		}
		if claimed, err := s.claim(f); claimed != c.want || err != nil {
			t.Errorf("%s: %v, %v, want %v", what, claimed, err, c.want)
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
}

// A directory that is gone says nothing of the locks that were in it.
func TestDeletedDirectory(t *testing.T) {
	l := open(t, t.TempDir(), nil)
	lease := acquire(t, l, "k", time.Minute)
	if err := os.RemoveAll(filepath.Dir(l.dir)); err != nil {
		t.Fatal(err)
	}
	_, fenceErr := l.FenceToken(t.Context(), lease)
	_, acquireErr := l.Acquire(t.Context(), "k", time.Minute)
	for _, err := range []error{l.Release(t.Context(), lease), fenceErr, acquireErr} {
		if !errors.Is(err, locker.ErrUnavailable) || !errors.Is(err, os.ErrNotExist) || errors.Is(err, locker.ErrNotHeld) {
			t.Errorf("got %v, want ErrUnavailable and its cause", err)
		}
	}
}
