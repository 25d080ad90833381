package zookeeper_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/locker-go/locker"
	"github.com/locker-go/locker/internal/testbed"
	"github.com/locker-go/locker/zookeeper"
)

// What the README says of costs, by the server's own count.
func testCosts(t *testing.T, b *bed) {
	l, other := b.openFar(t), b.openFar(t)
	mustRelease(t, l, mustAcquire(t, l, "k"))
	mustRelease(t, other, mustAcquire(t, other, "k"))
	const times = 10
	for _, tt := range []struct {
		what   string
		writes int64
		want   map[string]int
		run    func(lease locker.Lease)
	}{
		{"acquire and release", 2, map[string]int{"multi": 2}, nil},
		{"acquire, renew and release", 3, map[string]int{"multi": 3}, func(lease locker.Lease) {
			if _, err := l.Renew(t.Context(), lease, testTTL); err != nil {
				t.Fatal(err)
			}
		}},
		// The servers count what they refuse.
		{"acquire, fail to acquire, and release", 3, map[string]int{"multi": 3, "getChildren": 1, "getData": 1}, func(locker.Lease) {
			if _, err := other.Acquire(t.Context(), "k", testTTL); !errors.Is(err, locker.ErrHeld) {
				t.Fatal(err)
			}
		}},
	} {
		began, before := time.Now(), testbed.ZooKeeperWrites(t, b.server)
		requests := b.count(func() {
			for range times {
				lease := mustAcquire(t, l, "k")
				if tt.run != nil {
					tt.run(lease)
				}
				mustRelease(t, l, lease)
			}
		})
		if time.Since(began) > 5*time.Second {
			t.Skip("this machine is so slow that the base moves meanwhile")
		}
		if writes := testbed.ZooKeeperWrites(t, b.server) - before; writes != times*tt.writes {
			t.Errorf("to %s takes %g writes, want %d", tt.what, float64(writes)/times, tt.writes)
		}
		for name := range tt.want {
			tt.want[name] *= times
		}
		if !maps.Equal(requests, tt.want) {
			t.Errorf("%d times to %s takes %v, want %v", times, tt.what, requests, tt.want)
		}
	}
}

// The driver heeds no context. While the server is silent each call returns soon after
// its context has ended, or at the limit.
func testSilentServer(t *testing.T, b *bed) {
	const limit = 300 * time.Millisecond
	l := open(t, b.far("&request_timeout="+limit.String()))
	lease, w := mustAcquire(t, l, "k"), (*waiter)(nil)
	resume := b.proxy.Stall()
	defer resume()
	for name, call := range map[string]func(ctx context.Context) error{
		"Acquire":     func(ctx context.Context) error { _, err := l.Acquire(ctx, "other", testTTL); return err },
		"AcquireWait": func(ctx context.Context) error { _, err := l.AcquireWait(ctx, "another", testTTL); return err },
		"Renew":       func(ctx context.Context) error { _, err := l.Renew(ctx, lease, testTTL); return err },
		"FenceToken":  func(ctx context.Context) error { _, err := l.FenceToken(ctx, lease); return err },
		"Release":     func(ctx context.Context) error { return l.Release(ctx, lease) },
		"Inspect":     func(ctx context.Context) error { _, err := l.Inspect(ctx, "k"); return err },
		"Break":       func(ctx context.Context) error { return l.Break(ctx, lease.Holding()) },
		"Raise":       func(ctx context.Context) error { return l.Raise(ctx, "k", 1) },
		"HighWater":   func(ctx context.Context) error { _, err := l.HighWater(ctx); return err },
		"Holdings": func(ctx context.Context) error {
			for _, err := range l.Holdings(ctx, "") {
				return err
			}
			return nil
		},
	} {
		for _, given := range []time.Duration{20 * time.Millisecond, time.Minute} {
			ctx, cancel := context.WithTimeout(t.Context(), given)
			began := time.Now()
			err := call(ctx)
			cancel()
			if !errors.Is(err, locker.ErrUnavailable) || errors.Is(err, context.DeadlineExceeded) != (given < limit) {
				t.Errorf("%s with a context of %s: %v", name, given, err)
			}
			if took := time.Since(began); took > 10*limit {
				t.Errorf("%s with a context of %s took %s", name, given, took)
			}
		}
	}
	_ = w
	resume()
	until(t, "what was begun is undone", func() bool { return len(childrenOf(t, b.client, "/"+b.namespace+"/queue")) == 0 })
}

