//go:build linux || darwin

package file

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/locker-go/locker"
)

var children = map[string]func(ctx context.Context, l *Locker, args []string) error{
	"count": func(ctx context.Context, l *Locker, args []string) error {
		rounds, err := strconv.Atoi(args[1])
		if err != nil {
			return err
		}
		other, err := New(filepath.Dir(l.dir), nil)
		if err != nil {
			return err
		}
		var wg sync.WaitGroup
		errs := make([]error, 4)
		for i := range errs {
			wg.Go(func() { errs[i] = count(ctx, []*Locker{l, other}[i%2], args[0], rounds) })
		}
		wg.Wait()
		return errors.Join(errs...)
	},

	// hold acquires and prints the lease, and never gives it back.
	"hold": func(ctx context.Context, l *Locker, args []string) error {
		ttl, err := time.ParseDuration(args[1])
		if err != nil {
			return err
		}
		lease, err := l.Acquire(ctx, args[0], ttl)
		if err != nil {
			return err
		}
		b, err := json.Marshal(lease)
		if err != nil {
			return err
		}
		fmt.Println(string(b))
		select {}
	},

	// churn writes one shard without end, and prints each token that it is granted.
	"churn": func(ctx context.Context, l *Locker, args []string) error {
		for {
			lease, err := l.Acquire(ctx, args[0], time.Minute)
			if err != nil {
				return err
			}
			fmt.Println(lease.Token)
			if lease, err = l.Renew(ctx, lease, time.Minute); err != nil {
				return err
			}
			if err := l.Release(ctx, lease); err != nil {
				return err
			}
		}
	},

	// change begins a change of a shard and does not end it.
	"change": func(ctx context.Context, l *Locker, args []string) error {
		if _, err := l.shardOf(args[0]).lock(ctx, l.timeout); err != nil {
			return err
		}
		fmt.Println("locked")
		select {}
	},

	// full lets no file grow beyond args[1] bytes, and prints what Acquire and Release say then.
	"full": func(ctx context.Context, l *Locker, args []string) error {
		most, err := strconv.ParseUint(args[1], 10, 64)
		if err != nil {
			return err
		}
		lease, err := l.Acquire(ctx, args[0], time.Minute)
		if err != nil {
			return err
		}
		signal.Ignore(unix.SIGXFSZ)
		if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: most, Max: unix.RLIM_INFINITY}); err != nil {
			return err
		}
		_, acquireErr := l.Acquire(ctx, args[0]+" too", time.Minute)
		_, renewErr := l.Renew(ctx, lease, time.Hour)
		for _, err := range []error{acquireErr, renewErr, l.Release(ctx, lease)} {
			fmt.Println(errors.Is(err, locker.ErrUnavailable), errors.Is(err, syscall.EFBIG), err)
		}
		fmt.Println(l.FenceToken(ctx, lease))
		if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: unix.RLIM_INFINITY, Max: unix.RLIM_INFINITY}); err != nil {
			return err
		}
		fmt.Println(l.Release(ctx, lease))
		return nil
	},
}

// count enters the lock of key again and again, proves that it is alone in it, and
// writes its token over a lower one.
func count(ctx context.Context, l *Locker, guarded string, rounds int) error {
	for range rounds {
		lease, err := l.AcquireWait(ctx, "k", time.Minute)
		if err != nil {
			return err
		}
		inside := filepath.Join(guarded, "inside")
		f, err := os.OpenFile(inside, os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return fmt.Errorf("two are inside: %w", err)
		}
		if err := f.Close(); err != nil {
			return err
		}
		history := filepath.Join(guarded, "history")
		b, err := os.ReadFile(history)
		if err != nil {
			return err
		}
		tokens := strings.Fields(string(b))
		last, err := parseToken(tokens[len(tokens)-1])
		if err != nil {
			return err
		}
		if lease.Token <= last {
			return fmt.Errorf("token %d after %d", lease.Token, last)
		}
		if err := os.WriteFile(history, fmt.Appendln(b, lease.Token), 0o600); err != nil {
			return err
		}
		if err := os.Remove(inside); err != nil {
			return err
		}
		if err := l.Release(ctx, lease); err != nil {
			return err
		}
	}
	return nil
}

func parseToken(s string) (locker.Token, error) {
	n, err := strconv.ParseUint(s, 10, 64)
	return locker.Token(n), err
}

