package etcd_test

import (
	"context"
	"errors"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/locker-go/locker"
	"github.com/locker-go/locker/etcd"
	"github.com/locker-go/locker/internal/testbed"
)

// serverLeases waits until the server has n leases, and returns them.
func serverLeases(t testing.TB, c *clientv3.Client, n int) []clientv3.LeaseStatus {
	t.Helper()
	var all []clientv3.LeaseStatus
	until(t, "the server has as many leases as it should", func() bool {
		resp, err := c.Leases(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		all = resp.Leases
		return len(all) == n
	})
	return all
}

// writes counts what the members agreed on.
func writes(t testing.TB, s *testbed.Server) int64 {
	t.Helper()
	return count(t, s, "etcd_server_proposals_applied_total")
}

// count returns the sum of a server's counters, or gauges, of a name.
func count(t testing.TB, s *testbed.Server, name string) int64 {
	t.Helper()
	return int64(testbed.ReadMetrics(t, s, nil).Sum(name))
}

// What an operation costs is what the members have to agree on.
func TestConsensusWrites(t *testing.T) {
	t.Parallel()
	cluster := startCluster(t, 1)
	server, l := cluster.members[0], on(t, cluster.client(), nil)
	mustRelease(t, l, mustAcquire(t, l, "k")) // a lease in the pool, and a base
	const rounds = 20
	cost := func(what string, want int64, op func()) {
		t.Helper()
		before := writes(t, server)
		for range rounds {
			op()
		}
		if got := writes(t, server) - before; got != want*rounds {
			t.Errorf("%d of %s took %d consensus writes, want %d", rounds, what, got, want*rounds)
		}
	}
	var lease locker.Lease
	cost("acquire and release", 2, func() {
		lease = mustAcquire(t, l, "k")
		mustRelease(t, l, lease)
	})
	lease = mustAcquire(t, l, "k")
	cost("renew", 0, func() {
		var err error
		if lease, err = l.Renew(t.Context(), lease, testTTL); err != nil {
			t.Fatal(err)
		}
	})
	cost("asking for the token", 0, func() {
		if _, err := l.FenceToken(t.Context(), lease); err != nil {
			t.Fatal(err)
		}
	})
	puts := func() int64 { return count(t, server, "etcd_mvcc_put_total") }
	before, agreed := puts(), writes(t, server)
	for range rounds {
		if _, err := l.Acquire(t.Context(), "k", testTTL); !errors.Is(err, locker.ErrHeld) {
			t.Fatalf("Acquire of a held key: %v", err)
		}
	}
	if n := puts() - before; n != 0 {
		t.Errorf("attempts that lost wrote %d times", n)
	}
	// The first attempt needs another lease, and asks the members; those after it read.
	if n := writes(t, server) - agreed; n > rounds/2 {
		t.Errorf("%d attempts that lost took %d consensus writes", rounds, n)
	}
	mustRelease(t, l, lease)
}

func TestLeasesDoNotLeak(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 1).client()
	l, err := etcd.New(c, nil)
	if err != nil {
		t.Fatal(err)
	}
	for range 10 { // one after the other need one lease
		mustRelease(t, l, mustAcquire(t, l, "k"))
	}
	serverLeases(t, c, 1)
	a, b := mustAcquire(t, l, "a"), mustAcquire(t, l, "b")
	serverLeases(t, c, 2)
	a, err = l.Renew(t.Context(), a, 2*testTTL) // goes under a longer lease
	if err != nil {
		t.Fatal(err)
	}
	mustRelease(t, l, a)
	serverLeases(t, c, 2)
	if err := l.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	serverLeases(t, c, 1) // b's
	stays := on(t, c, nil)
	if token, err := stays.FenceToken(t.Context(), b); err != nil || token != b.Token {
		t.Errorf("a lock did not outlive its Locker: %d, %v", token, err)
	}
	mustRelease(t, stays, b)
}

// vault#3031: a pooled session that had died was used again and again.
func TestDeadLeasesAreReplaced(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 1).client()
	l := on(t, c, nil)
	for range 2 {
		mustRelease(t, l, mustAcquire(t, l, "k"))
		for _, lease := range serverLeases(t, c, 1) {
			if _, err := c.Revoke(t.Context(), lease.ID); err != nil {
				t.Fatal(err)
			}
		}
		lease := mustAcquire(t, l, "k")
		if token, err := l.FenceToken(t.Context(), lease); err != nil || token != lease.Token {
			t.Errorf("granted a lock that is not there: %d, %v", token, err)
		}
		mustRelease(t, l, lease)
	}
}