func testCloseOfASilentServer(t *testing.T, b *bed) {
	l, err := openURL(t.Context(), b.far("&request_timeout=300ms"))
	if err != nil {
		t.Fatal(err)
	}
	mustAcquire(t, l, "k")
	resume := b.proxy.Stall()
	defer resume()
	began := time.Now()
	if err := l.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
	if took := time.Since(began); took > 8*time.Second { // the driver takes up to three
		t.Errorf("Close took %s", took)
	}
	if _, err := l.Acquire(t.Context(), "k", testTTL); !errors.Is(err, locker.ErrUnavailable) {
		t.Errorf("Acquire of a closed Locker: %v", err)
	}
}

// The session is that of the client; the Locker takes with it what it holds.
func testBringYourOwn(t *testing.T, b *bed) {
	if _, err := zookeeper.New(nil, nil); !errors.Is(err, locker.ErrInvalid) {
		t.Errorf("New without a Dialer: %v", err)
	}
	dialer := new(zookeeper.Dialer)
	own := driver(t, time.Minute, dialer, b.server.Addr())
	l, err := zookeeper.New(dialer, &zookeeper.Options{Namespace: b.namespace, Chroot: "/own"})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		mustAcquire(t, l, fmt.Sprint("k", i))
	}
	mine := "/own/" + b.namespace + "/queue"
	name := queued(t, b.client, mine+"/k1", 1)[0]
	_, stat, err := b.client.Get(mine + "/k1/" + name)
	if err != nil || stat.EphemeralOwner != own.SessionID() {
		t.Errorf("the entry is of the session %x, %v; want %x", stat.EphemeralOwner, err, own.SessionID())
	}
	closeLocker(t, l)
	closeLocker(t, l) // twice is nothing
	queued(t, b.client, mine, 0)
	if _, _, err := own.Get(mine); err != nil {
		t.Errorf("the client after the Locker is closed: %v", err)
	}
}

func testCloseEndsWaiting(t *testing.T, b *bed) {
	holder := b.open(t)
	lease := mustAcquire(t, holder, "k")
	dialer := new(zookeeper.Dialer)
	driver(t, time.Minute, dialer, b.server.Addr())
	l, err := zookeeper.New(dialer, &zookeeper.Options{Namespace: b.namespace})
	if err != nil {
		t.Fatal(err)
	}
	w := wait(t, l, "k")
	queued(t, b.client, b.queue("k"), 2)
	closeLocker(t, l)
	if w.waiting() {
		t.Error("the wait goes on after Close")
	}
	w.end(t)
	// It may not have looked yet who holds the lock.
	if !errors.Is(w.err, locker.ErrHeld) && !errors.Is(w.err, locker.ErrUnavailable) || !strings.Contains(w.err.Error(), "closed") {
		t.Errorf("the wait ended with %v", w.err)
	}
	queued(t, b.client, b.queue("k"), 1)
	mustRelease(t, holder, lease)
}

func testTwoNamespaces(t *testing.T, b *bed) {
	a, other := b.open(t), open(t, "zookeeper://"+b.server.Addr()+"?namespace="+b.namespace+"2")
	lease := mustAcquire(t, a, "k")
	mustRelease(t, other, mustAcquire(t, other, "k"))
	if _, err := other.Renew(t.Context(), lease, testTTL); !errors.Is(err, locker.ErrNotHeld) {
		t.Errorf("Renew in another namespace: %v", err)
	}
	mustRelease(t, a, lease)
}

