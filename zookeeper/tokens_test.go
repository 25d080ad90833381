package zookeeper_test

import (
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/locker-go/locker"
	"github.com/locker-go/locker/internal/testbed"
	"github.com/locker-go/locker/zookeeper"
)

// clock returns the token that the clock would give.
func clock() locker.Token { return locker.Token(time.Now().UnixMicro()) }

func (b *bed) base(t *testing.T) (value int64, version int32) {
	t.Helper()
	data, stat, err := b.client.Get("/" + b.namespace + "/base")
	if err != nil {
		t.Fatal(err)
	}
	value, err = strconv.ParseInt(string(data), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return value, stat.Version
}

func (b *bed) setBase(t *testing.T, data string) int64 {
	t.Helper()
	stat, err := b.client.Set("/"+b.namespace+"/base", []byte(data), -1)
	if err != nil {
		t.Fatal(err)
	}
	return stat.Mzxid
}

// lag makes the base such that tokens are behind the clock by d.
func (b *bed) lag(t *testing.T, d time.Duration) {
	t.Helper()
	value, _ := b.base(t)
	zxid := b.setBase(t, strconv.FormatInt(value, 10))
	b.setBase(t, strconv.FormatInt(time.Now().Add(-d).UnixMicro()-zxid, 10))
}

// A token is the base and the zxid of the entry's creation, by which the queue is ordered.
func testToken(t *testing.T, b *bed) {
	l := b.open(t)
	var last locker.Lease
	for i := range 3 {
		lease := mustAcquire(t, l, "k")
		name := queued(t, b.client, b.queue("k"), 1)[0]
		_, stat, err := b.client.Get(b.queue("k") + "/" + name)
		if err != nil {
			t.Fatal(err)
		}
		base, version := b.base(t)
		if want := locker.Token(base + stat.Czxid); lease.Token != want || lease.Token <= last.Token {
			t.Errorf("grant %d has the token %d, want %d", i, lease.Token, want)
		}
		if version != 0 {
			t.Errorf("the base was moved %d times within some milliseconds", version)
		}
		mustRelease(t, l, lease)
		last = lease
	}
}

// A client that has seen the base as it was must not grant by that, whoever moved it.
func testBaseMoves(t *testing.T, b *bed) {
	a, other := b.open(t), b.open(t)
	for _, l := range []*zookeeper.Locker{a, other} {
		mustRelease(t, l, mustAcquire(t, l, "k"))
	}
	b.lag(t, 5*time.Second)
	before, _ := b.base(t)
	lease := mustAcquire(t, a, "k")
	if after, _ := b.base(t); after != before {
		t.Errorf("the base moved by %d although tokens lagged the clock by 5 s only", after-before)
	}
	mustRelease(t, a, lease)

	b.lag(t, time.Minute)
	stale, version := b.base(t)
	floor := clock()
	for _, l := range []*zookeeper.Locker{a, other, a} {
		lease := mustAcquire(t, l, "k")
		if lease.Token < floor {
			t.Errorf("the token %d lags the clock, %d", lease.Token, floor)
		}
		mustRelease(t, l, lease)
		floor = lease.Token + 1
	}
	if moved, versions := b.base(t); moved <= stale || versions != version+1 {
		t.Errorf("the base went from %d to %d in %d writes", stale, moved, versions-version)
	}
}

// A base that another client moved while this one waited counts at the head.
func testRaiseReachesWaiters(t *testing.T, b *bed) {
	for name, waits := range map[string]func() *zookeeper.Locker{
		"another client":  func() *zookeeper.Locker { return b.open(t) },
		"the same client": nil,
	} {
		a := b.open(t)
		l := a
		if waits != nil {
			l = waits()
		}
		first := mustAcquire(t, a, "k")
		w := wait(t, l, "k")
		queued(t, b.client, b.queue("k"), 2)
		floor := locker.Token(time.Now().Add(5 * time.Second).UnixMicro())
		if err := a.Raise(t.Context(), "k", floor); err != nil {
			t.Fatal(err)
		}
		mustRelease(t, a, first)
		second := w.granted(t)
		if second.Token <= floor {
			t.Errorf("the token %d of a waiter of %s is not above the floor %d", second.Token, name, floor)
		}
		h, err := a.Inspect(t.Context(), "k")
		if err != nil || h.Token != second.Token || h.Holder != second.Holding().Holder {
			t.Errorf("Inspect: %v, %v; want %v", h, err, second)
		}
		if token, err := l.FenceToken(t.Context(), second); err != nil || token != second.Token {
			t.Errorf("FenceToken: %d, %v", token, err)
		}
		mustRelease(t, l, second)
	}
}

// Tokens never go back, and who asked is told once.
func testClockOfAnotherIsFast(t *testing.T, b *bed) {
	var events []locker.Event
	dialer := new(zookeeper.Dialer)
	driver(t, time.Minute, dialer, b.server.Addr())
	l, err := zookeeper.New(dialer, &zookeeper.Options{Namespace: b.namespace, OnEvent: func(e locker.Event) { events = append(events, e) }})
	if err != nil {
		t.Fatal(err)
	}
	defer closeLocker(t, l)
	mustRelease(t, l, mustAcquire(t, l, "k"))
	if len(events) != 0 {
		t.Errorf("events although clocks agree: %v", events)
	}
	b.lag(t, -time.Hour)
	for range 2 {
		lease := mustAcquire(t, l, "k")
		if lease.Token < clock() {
			t.Errorf("the token went back to %d", lease.Token)
		}
		mustRelease(t, l, lease)
	}
	if len(events) != 1 || events[0].Kind != locker.EventFenceJumped {
		t.Errorf("events: %v, want one that the fence jumped", events)
	}
}

func testSpoiledBase(t *testing.T, b *bed) {
	l := b.open(t)
	b.setBase(t, "x")
	if _, err := l.Acquire(t.Context(), "k", testTTL); !errors.Is(err, locker.ErrUnavailable) {
		t.Errorf("Acquire: %v", err)
	}
	queued(t, b.client, b.queue("k"), 0)
}

// A new leader begins its zxids 2^32 above: tokens run ahead of the clock, and rise. The
// loss of all data is found out, as long as they did not.
func testTokensThroughLossAndElection(t *testing.T, servers *testbed.ZooKeeperServers) {
	servers.Restart(false)
	l := open(t, "zookeeper://"+testbed.Join(servers.Servers)+"?session_timeout=60s")
	acquire := func() (lease locker.Lease) {
		t.Helper()
		until(t, "the lock is granted", func() bool {
			var err error
			lease, err = l.Acquire(t.Context(), "k", testTTL)
			if err != nil && !errors.Is(err, locker.ErrUnavailable) {
				t.Fatal(err)
			}
			return err == nil
		})
		mustRelease(t, l, lease)
		return lease
	}
	first := acquire()
	servers.Restart(false)
	second := acquire()
	if second.Token <= first.Token || second.Token > clock()+1e6 {
		t.Errorf("after the loss of all data %d follows %d, at %d", second.Token, first.Token, clock())
	}
	servers.Leader().Kill()
	third := acquire()
	if third.Token < second.Token+1<<32-1<<20 {
		t.Errorf("after an election %d follows %d", third.Token, second.Token)
	}
	high, err := l.HighWater(t.Context())
	if err != nil || high < third.Token {
		t.Errorf("the high-water mark is %d, %v, below %d", high, err, third.Token)
	}
}
