package zookeeper_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/locker-go/locker"
	"github.com/locker-go/locker/internal/testbed"
	"github.com/locker-go/locker/zookeeper"
)

type waiter struct {
	done  chan struct{}
	lease locker.Lease
	err   error
}

// wait begins to wait for a lock, until the test ends.
func wait(t testing.TB, l *zookeeper.Locker, key string) *waiter {
	return waitWith(t.Context(), t, l, key)
}

func waitWith(ctx context.Context, t testing.TB, l *zookeeper.Locker, key string) *waiter {
	ctx, cancel := context.WithCancel(ctx)
	w := &waiter{done: make(chan struct{})}
	go func() {
		defer close(w.done)
		w.lease, w.err = l.AcquireWait(ctx, key, testTTL)
	}()
	t.Cleanup(func() { cancel(); <-w.done })
	return w
}

func (w *waiter) end(t testing.TB) {
	t.Helper()
	select {
	case <-w.done:
	case <-time.After(30 * time.Second):
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

func (w *waiter) waiting() bool {
	select {
	case <-w.done:
		return false
	default:
		return true
	}
}

// inOrder has ten wait for a lock, one after the other, and passes it on to each. It
// returns how many requests went through the proxy at each hand-off.
func inOrder(t *testing.T, b *bed, lockers ...*zookeeper.Locker) []map[string]int {
	t.Helper()
	l := lockers[0]
	lease := mustAcquire(t, l, "k")
	var waiters []*waiter
	for i := range 10 {
		waiters = append(waiters, wait(t, lockers[(i+1)%len(lockers)], "k"))
		queued(t, b.client, b.queue("k"), i+2)
	}
	until(t, "all watch", func() bool {
		return len(b.count(func() { time.Sleep(200 * time.Millisecond) })) == 0
	})
	var costs []map[string]int
	for i, w := range waiters {
		var next locker.Lease
		costs = append(costs, b.count(func() {
			mustRelease(t, l, lease)
			next = w.granted(t)
		}))
		if next.Token <= lease.Token {
			t.Errorf("waiter %d has the token %d after %d", i, next.Token, lease.Token)
		}
		for j, later := range waiters[i+1:] {
			if !later.waiting() {
				t.Fatalf("waiter %d was served with waiter %d: %v", i+1+j, i, later.err)
			}
		}
		l, lease = lockers[(i+1)%len(lockers)], next
	}
	mustRelease(t, l, lease)
	queued(t, b.client, b.queue("k"), 0)
	return costs
}

// They get the lock in the order in which they came, and each release wakes one, which
// looks once.
func testOrder(t *testing.T, b *bed) {
	began := time.Now()
	costs := inOrder(t, b, b.openFar(t), b.openFar(t))
	if time.Since(began) > 4*time.Second {
		return // they may have looked by themselves
	}
	for i, cost := range costs {
		// The first guesses that nobody waits.
		if reads := cost["getChildren"] + cost["getData"] + cost["sync"]; reads != 1 || cost["multi"]+cost["delete"] > 2 {
			t.Errorf("hand-off %d took %v, want one listing, and one write or two", i, cost)
		}
	}
}

// Within one client nobody has to look: the release itself proves who is next.
func testOrderInOneClient(t *testing.T, b *bed) {
	began := time.Now()
	costs := inOrder(t, b, b.openFar(t))
	if time.Since(began) > 4*time.Second {
		return
	}
	for i, cost := range costs {
		if len(cost) != 1 || cost["multi"] != 1 {
			t.Errorf("hand-off %d took %v, want one write", i, cost)
		}
	}
}

// etcd#9715, vitess#15756: a waiter that gave up left its entry, and blocked the rest.
func testCancelledWaiter(t *testing.T, b *bed) {
	for _, l := range []*zookeeper.Locker{b.open(t), b.open(t)} {
		holder := b.open(t)
		lease := mustAcquire(t, holder, "k")
		ctx, cancel := context.WithCancel(t.Context())
		gone := waitWith(ctx, t, l, "k")
		queued(t, b.client, b.queue("k"), 2)
		behind := wait(t, l, "k")
		queued(t, b.client, b.queue("k"), 3)
		cancel()
		gone.end(t)
		if !errors.Is(gone.err, locker.ErrHeld) || !errors.Is(gone.err, context.Canceled) {
			t.Errorf("the wait ended with %v", gone.err)
		}
		if held, ok := errors.AsType[*locker.HeldError](gone.err); !ok || held.Token != lease.Token {
			t.Errorf("the error does not tell the holder: %v", gone.err)
		}
		queued(t, b.client, b.queue("k"), 2)
		mustRelease(t, holder, lease)
		mustRelease(t, l, behind.granted(t))
		queued(t, b.client, b.queue("k"), 0)
	}
}

// go-zk#76, samuel#110: watches of waiters that gave up stayed for ever.
func testManyCancelledWaiters(t *testing.T, b *bed) {
	holder, l := b.open(t), b.open(t)
	lease := mustAcquire(t, holder, "k")
	cancelled := func(n int) {
		var wg sync.WaitGroup
		for range 50 {
			wg.Go(func() {
				for range n / 50 {
					ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
					_, err := l.AcquireWait(ctx, "k", testTTL)
					cancel()
					if !errors.Is(err, context.DeadlineExceeded) {
						t.Errorf("AcquireWait: %v", err)
						return
					}
				}
			})
		}
		wg.Wait()
	}
	watches := func() int {
		n, err := strconv.Atoi(testbed.ZooKeeperStats(t, b.server)["zk_watch_count"])
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	const many = 10_000
	cancelled(many / 10)
	before, watchesBefore := zookeeper.Kept(l), watches()
	cancelled(many)
	// Others use the server too, but a few hundred watches are all that they could have.
	if n := watches() - watchesBefore; n > many/20 {
		t.Errorf("%d waits that were cancelled left %d watches on the server", many, n)
	}
	if after := zookeeper.Kept(l); after > before+2 {
		t.Errorf("the client remembers %d things, after %d", after, before)
	}
	if names := queued(t, b.client, b.queue("k"), 1); !strings.HasPrefix(names[0], lease.Handle) {
		t.Errorf("the queue has %q, want the holder %q", names, lease.Handle)
	}
	mustRelease(t, holder, lease)
}

// etcd#11456, etcd#19597: a waiter whose place was gone was granted the lock, or waited on
// for ever.
func testPlaceLost(t *testing.T, b *bed) {
	holder := b.open(t)
	for _, l := range []*zookeeper.Locker{b.open(t), holder} {
		lease := mustAcquire(t, holder, "k")
		w := wait(t, l, "k")
		for _, name := range queued(t, b.client, b.queue("k"), 2) {
			if name != lease.Handle {
				if err := b.client.Delete(b.queue("k")+"/"+name, -1); err != nil {
					t.Fatal(err)
				}
			}
		}
		mustRelease(t, holder, lease)
		w.end(t)
		if !errors.Is(w.err, locker.ErrUnavailable) || !strings.Contains(w.err.Error(), "place in the queue") {
			t.Errorf("the wait ended with %v, %v", w.lease, w.err)
		}
	}
}

// CURATOR-527: the one before vanished between the listing and the watch.
func testPredecessorVanishes(t *testing.T, b *bed) {
	holder, l := b.open(t), b.openFar(t)
	mustRelease(t, l, mustAcquire(t, l, "other")) // so that it has read the base
	lease := mustAcquire(t, holder, "k")
	deliver := b.proxy.HoldRequest("getData")
	before := len(b.proxy.Requests())
	w := wait(t, l, "k")
	until(t, "the watch is on its way", func() bool {
		return strings.Contains(strings.Join(b.proxy.Requests()[before:], " "), "getData")
	})
	mustRelease(t, holder, lease)
	released := time.Now()
	deliver()
	mustRelease(t, l, w.granted(t))
	if took := time.Since(released); took > 4*time.Second { // it looks by itself after 5 s
		t.Errorf("it was served after %s", took)
	}
}

// A connection that is lost, again and again, costs a waiter nothing but its watch.
func testConnectionLostDuringAWait(t *testing.T, b *bed) {
	holder, l := b.open(t), b.openFar(t)
	lease := mustAcquire(t, holder, "k")
	w := wait(t, l, "k")
	names := queued(t, b.client, b.queue("k"), 2)
	for range 3 {
		connects := b.count(b.proxy.Reset)["connect"]
		until(t, "the client is back", func() bool {
			_, err := l.HighWater(t.Context())
			return err == nil && connects >= 0
		})
	}
	if again := queued(t, b.client, b.queue("k"), 2); fmt.Sprint(again) != fmt.Sprint(names) {
		t.Errorf("the queue became %q of %q", again, names)
	}
	mustRelease(t, holder, lease)
	mustRelease(t, l, w.granted(t))
}

// samuel#229: the reply to the creation of an entry was lost, and the ghost blocked all.
func testLostReplyOfAWaiter(t *testing.T, b *bed) {
	holder, l := b.open(t), b.openFar(t)
	lease := mustAcquire(t, holder, "k")
	b.proxy.LoseReply("create")
	creates := func() (n int) {
		for _, name := range b.proxy.Requests() {
			if name == "create" {
				n++
			}
		}
		return n
	}
	before := creates()
	w := wait(t, l, "k")
	until(t, "it has lined up again", func() bool { return creates() == before+2 })
	queued(t, b.client, b.queue("k"), 2)
	mustRelease(t, holder, lease)
	mustRelease(t, l, w.granted(t))
	queued(t, b.client, b.queue("k"), 0)
}

// jepsen's etcd lock: an acquire that was given up completed later, and jammed the lock.
func testLateRequest(t *testing.T, b *bed) {
	l := b.openFar(t)
	deliver := b.proxy.HoldRequest("multi")
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	done := make(chan error, 1)
	go func() { _, err := l.Acquire(ctx, "k", testTTL); done <- err }()
	<-ctx.Done()
	time.Sleep(50 * time.Millisecond) // nothing tells that it is being undone
	deliver()
	if err := <-done; !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Acquire: %v", err)
	}
	queued(t, b.client, b.queue("k"), 0)
	other := b.open(t)
	mustRelease(t, other, mustAcquire(t, other, "k"))
}

// samuel#64: a node that something else had put there broke the lock.
func testForeignChildren(t *testing.T, b *bed) {
	holder, l := b.open(t), b.open(t)
	mustRelease(t, holder, mustAcquire(t, holder, "other")) // makes what is above the queues
	acl := zk.WorldACL(zk.PermAll)
	for _, path := range []string{"", "/foreign", "/lock-0000000000", "/" + strings.Repeat("A", 26) + "-", "/" + strings.Repeat("A", 26) + "-x"} {
		if _, err := b.client.Create(b.queue("k")+path, nil, 0, acl); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		lease := mustAcquire(t, holder, "k")
		if _, err := l.Acquire(t.Context(), "k", testTTL); !errors.Is(err, locker.ErrHeld) {
			t.Errorf("Acquire of a held key: %v", err)
		}
		w := wait(t, l, "k")
		queued(t, b.client, b.queue("k"), 6)
		if h, err := l.Inspect(t.Context(), "k"); err != nil || h.Token != lease.Token {
			t.Errorf("Inspect: %v, %v", h, err)
		}
		mustRelease(t, holder, lease)
		mustRelease(t, l, w.granted(t))
		queued(t, b.client, b.queue("k"), 4)
	}
	for h, err := range l.Holdings(t.Context(), "") {
		t.Errorf("something is held: %v, %v", h, err)
	}
}

// kazoo#730: when the numbers of the server overflowed, the order of the queue broke.
func testNumbersOverflow(t *testing.T, b *bed) {
	l := b.open(t)
	mustRelease(t, l, mustAcquire(t, l, "other"))
	acl := zk.WorldACL(zk.PermAll)
	if _, err := b.client.Create(b.queue("k"), nil, 0, acl); err != nil {
		t.Fatal(err)
	}
	// As the server writes it: the entry before the one of number 0.
	last := b.queue("k") + "/" + strings.Repeat("A", 26) + "-" + fmt.Sprintf("%010d", -1)
	if _, err := b.client.Create(last, []byte("1 host.1#abcd"), zk.FlagEphemeral, acl); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Acquire(t.Context(), "k", testTTL); !errors.Is(err, locker.ErrHeld) || !strings.Contains(err.Error(), "host.1#abcd") {
		t.Errorf("Acquire: %v", err)
	}
	w := wait(t, l, "k")
	queued(t, b.client, b.queue("k"), 2)
	if err := b.client.Delete(last, -1); err != nil {
		t.Fatal(err)
	}
	mustRelease(t, l, w.granted(t))
}

// A holder whose node was removed finds out, and its waiters go on, in its own client too.
func testHolderVanishes(t *testing.T, b *bed) {
	holder := b.open(t)
	for _, l := range []*zookeeper.Locker{b.open(t), holder} {
		lease := mustAcquire(t, holder, "k")
		w := wait(t, l, "k")
		queued(t, b.client, b.queue("k"), 2)
		if err := b.client.Delete(b.queue("k")+"/"+lease.Handle, -1); err != nil {
			t.Fatal(err)
		}
		if _, err := holder.Renew(t.Context(), lease, testTTL); !errors.Is(err, locker.ErrNotHeld) {
			t.Errorf("Renew: %v", err)
		}
		if err := holder.Release(t.Context(), lease); !errors.Is(err, locker.ErrNotHeld) { // go-zk's Lock said "deadlock" for ever
			t.Errorf("Release: %v", err)
		}
		mustRelease(t, l, w.granted(t))
		mustRelease(t, holder, mustAcquire(t, holder, "k"))
	}
}

// kazoo#329, Netflix/curator#307: the directories of keys stayed, by the million.
func testDirectoriesAreRemoved(t *testing.T, b *bed) {
	a, c := b.open(t), b.open(t)
	for i := range 20 {
		mustRelease(t, a, mustAcquire(t, a, fmt.Sprint("alone", i)))
	}
	if left := childrenOf(t, b.client, "/"+b.namespace+"/queue"); len(left) != 0 {
		t.Errorf("the directories %q are left", left)
	}
	lease := mustAcquire(t, a, "crowded")
	ctx, cancel := context.WithCancel(t.Context())
	w := waitWith(ctx, t, c, "crowded")
	queued(t, b.client, b.queue("crowded"), 2)
	next := wait(t, c, "crowded")
	queued(t, b.client, b.queue("crowded"), 3)
	cancel()
	w.end(t)
	mustRelease(t, a, lease)
	mustRelease(t, c, next.granted(t))
	queued(t, b.client, "/"+b.namespace+"/queue", 0)
}

// Those of clients that died are found by others.
func testDirectoriesOfTheDead(t *testing.T, b *bed) {
	l := b.open(t)
	for i := range 5 {
		dead := b.open(t)
		mustAcquire(t, dead, fmt.Sprint("dead", i))
		if err := dead.Close(); err != nil { // the session ends, and with it what it holds
			t.Fatal(err)
		}
	}
	lease := mustAcquire(t, l, "alive")
	queued(t, b.client, "/"+b.namespace+"/queue", 6)
	zookeeper.SweepAll(t.Context(), l)
	queued(t, b.client, "/"+b.namespace+"/queue", 1)
	if _, err := l.FenceToken(t.Context(), lease); err != nil {
		t.Errorf("the lock that is held: %v", err)
	}
}