// No node has what renews or releases a lock.
func testSecretsAreNotStored(t *testing.T, b *bed) {
	l := b.open(t)
	lease := mustAcquire(t, l, "k")
	data, _, err := b.client.Get(b.queue("k") + "/" + lease.Handle)
	if err != nil {
		t.Fatal(err)
	}
	if secret := lease.Holder[strings.LastIndexByte(lease.Holder, '.')+1:]; strings.Contains(string(data)+lease.Handle, secret) {
		t.Errorf("the node %s has %q, with the credential", lease.Handle, data)
	}
	if want := lease.Holding().Holder; !strings.HasSuffix(string(data), " "+want) {
		t.Errorf("the node has %q, without the holder %s", data, want)
	}
	mustRelease(t, l, lease)
}

// The requests of a Locker and of the driver travel on one connection.
func testTogetherWithTheDriver(t *testing.T, b *bed) {
	dialer := new(zookeeper.Dialer)
	own := driver(t, time.Minute, dialer, b.proxy.Addr())
	l, err := zookeeper.New(dialer, &zookeeper.Options{Namespace: b.namespace})
	if err != nil {
		t.Fatal(err)
	}
	defer closeLocker(t, l)
	acl := zk.WorldACL(zk.PermAll)
	if _, err := own.Create("/together", nil, 0, acl); err != nil {
		t.Fatal(err)
	}
	_, _, events, err := own.GetW("/together")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			for n := range 25 {
				lease, err := l.Acquire(t.Context(), fmt.Sprint("k", i), testTTL)
				if err != nil {
					t.Errorf("acquire: %v", err)
					return
				}
				if err := l.Release(t.Context(), lease); err != nil {
					t.Errorf("release: %v", err)
				}
				if _, _, err := own.Children("/"); err != nil {
					t.Errorf("children: %v", err)
				}
				path, want := "/together/"+fmt.Sprint(i, n), strings.Repeat("x", 1000*n)
				if _, err := own.Create(path, []byte(want), 0, acl); err != nil {
					t.Errorf("create: %v", err)
				}
				if got, _, err := own.Get(path); err != nil || string(got) != want {
					t.Errorf("get: %d bytes, %v", len(got), err)
				}
			}
		})
	}
	wg.Wait()
	if _, err := own.Set("/together", []byte("x"), -1); err != nil {
		t.Fatal(err)
	}
	if e := <-events; e.Type != zk.EventNodeDataChanged {
		t.Errorf("the driver's watch delivered %v", e)
	}
	if n := b.count(func() {})["connect"]; n != 0 {
		t.Errorf("there are %d connections", n)
	}
}

func testManyAtOnce(t *testing.T, b *bed) {
	l := b.open(t)
	var wg sync.WaitGroup
	for i := range 500 {
		wg.Go(func() {
			lease, err := l.Acquire(t.Context(), fmt.Sprint(i), testTTL)
			if err != nil {
				t.Errorf("acquire: %v", err)
				return
			}
			if _, err := l.Renew(t.Context(), lease, testTTL); err != nil {
				t.Errorf("renew: %v", err)
			}
			if err := l.Release(t.Context(), lease); err != nil {
				t.Errorf("release: %v", err)
			}
		})
	}
	wg.Wait()
}

// A release that got through, but was not answered, is not reported as a lock that was
// lost.
func testReleaseAfterALostReply(t *testing.T, b *bed) {
	l := b.openFar(t)
	lease := mustAcquire(t, l, "k")
	b.proxy.LoseReply("multi")
	if err := l.Release(t.Context(), lease); err != nil {
		t.Errorf("Release: %v", err)
	}
	if err := l.Release(t.Context(), lease); !errors.Is(err, locker.ErrNotHeld) {
		t.Errorf("the second Release: %v", err)
	}
	queued(t, b.client, b.queue("k"), 0)
}
