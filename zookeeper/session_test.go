package zookeeper_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/locker-go/locker"
	"github.com/locker-go/locker/internal/testbed"
	"github.com/locker-go/locker/zookeeper"
)

const tick = testbed.ZooKeeperTick

// A session cannot promise a lease as long as itself, and the lease says so.
func testLeaseIsShorterThanTheSession(t *testing.T, b *bed) {
	for _, tt := range []struct {
		parameters string
		ask, most  time.Duration
	}{
		{"", testTTL, testTTL},
		{"", time.Hour, 60*time.Second - 20*time.Second - time.Second},
		{"&tick_time=20s", time.Hour, 60*time.Second - 20*time.Second - 10*time.Second},
	} {
		l := open(t, b.url(tt.parameters))
		lease, err := l.Acquire(t.Context(), "k", tt.ask)
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if lease.TTL > tt.most || lease.TTL < tt.most-time.Second || lease.Remaining() > lease.TTL-lease.TTL/100 {
				t.Errorf("asked for %s in a session of 60 s: %s, with %s left; want %s", tt.ask, lease.TTL, lease.Remaining(), tt.most)
			}
			if lease, err = l.Renew(t.Context(), lease, tt.ask); err != nil {
				t.Fatal(err)
			}
		}
		mustRelease(t, l, lease)
	}
}

// brief returns a URL of the server through the proxy, for short sessions.
func (b *bed) brief(timeout time.Duration) string {
	return fmt.Sprintf("zookeeper://%s?session_timeout=%s&request_timeout=500ms&tick_time=%s&namespace=%s", b.proxy.Addr(), timeout, tick, b.namespace)
}

// takeOver asks for the lock of a lease until it has it, and checks that its holder does
// not count on it any more.
func takeOver(t *testing.T, l *zookeeper.Locker, lease locker.Lease) locker.Lease {
	t.Helper()
	var next locker.Lease
	until(t, "the lock is free", func() bool {
		var err error
		next, err = l.Acquire(t.Context(), lease.Key, testTTL)
		left := lease.Remaining()
		switch {
		case err == nil && left > 0:
			t.Errorf("the lock was granted %s before the holder's deadline", left)
		case err != nil && !errors.Is(err, locker.ErrHeld):
			t.Fatal(err)
		}
		return err == nil
	})
	return next
}

// The session expires while its holder cannot reach the server. Its deadline comes first.
// The driver goes on with a new session, silently: no lock of the old one is renewed.
func testSessionExpires(t *testing.T, b *bed) {
	const timeout = time.Second
	l, other := open(t, b.brief(timeout)), b.open(t)
	lease := mustAcquire(t, l, "k")
	lease, err := l.Renew(t.Context(), lease, testTTL)
	if err != nil {
		t.Fatal(err)
	}
	granted, died := lease.TTL, time.Now()
	w := wait(t, other, "k")
	resume := b.proxy.Stall()
	next := w.granted(t)
	if left := lease.Remaining(); left > 0 {
		t.Errorf("the lock was granted %s before the holder's deadline", left)
	}
	// What is documented: at most the session's timeout after the last sign of life, which
	// the server rounds up to a tick, and then a tick or so until it is done.
	took := time.Since(died)
	t.Logf("taken over %s after the last renewal, for %s of a session of %s: %s later than the TTL", took, granted, timeout, took-granted)
	if most := timeout + 2*tick + time.Second; took > most {
		t.Errorf("it took longer than %s", most)
	}
	if next.Token <= lease.Token {
		t.Errorf("the token %d follows %d", next.Token, lease.Token)
	}
	resume()
	until(t, "the holder is told", func() bool {
		_, err := l.Renew(t.Context(), lease, testTTL)
		return errors.Is(err, locker.ErrNotHeld)
	})
	if err := l.Release(t.Context(), lease); !errors.Is(err, locker.ErrNotHeld) {
		t.Errorf("Release: %v", err)
	}
	if _, err := other.FenceToken(t.Context(), next); err != nil {
		t.Errorf("the successor: %v", err)
	}
	mustRelease(t, other, next)
	var again locker.Lease
	until(t, "the client has a new session", func() bool {
		again, err = l.Acquire(t.Context(), "k", testTTL)
		return err == nil
	})
	mustRelease(t, l, again)
}

