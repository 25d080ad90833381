package memory

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/locker-go/locker"
)

func acquire(t *testing.T, l locker.Locker, key string, ttl time.Duration) locker.Lease {
	t.Helper()
	lease, err := l.Acquire(t.Context(), key, ttl)
	if err != nil {
		t.Fatal(err)
	}
	return lease
}

func wantHeld(t *testing.T, l locker.Locker, key string) {
	t.Helper()
	if _, err := l.Acquire(t.Context(), key, time.Minute); !errors.Is(err, locker.ErrHeld) {
		t.Errorf("Acquire %q: %v; want ErrHeld", key, err)
	}
}

func TestLockersShareAStore(t *testing.T) {
	var store Store
	a, b, other := New(&store), New(&store), New(nil)
	lease := acquire(t, a, "k", time.Minute)
	wantHeld(t, b, "k")
	if err := b.Release(t.Context(), lease); err != nil {
		t.Errorf("another locker of the store does not know the lease: %v", err)
	}
	acquire(t, a, "k", time.Minute)
	acquire(t, other, "k", time.Minute)
	acquire(t, New(nil), "k", time.Minute)
}

// A store has one counter for all keys, so tokens rise also from key to key.
func TestTokensRiseAcrossKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // the clock stands still
		l := New(nil)
		last := locker.Token(time.Now().UnixMicro() - 1)
		for _, key := range []string{"a", "b", "c"} {
			lease := acquire(t, l, key, time.Minute)
			if lease.Token != last+1 {
				t.Errorf("token %d after %d", lease.Token, last)
			}
			last = lease.Token
		}
		if high, err := l.HighWater(t.Context()); err != nil || high != last {
			t.Errorf("HighWater: %d, %v; want %d", high, err, last)
		}
	})
}

func TestLeaseEndsOnTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New(nil)
		lease := acquire(t, l, "k", time.Second)
		time.Sleep(time.Second - time.Nanosecond)
		if lease.Remaining() != 0 {
			t.Errorf("%s left after the deadline", lease.Remaining())
		}
		wantHeld(t, l, "k")
		time.Sleep(time.Nanosecond)
		acquire(t, l, "k", time.Second)
	})
}

// A bubble would not end if a waiter ran on.
func TestWaitersAreWokenAndForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var store Store
		l := New(&store)
		lease := acquire(t, l, "k", time.Hour)
		gone, cancel := context.WithCancel(t.Context())
		results := make(chan error, 10)
		for range cap(results) {
			go func() {
				_, err := l.AcquireWait(gone, "k", time.Hour)
				results <- err
			}()
		}
		next := make(chan locker.Lease, 1)
		go func() {
			lease, err := l.AcquireWait(t.Context(), "k", time.Hour)
			if err != nil {
				t.Error(err)
			}
			next <- lease
		}()
		synctest.Wait()
		cancel()
		for range cap(results) {
			if err := <-results; !errors.Is(err, locker.ErrHeld) || !errors.Is(err, context.Canceled) {
				t.Errorf("a cancelled wait: %v; want ErrHeld and context.Canceled", err)
			}
		}
		released := time.Now()
		if err := l.Release(t.Context(), lease); err != nil {
			t.Fatal(err)
		}
		if got := <-next; got.Token <= lease.Token || time.Since(released) != 0 {
			t.Errorf("the waiter got token %d after %s; want one above %d at once", got.Token, time.Since(released), lease.Token)
		}
		synctest.Wait()
		if len(store.waiters) != 0 {
			t.Errorf("the store remembers %d keys that nobody waits for", len(store.waiters))
		}
	})
}

// What was released or has expired takes no memory once somebody looks.
func TestStoreForgetsWhatIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var store Store
		l := New(&store)
		if err := l.Release(t.Context(), acquire(t, l, "released", time.Second)); err != nil {
			t.Fatal(err)
		}
		acquire(t, l, "expired", time.Second)
		time.Sleep(time.Second)
		for h := range l.Holdings(t.Context(), "") {
			t.Errorf("%q is held", h.Key)
		}
		if len(store.grants) != 0 {
			t.Errorf("the store remembers %d grants", len(store.grants))
		}
	})
}

func TestHoldingsAreSorted(t *testing.T) {
	l := New(nil)
	for _, key := range []string{"c", "a", "b"} {
		acquire(t, l, key, time.Minute)
	}
	var got []string
	for h, err := range l.Holdings(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, h.Key)
	}
	if strings.Join(got, "") != "abc" {
		t.Errorf("holdings %q", got)
	}
}

func open(t *testing.T, raw string) (locker.Locker, error) {
	t.Helper()
	u, err := url.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	return Open(t.Context(), u)
}

func TestOpenByNamespace(t *testing.T) {
	var opened []locker.Locker
	for _, raw := range []string{"memory://", "memory://?namespace=locker", "memory:///?namespace=locker", "memory://?namespace=other", "memory://?namespace="} {
		l, err := open(t, raw)
		if err != nil {
			t.Fatalf("%s: %v", raw, err)
		}
		opened = append(opened, l)
	}
	key := t.Name()
	for i, l := range []locker.Locker{opened[0], opened[3], opened[4]} {
		lease, err := l.Acquire(t.Context(), key, time.Minute)
		if err != nil {
			t.Errorf("namespace %d: %v", i, err)
			continue
		}
		t.Cleanup(func() {
			if err := l.Release(context.WithoutCancel(t.Context()), lease); err != nil {
				t.Error(err)
			}
		})
	}
	wantHeld(t, opened[1], key)
	wantHeld(t, opened[2], key)
}

func TestOpenRefuses(t *testing.T) {
	for raw, want := range map[string]string{
		"memory://host":                     "takes no host",
		"memory://user:pass@":               "takes no host",
		"memory:///path":                    "takes no path",
		"memory:path":                       "takes no path",
		"memory://?ttl=3s":                  `unknown parameter "ttl": known are namespace`,
		"memory://?namespace=a&namespace=b": "given 2 times",
		"memory://?namespace=a/b":           `the namespace "a/b"`,
		"memory://?namespace=" + strings.Repeat("n", 129): "at most 128",
		"memory://#fragment":                              "takes no fragment",
		"memory://?a=%zz":                                 "percent-encoded",
	} {
		l, err := open(t, raw)
		if !errors.Is(err, locker.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want ErrInvalid with %q", raw, err, want)
		}
		if err != nil && strings.Contains(err.Error(), "pass") {
			t.Errorf("%s: the error shows the password: %v", raw, err)
		}
		if l != nil {
			t.Errorf("%s: a locker with an error", raw)
		}
	}
}
