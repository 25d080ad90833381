package etcd_test

import (
	"errors"
	"strconv"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/locker-go/locker"
	"github.com/locker-go/locker/etcd"
)

// now returns the token that the clock would give.
func now() locker.Token { return locker.Token(time.Now().UnixMicro()) }

func storedBase(t testing.TB, c *clientv3.Client) (value, version int64) {
	t.Helper()
	resp, err := c.Get(t.Context(), "locker/base")
	if err != nil {
		t.Fatal(err)
	}
	if len(resp.Kvs) == 0 {
		return 0, 0
	}
	value, err = strconv.ParseInt(string(resp.Kvs[0].Value), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return value, resp.Kvs[0].Version
}

// lag makes the base such that tokens are behind the clock by d.
func lag(t testing.TB, c *clientv3.Client, d time.Duration) {
	t.Helper()
	resp, err := c.Get(t.Context(), "locker/base")
	if err != nil {
		t.Fatal(err)
	}
	value := time.Now().Add(-d).UnixMicro() - resp.Header.Revision
	if _, err := c.Put(t.Context(), "locker/base", strconv.FormatInt(value, 10)); err != nil {
		t.Fatal(err)
	}
}

func TestTokenIsBasePlusCreateRevision(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 1).client()
	l := on(t, c, nil)
	var last locker.Lease
	for i := range 3 {
		lease := mustAcquire(t, l, "k")
		resp, err := c.Get(t.Context(), "locker/queue/k/", clientv3.WithPrefix())
		if err != nil || len(resp.Kvs) != 1 {
			t.Fatalf("the queue has %v, %v", resp, err)
		}
		base, version := storedBase(t, c)
		if want := locker.Token(base + resp.Kvs[0].CreateRevision); lease.Token != want || lease.Token <= last.Token {
			t.Errorf("grant %d has the token %d, want %d", i, lease.Token, want)
		}
		if version != 1 {
			t.Errorf("the base was written %d times within some milliseconds", version)
		}
		mustRelease(t, l, lease)
		last = lease
	}
}

// A client that has seen the base as it was must not grant by that, whoever moved it.
func TestBaseMovesWithTheClock(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 1).client()
	a, b := on(t, c, nil), on(t, c, nil)
	for _, l := range []*etcd.Locker{a, b} {
		mustRelease(t, l, mustAcquire(t, l, "k"))
	}
	lag(t, c, 5*time.Second)
	before, _ := storedBase(t, c)
	lease := mustAcquire(t, a, "k")
	if after, _ := storedBase(t, c); after != before {
		t.Errorf("the base moved by %d although tokens lagged the clock by 5 s only", after-before)
	}
	mustRelease(t, a, lease)

	lag(t, c, time.Minute)
	stale, version := storedBase(t, c)
	floor := now()
	for _, l := range []*etcd.Locker{a, b, a} {
		lease := mustAcquire(t, l, "k")
		if lease.Token < floor {
			t.Errorf("the token %d lags the clock, %d", lease.Token, floor)
		}
		mustRelease(t, l, lease)
		floor = lease.Token + 1
	}
	moved, versions := storedBase(t, c)
	if moved <= stale || versions != version+1 {
		t.Errorf("the base went from %d to %d in %d writes", stale, moved, versions-version)
	}
}

// A base that another client moved while this one waited counts at the head.
func TestRaiseReachesWaiters(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 1).client()
	a, b := on(t, c, nil), on(t, c, nil)
	first := mustAcquire(t, a, "k")
	w := wait(t, b, "k")
	queued(t, c, "k", 2)
	floor := locker.Token(time.Now().Add(5 * time.Second).UnixMicro())
	if err := a.Raise(t.Context(), "k", floor); err != nil {
		t.Fatal(err)
	}
	mustRelease(t, a, first)
	second := w.granted(t)
	if second.Token <= floor {
		t.Errorf("the waiter's token %d is not above the floor %d", second.Token, floor)
	}
	h, err := a.Inspect(t.Context(), "k")
	if err != nil || h.Token != second.Token || h.Holder != second.Holding().Holder {
		t.Errorf("Inspect: %v, %v; want %v", h, err, second)
	}
	if token, err := a.FenceToken(t.Context(), second); err != nil || token != second.Token {
		t.Errorf("FenceToken: %d, %v", token, err)
	}
	mustRelease(t, b, second)
}

func TestTokensRiseThroughLossOfAllData(t *testing.T) {
	t.Parallel()
	cluster := startCluster(t, 3, fast...)
	// A snapshot that is restored brings a base and revisions of the past: so does a
	// wipe, and an old base put back.
	l := open(t, cluster.url())
	last := mustAcquire(t, l, "k")
	mustRelease(t, l, last)
	for round := range 2 {
		cluster.restart(false)
		until(t, "the cluster serves", func() bool { return serves(t.Context(), cluster.members[0].Addr()) == nil })
		if round == 1 {
			lag(t, cluster.client(), time.Hour)
		}
		var lease locker.Lease
		until(t, "the lock is granted", func() (ok bool) {
			var err error
			lease, err = l.Acquire(t.Context(), "k", testTTL)
			if err != nil && !errors.Is(err, locker.ErrUnavailable) {
				t.Fatal(err)
			}
			return err == nil
		})
		if lease.Token <= last.Token {
			t.Errorf("after %d the token is %d", last.Token, lease.Token)
		}
		mustRelease(t, l, lease)
		last = lease
	}
}

func TestClockOfAnotherClientIsFast(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 1).client()
	var events []locker.Event
	l := on(t, c, &etcd.Options{OnEvent: func(e locker.Event) { events = append(events, e) }})
	mustRelease(t, l, mustAcquire(t, l, "k"))
	if len(events) != 0 {
		t.Errorf("events although clocks agree: %v", events)
	}
	lag(t, c, -time.Hour)
	lease := mustAcquire(t, l, "k")
	if lease.Token < now() {
		t.Errorf("the token went back to %d", lease.Token)
	}
	if len(events) != 1 || events[0].Kind != locker.EventFenceJumped {
		t.Errorf("events: %v, want that the fence jumped", events)
	}
}

func TestSpoiledBaseIsRefused(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 1).client()
	l := on(t, c, nil)
	if _, err := c.Put(t.Context(), "locker/base", "x"); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Acquire(t.Context(), "k", testTTL); !errors.Is(err, locker.ErrUnavailable) {
		t.Errorf("Acquire: %v", err)
	}
	queued(t, c, "k", 0)
}