func TestProcessesExcludeEachOther(t *testing.T) {
	dir, guarded := t.TempDir(), t.TempDir()
	history := filepath.Join(guarded, "history")
	if err := os.WriteFile(history, []byte("0\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	const processes, goroutines, rounds = 4, 4, 8
	var all []*process
	for range processes {
		all = append(all, start(t, "count", dir, guarded, strconv.Itoa(rounds)))
	}
	for _, p := range all {
		if err := p.Wait(); err != nil {
			t.Errorf("a child failed: %v", err)
		}
	}
	b, err := os.ReadFile(history)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := len(strings.Fields(string(b)))-1, processes*goroutines*rounds; got != want {
		t.Errorf("%d entries of %d are in the history", got, want)
	}
}

func TestTakeoverAfterKill(t *testing.T) {
	dir := t.TempDir()
	child := start(t, "hold", dir, "k", "400ms")
	var dead locker.Lease
	if err := json.Unmarshal([]byte(child.line(t)), &dead); err != nil {
		t.Fatal(err)
	}
	child.kill()
	lease, err := open(t, dir, nil).AcquireWait(t.Context(), "k", time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	late := time.Since(dead.Deadline)
	if late < 0 {
		t.Errorf("taken over %s before the deadline of the dead holder's lease", -late)
	}
	t.Logf("taken over %s after the deadline", late)
	if lease.Token <= dead.Token {
		t.Errorf("token %d after %d", lease.Token, dead.Token)
	}
}

func TestLeaseIsUsableInAnotherProcess(t *testing.T) {
	dir := t.TempDir()
	child := start(t, "hold", dir, "k", "1m")
	var lease locker.Lease
	if err := json.Unmarshal([]byte(child.line(t)), &lease); err != nil {
		t.Fatal(err)
	}
	l := open(t, dir, nil)
	renewed, err := l.Renew(t.Context(), lease, time.Hour)
	if err != nil || renewed.Token != lease.Token || renewed.Remaining() < 50*time.Minute {
		t.Fatalf("renewed: %v, %v", renewed, err)
	}
	release(t, l, renewed)
}

// A kill at any moment of a write leaves the old state or the new one, with a fence
// that is no lower than any token that was returned.
func TestKillWhileWriting(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir, nil)
	for range 15 {
		child := start(t, "churn", dir, "k")
		granted := []string{child.line(t)}
		time.Sleep(rand.N(8 * time.Millisecond)) // to kill it anywhere
		if err := child.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		granted = append(granted, child.lines()...)
		child.kill()
		last, err := parseToken(granted[len(granted)-1])
		if err != nil {
			t.Fatal(err)
		}
		high, err := l.HighWater(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if high < last {
			t.Fatalf("the high water is %d after token %d", high, last)
		}
		h, err := l.Inspect(t.Context(), "k")
		if err == nil {
			err = l.Break(t.Context(), h)
		}
		if err != nil && !errors.Is(err, locker.ErrNotHeld) {
			t.Fatal(err)
		}
		lease := acquire(t, l, "k", time.Minute)
		if lease.Token <= last {
			t.Fatalf("token %d after %d", lease.Token, last)
		}
		release(t, l, lease)
	}
}

// A process that was stopped in the middle of a change makes calls fail in bounded
// time. It does not hinder those that only read.
func TestStoppedProcess(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir, &Options{Timeout: 100 * time.Millisecond})
	held := acquire(t, l, "k", time.Hour)
	child := start(t, "change", dir, "k")
	child.line(t)
	if err := child.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	err := l.Release(t.Context(), held)
	if !errors.Is(err, locker.ErrUnavailable) || !strings.Contains(err.Error(), l.shardOf("k").lockFile()) {
		t.Errorf("got %v, want ErrUnavailable with the name of the lock file", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if err := l.Release(ctx, held); !errors.Is(err, locker.ErrUnavailable) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want ErrUnavailable and DeadlineExceeded", err)
	}
	if _, err := l.FenceToken(t.Context(), held); err != nil {
		t.Error(err)
	}
	if _, err := l.Acquire(t.Context(), "k", time.Minute); !errors.Is(err, locker.ErrHeld) {
		t.Errorf("got %v, want ErrHeld", err)
	}
	child.kill()
	release(t, l, held)
}

// The old state stands when there is no room for the new one, none at all or too
// little, and a lock is then not lost.
func TestFullDisk(t *testing.T) {
	for _, most := range []string{"0", "40"} {
		t.Run(most, func(t *testing.T) {
			dir := t.TempDir()
			child := start(t, "full", dir, "k", most)
			for _, op := range []string{"acquire", "renew", "release"} {
				if got := child.line(t); !strings.HasPrefix(got, "true true ") {
					t.Errorf("%s: %s", op, got)
				}
			}
			if got := child.line(t); !strings.HasSuffix(got, " <nil>") {
				t.Errorf("the lease is gone: %s", got)
			}
			if got := child.line(t); got != "<nil>" {
				t.Errorf("release with room again: %s", got)
			}
			if err := child.Wait(); err != nil {
				t.Error(err)
			}
			l := open(t, dir, nil)
			if left, err := filepath.Glob(filepath.Join(l.dir, "*.next")); len(left) > 0 || err != nil {
				t.Errorf("left behind: %v %v", left, err)
			}
			release(t, l, acquire(t, l, "k too", time.Minute))
		})
	}
}
