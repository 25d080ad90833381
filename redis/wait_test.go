package redis_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/locker-go/locker"
	"github.com/locker-go/locker/internal/testbed"
	lockredis "github.com/locker-go/locker/redis"
)

// A waiter takes over from a holder that crashed, and never early. BenchmarkTakeover
// says how late.
func TestTakeover(t *testing.T) {
	t.Parallel()
	server := testbed.Redis(t)
	takeOver(t, server, "k")
}

// takeOver returns how long after its TTL the key of a dead holder is taken over.
func takeOver(t testing.TB, server *testbed.Server, key string) time.Duration {
	const ttl = 300 * time.Millisecond
	holder := on(t, connect(t, server.Addr()), nil)
	waiter := on(t, connect(t, server.Addr()), nil)
	asked := time.Now()
	dead, err := holder.Acquire(t.Context(), key, ttl)
	if err != nil {
		t.Fatal(err)
	}
	lease, err := waiter.AcquireWait(t.Context(), key, testTTL)
	if err != nil {
		t.Fatal(err)
	}
	late := time.Since(asked) - ttl
	if early := dead.Remaining(); early > 0 {
		t.Errorf("taken over %s before the holder's deadline", early)
	}
	if lease.Token <= dead.Token {
		t.Errorf("token %d after %d", lease.Token, dead.Token)
	}
	return late
}

// BenchmarkTakeover reports the longest that a waiter took over after the TTL of a
// crashed holder.
func BenchmarkTakeover(b *testing.B) {
	server := testbed.Redis(b)
	var worst time.Duration
	for i := range 10 {
		worst = max(worst, takeOver(b, server, fmt.Sprint(i)))
	}
	b.ReportMetric(float64(worst.Microseconds())/1000, "ms-after-ttl")
}

// vitess#15756, go-zk#76: cancelled waiters left something behind. 10,000 of them
// leave no memory, no goroutine and no subscription.
func TestCancelledWaiters(t *testing.T) {
	server := testbed.Redis(t)
	c := connect(t, server.Addr())
	l := on(t, connect(t, server.Addr()), nil)
	const keys, perKey = 500, 20
	for i := range keys {
		if _, err := l.Acquire(t.Context(), fmt.Sprint(i), time.Hour); err != nil {
			t.Fatal(err)
		}
	}
	wait := func() {
		var wg sync.WaitGroup
		slots := make(chan struct{}, 200)
		for i := range keys * perKey {
			slots <- struct{}{}
			wg.Go(func() {
				defer func() { <-slots }()
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
				defer cancel()
				_, err := l.AcquireWait(ctx, fmt.Sprint(i%keys), testTTL)
				if !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("wait = %v, want DeadlineExceeded", err)
				}
			})
		}
		wg.Wait()
	}
	wait()
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapInuse
	}
	before := heap()
	wait()
	if after := heap(); after > before+2<<20 {
		t.Errorf("10,000 cancelled waits keep %d KiB", (after-before)>>10)
	}
	until(t, "nothing is subscribed", func() bool {
		n, err := c.PubSubChannels(t.Context(), "*").Result()
		return err == nil && len(n) == 0
	})
}

// Both why the wait ended and that the lock was held can be asked for.
func TestWaitEnds(t *testing.T) {
	server := testbed.Redis(t)
	l := on(t, connect(t, server.Addr()), nil)
	lease := mustAcquire(t, l, "k")
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { _, err := l.AcquireWait(ctx, "k", testTTL); done <- err }()
	c := connect(t, server.Addr())
	until(t, "the waiter listens", func() bool { return listening(t, c, "locker:k") == 1 })
	cancel()
	err := <-done
	held, ok := errors.AsType[*locker.HeldError](err)
	if !errors.Is(err, context.Canceled) || !ok || held.Token != lease.Token {
		t.Errorf("wait = %v; want Canceled, and held with token %d", err, lease.Token)
	}
}

