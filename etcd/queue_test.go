package etcd_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/locker-go/locker"
	"github.com/locker-go/locker/etcd"
	"github.com/locker-go/locker/internal/testbed"
)

type waiter struct {
	done  chan struct{}
	lease locker.Lease
	err   error
}

// wait begins to wait for a lock, until the test ends.
func wait(t testing.TB, l *etcd.Locker, key string) *waiter {
	return waitWith(t.Context(), t, l, key, testTTL)
}

func waitWith(ctx context.Context, t testing.TB, l *etcd.Locker, key string, ttl time.Duration) *waiter {
	ctx, cancel := context.WithCancel(ctx)
	w := &waiter{done: make(chan struct{})}
	go func() {
		defer close(w.done)
		w.lease, w.err = l.AcquireWait(ctx, key, ttl)
	}()
	t.Cleanup(func() { cancel(); <-w.done })
	return w
}

func (w *waiter) end(t testing.TB) {
	t.Helper()
	select {
	case <-w.done:
	case <-time.After(20 * time.Second):
		t.Fatal("the wait goes on")
	}
}

func (w *waiter) granted(t testing.TB) locker.Lease {
	t.Helper()
	w.end(t)
	if w.err != nil {
		t.Fatalf("AcquireWait: %v", w.err)
	}
	return w.lease
}

// queued waits until a queue has n entries, and returns them, the oldest first.
func queued(t testing.TB, c *clientv3.Client, key string, n int) []*mvccpb.KeyValue {
	t.Helper()
	var entries []*mvccpb.KeyValue
	until(t, "the queue is as long as it should be", func() bool {
		resp, err := c.Get(t.Context(), "locker/queue/"+key+"/", clientv3.WithPrefix(),
			clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortAscend))
		if err != nil {
			t.Fatal(err)
		}
		entries = resp.Kvs
		return len(entries) == n
	})
	return entries
}

// lineUp has n wait for a key that is held, one after the other.
func lineUp(t testing.TB, c *clientv3.Client, key string, lockers ...*etcd.Locker) []*waiter {
	t.Helper()
	waiters := make([]*waiter, len(lockers))
	for i, l := range lockers {
		waiters[i] = wait(t, l, key)
		queued(t, c, key, i+2)
	}
	return waiters
}

// watching waits until n watches have begun on a server.
func watching(t testing.TB, s *testbed.Server, n int) {
	t.Helper()
	until(t, fmt.Sprintf("there are %d watches", n), func() bool {
		return count(t, s, "etcd_debugging_mvcc_watcher_total") == int64(n)
	})
}

// They get the lock in the order in which they came, and each release wakes one.
func TestWaitersAreServedInOrder(t *testing.T) {
	t.Parallel()
	cluster := startCluster(t, 1)
	c, server := cluster.client(), cluster.members[0]
	l, other := on(t, c, nil), on(t, cluster.client(), nil)
	lease := mustAcquire(t, l, "k")
	waiters := lineUp(t, c, "k", l, other, l, other, l, other, l, other, l, other)
	holder := l
	for i, w := range waiters {
		watching(t, server, 2*(len(waiters)-i)) // each its own entry, and the one ahead
		before := count(t, server, "etcd_debugging_mvcc_events_total")
		mustRelease(t, holder, lease)
		next := w.granted(t)
		if told := count(t, server, "etcd_debugging_mvcc_events_total") - before; told != 1 {
			t.Errorf("hand-off %d woke %d waiters, want 1", i, told)
		}
		if next.Token <= lease.Token {
			t.Errorf("waiter %d has the token %d after %d", i, next.Token, lease.Token)
		}
		for _, later := range waiters[i+1:] {
			select {
			case <-later.done:
				t.Fatalf("one that came later was served with waiter %d: %v", i, later.err)
			default:
			}
		}
		lease = next
		holder = []*etcd.Locker{l, other}[i%2]
	}
	mustRelease(t, holder, lease)
}

