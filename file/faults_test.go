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

// A lease whose writing failed after the new state was in place is given back.
func TestAcquireIsUndone(t *testing.T) {
	l := open(t, t.TempDir(), nil)
	broken := errors.New("broken disk")
	failures := 1
	l.syncDir = func(dir string) error {
		if failures--; failures >= 0 {
			return broken
		}
		return syncDir(dir)
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

// A lease that ended before it could be returned is not returned, and not left behind
// (node-redlock#296 returned it with a validity of -202 ms).
func TestWritingTakesLongerThanTheTTL(t *testing.T) {
	l := open(t, t.TempDir(), nil)
	l.syncDir = func(dir string) error {
		time.Sleep(locker.MinTTL)
		return syncDir(dir)
	}
	lease, err := l.Acquire(t.Context(), "k", locker.MinTTL)
	if !errors.Is(err, locker.ErrUnavailable) || !strings.Contains(err.Error(), "10ms") {
		t.Fatalf("got %v, %v, want ErrUnavailable", lease, err)
	}
}

// Whoever locks a lock file that was deleted meanwhile is not alone, and must look again.
func TestDeletedLockFile(t *testing.T) {
	l := open(t, t.TempDir(), nil)
	s := l.shardOf("k")
	f, err := s.lock(t.Context(), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	if same, err := isAt(f, s.lockFile()); !same || err != nil {
		t.Fatal(same, err)
	}
	if err := os.Remove(s.lockFile()); err != nil {
		t.Fatal(err)
	}
	if same, err := isAt(f, s.lockFile()); same || err != nil {
		t.Errorf("a deleted file: %v, %v", same, err)
	}
	if err := os.WriteFile(s.lockFile(), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if same, err := isAt(f, s.lockFile()); same || err != nil {
		t.Errorf("a replaced file: %v, %v", same, err)
	}
	if err := s.unlock(f, false); err != nil {
		t.Error(err)
	}
	release(t, l, acquire(t, l, "k", time.Minute))
}

// A directory that is deleted under a running process is an error, not a crash.
func TestDeletedDirectory(t *testing.T) {
	l := open(t, t.TempDir(), nil)
	lease := acquire(t, l, "k", time.Minute)
	if err := os.RemoveAll(filepath.Dir(l.dir)); err != nil {
		t.Fatal(err)
	}
	if err := l.Release(t.Context(), lease); !errors.Is(err, locker.ErrUnavailable) || !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v, want ErrUnavailable and its cause", err)
	}
}
