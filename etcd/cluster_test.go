package etcd_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/locker-go/locker"
	"github.com/locker-go/locker/conformance"
	"github.com/locker-go/locker/etcd"
	"github.com/locker-go/locker/internal/testbed"
)

// A leader that is killed, and comes back with what it was told before, costs time, and
// no more than that. etcd#11456, etcd#13294.
func TestLeaderIsKilled(t *testing.T) {
	t.Parallel()
	cluster := startCluster(t, 3, fast...)
	var history conformance.History
	ctx, stop := context.WithCancel(t.Context())
	var clients sync.WaitGroup
	t.Cleanup(func() { stop(); clients.Wait() })
	granted := make(chan struct{}, 1)
	for range 4 {
		l := history.Record(open(t, cluster.url()+"?request_timeout=1s"))
		clients.Go(func() {
			for ctx.Err() == nil {
				if takeTurn(ctx, l) == nil {
					select {
					case granted <- struct{}{}:
					default:
					}
				}
			}
		})
	}
	some := func(why string) {
		t.Helper()
		for range 10 {
			select {
			case <-granted:
			case <-time.After(30 * time.Second):
				t.Fatalf("no grant %s", why)
			}
		}
	}
	some("at the beginning")
	leader := cluster.all.Leader()
	leader.Kill()
	some("without the leader of before")
	leader.StartAgain()
	some("when it is back")
	stop()
	clients.Wait()
	if err := history.Check(); err != nil {
		t.Error(err)
	}
}

// takeTurn waits for the lock, looks whether it has it, and gives it back.
func takeTurn(ctx context.Context, l locker.Locker) error {
	lease, err := locker.AcquireWait(ctx, l, "k", 2*time.Second)
	if err != nil {
		return err
	}
	if _, err := l.Renew(ctx, lease, 2*time.Second); err != nil {
		return err
	}
	return l.Release(ctx, lease)
}

// A member that is cut from the others confirms nothing to those who talk with it
// alone, whatever it still believes, and fails them in time.
func TestMemberWithoutItsMajority(t *testing.T) {
	t.Parallel()
	cluster := startCluster(t, 3, fast...)
	cut := cluster.all.Leader()
	l := on(t, connect(t, cut.Addr()), &etcd.Options{RequestTimeout: time.Second})
	held := mustAcquire(t, l, "held")
	other := mustAcquire(t, l, "k")
	w := wait(t, l, "k")
	queued(t, cluster.client(), "k", 2)
	var others []*testbed.Server
	for _, s := range cluster.members {
		if s != cut {
			s.Pause()
			others = append(others, s)
		}
	}
	until(t, "they have stopped", func() bool {
		_, err := l.FenceToken(t.Context(), held)
		return err != nil
	})
	for what, op := range map[string]func() error{
		"renew":   func() error { _, err := l.Renew(t.Context(), held, testTTL); return err },
		"token":   func() error { _, err := l.FenceToken(t.Context(), held); return err },
		"release": func() error { return l.Release(t.Context(), other) },
		"acquire": func() error { _, err := l.Acquire(t.Context(), "free", testTTL); return err },
	} {
		began := time.Now()
		if err := op(); !errors.Is(err, locker.ErrUnavailable) {
			t.Errorf("%s: got %v, want ErrUnavailable", what, err)
		}
		if took := time.Since(began); took > 10*time.Second { // a request of 1 s, and one to clean up
			t.Errorf("%s took %s", what, took)
		}
	}
	select {
	case <-w.done:
		t.Errorf("the wait ended: %v, %v", w.lease, w.err)
	default:
	}
	for _, s := range others {
		s.Resume()
	}
	// The wait goes on: its place was kept, and so was the lock that was not released.
	until(t, "the holder can release", func() bool {
		err := l.Release(t.Context(), other)
		if err != nil && !errors.Is(err, locker.ErrUnavailable) && !errors.Is(err, locker.ErrNotHeld) {
			t.Fatal(err)
		}
		return err == nil || errors.Is(err, locker.ErrNotHeld) // the first one came late
	})
	if next := w.granted(t); next.Token <= other.Token {
		t.Errorf("after %d the token is %d", other.Token, next.Token)
	}
	if _, err := l.Renew(t.Context(), held, testTTL); err != nil {
		t.Errorf("Renew of what was held all the time: %v", err)
	}
}

// A backup that is restored brings back a base and revisions of its time. Here it is
// 11 s old, which its base says.
func TestTokensRiseThroughARestoredBackup(t *testing.T) {
	t.Parallel()
	cluster := startCluster(t, 3, fast...)
	c := cluster.client()
	l := on(t, c, nil)
	mustRelease(t, l, mustAcquire(t, l, "k"))
	lag(t, c, 11*time.Second)
	restore := cluster.all.Backup()
	var last locker.Token
	again := func() {
		t.Helper()
		for range 3 {
			var lease locker.Lease
			until(t, "the lock is granted", func() (ok bool) {
				var err error
				lease, err = l.Acquire(t.Context(), "k", testTTL)
				if err != nil && !errors.Is(err, locker.ErrUnavailable) {
					t.Fatal(err)
				}
				return err == nil
			})
			if lease.Token <= last {
				t.Errorf("after %d the token is %d", last, lease.Token)
			}
			last = lease.Token
			mustRelease(t, l, lease)
		}
	}
	again()
	restore()
	again()
}

// A restored backup brings back locks that were released since. The lease that such a
// one is under is in the pool of who released it, and must not be kept alive by that.
func TestReleasedLockComesBackWithABackup(t *testing.T) {
	t.Parallel()
	cluster := startCluster(t, 1, fast...)
	const ttl = 2 * time.Second
	acquire := func(l *etcd.Locker, key string) (lease locker.Lease) {
		t.Helper()
		until(t, "the lock is granted", func() (ok bool) {
			var err error
			lease, err = l.Acquire(t.Context(), key, ttl)
			if err != nil && !errors.Is(err, locker.ErrUnavailable) && !errors.Is(err, locker.ErrHeld) {
				t.Fatal(err)
			}
			return err == nil
		})
		return lease
	}
	l := on(t, cluster.client(), nil)
	// Two leases, the one of which is in use when the backup is restored.
	first, second := acquire(l, "first"), acquire(l, "second")
	restore := cluster.all.Backup()
	for _, lease := range []locker.Lease{first, second} {
		until(t, "the lock is released", func() bool { return l.Release(t.Context(), lease) == nil })
	}
	mustRelease(t, l, acquire(l, "other"))
	restore()
	ctx, stop := context.WithCancel(t.Context())
	var busy sync.WaitGroup
	t.Cleanup(func() { stop(); busy.Wait() })
	busy.Go(func() {
		for ctx.Err() == nil {
			if lease, err := l.Acquire(ctx, "other", ttl); err == nil {
				_ = l.Release(ctx, lease)
			}
		}
	})
	another := on(t, cluster.client(), nil)
	for _, key := range []string{"first", "second"} {
		mustRelease(t, another, acquire(another, key))
	}
}