// Waiters are woken; they do not poll. While a lock is held by a living program, a
// waiter sends a few requests to find that out and subscribe, and then none.
func TestWaitersAreQuiet(t *testing.T) {
	server := testbed.Redis(t)
	c := connect(t, server.Addr())
	holder := on(t, connect(t, server.Addr()), nil)
	lease := mustAcquire(t, holder, "k")
	const waiters = 8
	var wg sync.WaitGroup
	for range waiters {
		l := on(t, connect(t, server.Addr()), nil)
		wg.Go(func() {
			next, err := l.AcquireWait(t.Context(), "k", testTTL)
			if err == nil {
				err = l.Release(t.Context(), next)
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	until(t, "all listen", func() bool { return listening(t, c, "locker:k") == waiters })
	// What a waiter does once it listens is to ask once more.
	quiet := calls(t, c, "evalsha", "eval")
	until(t, "they have asked", func() bool {
		time.Sleep(50 * time.Millisecond)
		n := calls(t, c, "evalsha", "eval")
		same := n == quiet
		quiet = n
		return same
	})
	before := calls(t, c, "evalsha", "eval")
	if err := holder.Release(t.Context(), lease); err != nil {
		t.Fatal(err)
	}
	wg.Wait()
	n := calls(t, c, "evalsha", "eval") - before
	t.Logf("%d requests for %d hand-offs", n, waiters)
	if n > 6*waiters {
		t.Errorf("%d requests for %d hand-offs, want at most 6 each", n, waiters)
	}
}

// A user who may not use channels can wait all the same, by asking.
func TestWithoutChannels(t *testing.T) {
	server := testbed.Redis(t)
	admin := connect(t, server.Addr())
	if err := admin.Do(t.Context(), "ACL", "SETUSER", "plain", "on", ">pw", "resetchannels", "~*", "+@all").Err(); err != nil {
		t.Fatal(err)
	}
	l := open(t, "redis://plain:pw@"+server.Addr())
	waiter := open(t, "redis://plain:pw@"+server.Addr())
	lease := mustAcquire(t, l, "k")
	done := make(chan error, 1)
	go func() { _, err := waiter.AcquireWait(t.Context(), "k", testTTL); done <- err }()
	until(t, "the waiter asks", func() bool { return calls(t, admin, "evalsha", "eval") > 4 })
	if err := l.Release(t.Context(), lease); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// The commands, keys and channels that the package documents are enough.
func TestLeastPrivileges(t *testing.T) {
	server := testbed.Redis(t)
	admin := connect(t, server.Addr())
	args := []any{"ACL", "SETUSER", "app", "on", ">pw", "resetchannels", "&locker:*", "~locker:*", "~{*}?fence:locker:*"}
	for _, command := range []string{"evalsha", "eval", "get", "set", "append", "del", "pexpire", "pttl", "time", "publish", "subscribe", "unsubscribe", "ping", "scan"} {
		args = append(args, "+"+command)
	}
	if err := admin.Do(t.Context(), args...).Err(); err != nil {
		t.Fatal(err)
	}
	l := open(t, "redis://app:pw@"+server.Addr())
	lease := mustAcquire(t, l, "k")
	done := make(chan error, 1)
	go func() {
		next, err := l.AcquireWait(t.Context(), "k", testTTL)
		if err == nil {
			err = l.Release(t.Context(), next)
		}
		done <- err
	}()
	until(t, "the waiter listens", func() bool { return listening(t, admin, "locker:k") == 1 })
	if _, err := l.Renew(t.Context(), lease, testTTL); err != nil {
		t.Error(err)
	}
	for _, err := range l.Holdings(t.Context(), "") {
		if err != nil {
			t.Error(err)
		}
	}
	if _, err := l.HighWater(t.Context()); err != nil {
		t.Error(err)
	}
	if err := l.Release(t.Context(), lease); err != nil {
		t.Error(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	other := on(t, connect(t, server.Addr()), &lockredis.Options{Namespace: "other"})
	mustAcquire(t, other, "k")
	if _, err := open(t, "redis://app:pw@"+server.Addr()+"?namespace=other").Acquire(t.Context(), "k2", testTTL); !errors.Is(err, locker.ErrUnavailable) {
		t.Errorf("acquire in another namespace = %v, want ErrUnavailable", err)
	}
}