// etcd#9715, vitess#15756: a waiter that gave up left its entry, and blocked the rest.
func TestCancelledWaiterLeavesNothing(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 1).client()
	l := on(t, c, nil)
	lease := mustAcquire(t, l, "k")
	ctx, cancel := context.WithCancel(t.Context())
	gone := waitWith(ctx, t, l, "k", testTTL)
	queued(t, c, "k", 2)
	behind := wait(t, l, "k")
	queued(t, c, "k", 3)
	cancel()
	gone.end(t)
	if !errors.Is(gone.err, locker.ErrHeld) || !errors.Is(gone.err, context.Canceled) {
		t.Errorf("the wait ended with %v", gone.err)
	}
	if held, ok := errors.AsType[*locker.HeldError](gone.err); !ok || held.Token != lease.Token {
		t.Errorf("the error does not tell the holder: %v", gone.err)
	}
	queued(t, c, "k", 2)
	serverLeases(t, c, 2)
	mustRelease(t, l, lease)
	mustRelease(t, l, behind.granted(t))
	queued(t, c, "k", 0)
}

// etcd#11456, etcd#19597: a waiter whose lease had died was granted the lock, or waited
// on for ever.
func TestWaiterWhoseLeaseDiesIsTold(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 1).client()
	l := on(t, c, nil)
	lease := mustAcquire(t, l, "k")
	w := wait(t, l, "k")
	entries := queued(t, c, "k", 2)
	began := time.Now()
	if _, err := c.Revoke(t.Context(), clientv3.LeaseID(entries[1].Lease)); err != nil {
		t.Fatal(err)
	}
	w.end(t)
	if !errors.Is(w.err, locker.ErrUnavailable) || !strings.Contains(w.err.Error(), "place in the queue") {
		t.Errorf("the wait ended with %v", w.err)
	}
	if took := time.Since(began); took > 4*time.Second { // it looks by itself after 5 s
		t.Errorf("it was told after %s", took)
	}
	mustRelease(t, l, lease)
}

// What happens to the revisions that a waiter watches does not end its wait.
func TestCompactionDuringAWait(t *testing.T) {
	t.Parallel()
	cluster := startCluster(t, 1)
	c := cluster.client()
	proxy := testbed.NewProxy(t, cluster.members[0].Addr(), testbed.Bytes)
	l, far := on(t, c, nil), on(t, connect(t, proxy.Addr()), nil)
	lease := mustAcquire(t, l, "k")
	w := wait(t, far, "k")
	watching(t, cluster.members[0], 1)
	resume := proxy.Stall()
	for range 3 {
		resp, err := c.Put(t.Context(), "other", "x")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Compact(t.Context(), resp.Header.Revision); err != nil {
			t.Fatal(err)
		}
	}
	proxy.Reset() // the watches begin again, at a revision that is gone
	resume()
	mustRelease(t, l, lease)
	mustRelease(t, far, w.granted(t))
}

// A watch that goes silent, as in a partition, only makes the waiter slower.
func TestSilentWatch(t *testing.T) {
	t.Parallel()
	cluster := startCluster(t, 1)
	c := cluster.client()
	proxy := testbed.NewProxy(t, cluster.members[0].Addr(), testbed.Bytes)
	l, far := on(t, c, nil), on(t, connect(t, proxy.Addr()), &etcd.Options{RequestTimeout: time.Second})
	lease := mustAcquire(t, l, "k")
	w := wait(t, far, "k")
	watching(t, cluster.members[0], 1)
	resume := proxy.Stall()
	mustRelease(t, l, lease)
	select {
	case <-w.done:
		t.Fatalf("it was told through a stalled proxy: %v", w.err)
	case <-time.After(1500 * time.Millisecond):
	}
	resume()
	mustRelease(t, far, w.granted(t))
}

// The deadline of a lease that was waited for counts from the last keepalive.
func TestWaitIsLongerThanTheTTL(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 1, fast...).client()
	l := on(t, c, nil)
	lease := mustAcquire(t, l, "k")
	w := waitWith(t.Context(), t, l, "k", time.Second)
	queued(t, c, "k", 2)
	select {
	case <-w.done:
		t.Fatalf("the wait ended: %v", w.err)
	case <-time.After(3 * time.Second):
	}
	mustRelease(t, l, lease)
	next := w.granted(t)
	if next.TTL != time.Second || next.Remaining() == 0 {
		t.Errorf("granted %v with %s left of %s", next, next.Remaining(), next.TTL)
	}
}