func TestIdleLeasesAreKeptAlive(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 1, fast...).client()
	l := on(t, c, nil)
	lease, err := l.Acquire(t.Context(), "k", time.Second)
	if err != nil {
		t.Fatal(err)
	}
	mustRelease(t, l, lease)
	before := serverLeases(t, c, 1)[0].ID
	time.Sleep(4 * time.Second) // longer than it lives by itself
	if after := serverLeases(t, c, 1)[0].ID; after != before {
		t.Errorf("the lease %x was replaced by %x", before, after)
	}
}

// The reply to the put is lost: the lease under it goes, and the key with it.
func TestLostReplyRevokesTheLease(t *testing.T) {
	t.Parallel()
	cluster := startCluster(t, 1)
	c := cluster.client()
	proxy := testbed.NewProxy(t, cluster.members[0].Addr(), testbed.Bytes)
	l := on(t, connect(t, proxy.Addr()), nil)
	mustRelease(t, l, mustAcquire(t, l, "k"))
	pooled := serverLeases(t, c, 1)[0].ID
	proxy.LoseReply("")
	lease, err := l.Acquire(t.Context(), "k", testTTL)
	if !errors.Is(err, locker.ErrUnavailable) {
		t.Errorf("Acquire: %v, %v", lease, err)
	}
	queued(t, c, "k", 0)
	for _, left := range serverLeases(t, c, 0) {
		t.Errorf("the lease %x is left, of %x", left.ID, pooled)
	}
	mustRelease(t, l, mustAcquire(t, l, "k"))
}

// A put that arrives after the attempt was given up must not take the lock.
func TestLatePutTakesNothing(t *testing.T) {
	t.Parallel()
	cluster := startCluster(t, 1)
	c := cluster.client()
	slow := testbed.NewProxy(t, cluster.members[0].Addr(), testbed.Bytes)
	l := on(t, connect(t, slow.Addr()), nil)
	mustRelease(t, l, mustAcquire(t, l, "k"))
	slow.Delay(300 * time.Millisecond)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := l.Acquire(ctx, "k", testTTL); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Acquire: %v", err)
	}
	queued(t, c, "k", 0)
	serverLeases(t, c, 0)
	slow.Delay(0)
	mustRelease(t, l, mustAcquire(t, l, "k"))
}

// classicswarm#1251, etcd#6025: a TTL became another one, unnoticed.
func TestTTLIsRoundedUpAndTold(t *testing.T) {
	t.Parallel()
	l := on(t, startCluster(t, 1).client(), nil) // with its own election timeout, 1 s
	for _, test := range []struct{ asked, want time.Duration }{
		{locker.MinTTL, 2 * time.Second}, // the server's floor
		{time.Second, 2 * time.Second},
		{2 * time.Second, 2 * time.Second},
		{2*time.Second + 1, 3 * time.Second},
		{time.Minute, time.Minute},
	} {
		lease, err := l.Acquire(t.Context(), "k", test.asked)
		if err != nil {
			t.Fatal(err)
		}
		renewed, err := l.Renew(t.Context(), lease, test.asked)
		if err != nil {
			t.Fatal(err)
		}
		if lease.TTL != test.want || renewed.TTL != test.want {
			t.Errorf("for %s: granted %s, renewed for %s, want %s", test.asked, lease.TTL, renewed.TTL, test.want)
		}
		if left := lease.Remaining(); left > test.want-test.want/100 {
			t.Errorf("for %s: %s left of %s", test.asked, left, test.want)
		}
		mustRelease(t, l, renewed)
	}
}

// A lock that somebody removed, or whose lease somebody revoked, is lost.
func TestRenewSeesThatTheLockIsGone(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 1).client()
	l := on(t, c, nil)
	for name, remove := range map[string]func(key string, lease clientv3.LeaseID) error{
		"deleted": func(key string, _ clientv3.LeaseID) error {
			_, err := c.Delete(t.Context(), key)
			return err
		},
		"revoked": func(_ string, lease clientv3.LeaseID) error {
			_, err := c.Revoke(t.Context(), lease)
			return err
		},
		"put by another": func(key string, _ clientv3.LeaseID) error {
			_, err := c.Put(t.Context(), key, "x")
			return err
		},
	} {
		lease := mustAcquire(t, l, name[:3])
		kv := queued(t, c, name[:3], 1)[0]
		if err := remove(string(kv.Key), clientv3.LeaseID(kv.Lease)); err != nil {
			t.Fatal(err)
		}
		if _, err := l.Renew(t.Context(), lease, testTTL); !errors.Is(err, locker.ErrNotHeld) {
			t.Errorf("%s: Renew: %v", name, err)
		}
		if err := l.Release(t.Context(), lease); !errors.Is(err, locker.ErrNotHeld) {
			t.Errorf("%s: Release: %v", name, err)
		}
	}
}