// CURATOR-604, 620, 653, 696: the entry of a session that had expired was taken for one
// of the new session. A waiter whose session is over is told.
func testSessionExpiresDuringAWait(t *testing.T, b *bed) {
	l, holder := open(t, b.brief(time.Second)), b.open(t)
	lease := mustAcquire(t, holder, "k")
	w := wait(t, l, "k")
	queued(t, b.client, b.queue("k"), 2)
	resume := b.proxy.Stall()
	queued(t, b.client, b.queue("k"), 1)
	resume()
	w.end(t)
	if !errors.Is(w.err, locker.ErrUnavailable) || errors.Is(w.err, locker.ErrHeld) {
		t.Errorf("the wait ended with %v", w.err)
	}
	queued(t, b.client, b.queue("k"), 1)
	mustRelease(t, holder, lease)
}

// A follower that is cut from its leader goes on to answer pings and reads, of a session
// that the leader has let expire. The deadline goes by what the leader was sure to know.
func TestFollowerIsCutFromItsLeader(t *testing.T) {
	t.Parallel()
	servers := testbed.ZooKeeperIsolable(t, 3)
	leader := servers.Leader()
	follower := servers.Servers[(slices.Index(servers.Servers, leader)+1)%3]
	l := open(t, "zookeeper://"+follower.Addr()+"?session_timeout=2s&request_timeout=1s&tick_time="+tick.String())
	other := open(t, "zookeeper://"+leader.Addr())
	lease := mustAcquire(t, l, "k")
	// Another client goes by whether its connection is up, and its node is there. It sends
	// no change, behind which its pings would have to wait.
	naive, witness := driver(t, 2*time.Second, nil, follower.Addr()), driver(t, 10*time.Second, nil, leader.Addr())
	if _, err := naive.Create("/naive", nil, zk.FlagEphemeral, zk.WorldACL(zk.PermAll)); err != nil {
		t.Fatal(err)
	}
	heal := servers.Isolate(follower)
	defer heal()
	next := takeOver(t, other, lease)
	until(t, "the other session has expired too", func() bool {
		found, _, err := witness.Exists("/naive")
		return err == nil && !found
	})
	_, _, readErr := naive.Get("/naive")
	confirmed := readErr == nil && naive.State() == zk.StateHasSession
	if _, err := l.Renew(t.Context(), lease, testTTL); err == nil {
		t.Error("a lease was renewed that another one follows")
	}
	if next.Token <= lease.Token {
		t.Errorf("the token %d follows %d", next.Token, lease.Token)
	}
	heal()
	until(t, "the holder is told", func() bool {
		_, err := l.Renew(t.Context(), lease, testTTL)
		return errors.Is(err, locker.ErrNotHeld)
	})
	if !confirmed {
		t.Skipf("this machine is so slow that the follower did not confirm the dead session: %v, %v", readErr, naive.State())
	}
}

// A renewal is confirmed by a majority, not read from whichever server is connected.
func testRenewalIsAWrite(t *testing.T, b *bed) {
	l := b.openFar(t)
	lease := mustAcquire(t, l, "k")
	for name, call := range map[string]func() error{
		"Renew":      func() error { _, err := l.Renew(t.Context(), lease, testTTL); return err },
		"FenceToken": func() error { _, err := l.FenceToken(t.Context(), lease); return err },
	} {
		cost := b.count(func() {
			if err := call(); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		})
		if len(cost) != 1 || cost["multi"] != 1 {
			t.Errorf("%s takes %v, want one write", name, cost)
		}
	}
	mustRelease(t, l, lease)
}
