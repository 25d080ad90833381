package locker_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/locker-go/locker"
	"github.com/locker-go/locker/memory"
)

func TestDoHoldsTheLockWhileItCalls(t *testing.T) {
	f := newFake()
	c := newClient(t, f, nil)
	type mark struct{}
	ctx := context.WithValue(t.Context(), mark{}, true)
	errWork := errors.New("work failed")
	for _, want := range []error{nil, errWork} {
		called := false
		err := c.Do(ctx, key, func(ctx context.Context, lease locker.Lease) error {
			called = true
			if ctx.Value(mark{}) == nil {
				t.Error("the context is not derived from the caller's")
			}
			if token, err := f.FenceToken(ctx, lease); err != nil || token != lease.Token || lease.Key != key {
				t.Errorf("FenceToken(%s) = %d, %v", lease, token, err)
			}
			if isFree(t, f, key) {
				t.Error("the lock is free")
			}
			return want
		})
		if err != want || !called {
			t.Errorf("Do = %v, want %v; called: %t", err, want, called)
		}
		if !isFree(t, f, key) {
			t.Error("the lock is still held")
		}
	}
}

func TestTryDo(t *testing.T) {
	store := new(memory.Store)
	c, other := newClient(t, memory.New(store), nil), newClient(t, memory.New(store), nil)
	err := c.TryDo(t.Context(), key, func(ctx context.Context, lease locker.Lease) error {
		for name, rival := range map[string]*locker.Client{"same client": c, "another client": other} {
			err := rival.TryDo(ctx, key, func(context.Context, locker.Lease) error {
				t.Errorf("%s: two hold the lock", name)
				return nil
			})
			wantErr(t, err, locker.ErrHeld)
			held, ok := errors.AsType[*locker.HeldError](err)
			if !ok || held.Token != lease.Token || held.Holder != locker.ShowHolder(lease.Holder) || held.Remaining == 0 {
				t.Errorf("%s: got %#v, want what is known of %s", name, held, lease)
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

func TestDoWhoseFunctionPanics(t *testing.T) {
	c := newClient(t, memory.New(nil), nil)
	func() {
		defer func() {
			if v := recover(); v != "boom" {
				t.Errorf("recovered %v, want the panic of the function", v)
			}
		}()
		_ = c.Do(t.Context(), key, func(context.Context, locker.Lease) error { panic("boom") })
		t.Error("Do returned")
	}()
	mustUnlock(t, tryLock(t, c))
}

func TestDoWhoseFunctionExitsItsGoroutine(t *testing.T) {
	c := newClient(t, memory.New(nil), nil)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = c.Do(t.Context(), key, func(context.Context, locker.Lease) error { runtime.Goexit(); return nil })
	}()
	<-done
	mustUnlock(t, tryLock(t, c))
}

func tryLock(t *testing.T, c *locker.Client) *locker.Hold {
	t.Helper()
	h, err := c.TryLock(t.Context(), key)
	if err != nil {
		t.Fatalf("TryLock: %v", err)
	}
	return h
}

func TestDoSaysThatTheLockWasLost(t *testing.T) {
	errWork := errors.New("work failed")
	for _, fnErr := range []error{nil, errWork} {
		synctest.Test(t, func(t *testing.T) {
			f := newFake()
			f.renew = func(ctx context.Context, lease locker.Lease, _ time.Duration) (locker.Lease, error) {
				return lease, errDown
			}
			err := newClient(t, f, nil).Do(t.Context(), key, func(ctx context.Context, _ locker.Lease) error {
				<-ctx.Done()
				wantErr(t, context.Cause(ctx), locker.ErrNotHeld)
				return fnErr
			})
			wantErr(t, err, locker.ErrNotHeld)
			if fnErr != nil {
				wantErr(t, err, fnErr)
			}
		})
	}
}

// The loss shows only in the backend's answer to the release.
func TestDoSaysThatTheLockWasLostUnnoticed(t *testing.T) {
	f := newFake()
	var ev events
	err := newClient(t, f, &locker.Options{OnEvent: ev.hook}).Do(t.Context(), key, func(ctx context.Context, lease locker.Lease) error {
		return f.Locker.Release(ctx, lease)
	})
	wantErr(t, err, locker.ErrNotHeld)
	ev.want(t, locker.EventGranted, locker.EventLost)
}

func TestDoForgivesAFailedRelease(t *testing.T) {
	f := newFake()
	f.release = func(context.Context, locker.Lease) error { return errDown }
	var ev events
	err := newClient(t, f, &locker.Options{OnEvent: ev.hook}).Do(t.Context(), key, func(context.Context, locker.Lease) error { return nil })
	if err != nil {
		t.Errorf("Do: %v", err)
	}
	ev.want(t, locker.EventGranted, locker.EventReleaseFailed)
}

// madelson#191: a release hung on a dead server.
func TestUnlockIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		f.release = func(ctx context.Context, _ locker.Lease) error { return stall(ctx) }
		c := newClient(t, f, &locker.Options{ReleaseTimeout: 2 * time.Second})
		h := mustLock(t, c, key)
		start := time.Now()
		wantErr(t, h.Unlock(), locker.ErrUnavailable)
		if d := time.Since(start); d != 2*time.Second {
			t.Errorf("Unlock took %s, want 2 s", d)
		}
		if isLost(h) {
			t.Error("Unlock closed Lost")
		}
		f.release = nil
		start = time.Now()
		mustUnlock(t, mustLock(t, c, key))
		if d := time.Since(start); d > ttl {
			t.Errorf("the lock was free after %s, want at most the TTL", d)
		}
	})
}

func TestUnlockReleasesAlthoughTheContextEnded(t *testing.T) {
	f := newFake()
	ctx, cancel := context.WithCancel(t.Context())
	err := newClient(t, f, nil).Do(ctx, key, func(ctx context.Context, _ locker.Lease) error {
		cancel()
		return ctx.Err()
	})
	if err != context.Canceled {
		t.Errorf("Do = %v", err)
	}
	if !isFree(t, f, key) {
		t.Error("the lock is still held")
	}
}

func TestHoldAfterUnlock(t *testing.T) {
	h := mustLock(t, newClient(t, memory.New(nil), nil), key)
	mustUnlock(t, h)
	if h.Context().Err() == nil {
		t.Error("the context goes on")
	}
	if errors.Is(context.Cause(h.Context()), locker.ErrNotHeld) {
		t.Error("the context's cause is a loss")
	}
	if isLost(h) {
		t.Error("Lost is closed")
	}
	wantErr(t, h.Unlock(), locker.ErrNotHeld)
}

func TestLockRefusesWhatIsInvalidBeforeAnyRequest(t *testing.T) {
	for name, tc := range map[string]struct {
		key string
		ttl time.Duration
	}{
		"no key":       {"", time.Minute},
		"NUL":          {"a\x00b", time.Minute},
		"long key":     {strings.Repeat("k", locker.MaxKeyLen+1), time.Minute},
		"negative TTL": {key, -time.Second},
		"tiny TTL":     {key, locker.MinTTL - 1},
		"huge TTL":     {key, locker.MaxTTL + 1},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake()
			c := newClient(t, f, &locker.Options{TTL: tc.ttl})
			_, err := c.Lock(t.Context(), tc.key)
			wantErr(t, err, locker.ErrInvalid)
			_, err = c.TryLock(t.Context(), tc.key)
			wantErr(t, err, locker.ErrInvalid)
			if n := f.count("acquire"); n > 0 {
				t.Errorf("%d requests", n)
			}
		})
	}
}

// node-redlock#296, #299: acquiring took longer than the TTL, and the lock was
// returned.
func TestLeaseThatEndedBeforeItWasGrantedIsNoLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		f.acquire = func(ctx context.Context, key string, ttl time.Duration) (locker.Lease, error) {
			asked := locker.Now()
			time.Sleep(ttl)
			lease, err := f.Locker.Acquire(ctx, key, ttl)
			return lease.Granted(asked, ttl, ttl), err
		}
		c := newClient(t, f, nil)
		_, err := c.Lock(t.Context(), key)
		wantErr(t, err, locker.ErrUnavailable)
		if !isFree(t, f.Locker, key) {
			t.Error("the lock is still held")
		}
		f.acquire = nil
		mustUnlock(t, tryLock(t, c))
	})
}

func TestPanicOfABackendBlocksNobody(t *testing.T) {
	f := newFake()
	c := newClient(t, f, nil)
	f.acquire = func(context.Context, string, time.Duration) (locker.Lease, error) { panic("boom") }
	func() {
		defer func() { _ = recover() }()
		_, _ = c.Lock(t.Context(), key)
		t.Error("Lock returned")
	}()
	f.acquire = nil
	mustUnlock(t, tryLock(t, c))
}

func TestFailedAcquireEndsTheTurn(t *testing.T) {
	f := newFake()
	c := newClient(t, f, nil)
	f.acquire = func(context.Context, string, time.Duration) (locker.Lease, error) { return locker.Lease{}, errDown }
	_, err := c.Lock(t.Context(), key)
	wantErr(t, err, locker.ErrUnavailable)
	_, err = c.TryLock(t.Context(), key)
	wantErr(t, err, locker.ErrUnavailable)
	f.acquire = nil
	mustUnlock(t, tryLock(t, c))
}

// Nothing of an attempt stays behind in a context that lives as long as the process.
func TestContextOfAnAttemptEndsWithIt(t *testing.T) {
	f := newFake()
	var attempt context.Context
	f.acquire = func(ctx context.Context, key string, ttl time.Duration) (locker.Lease, error) {
		attempt = ctx
		return f.Locker.Acquire(ctx, key, ttl)
	}
	h := mustLock(t, newClient(t, f, nil), key)
	if attempt.Err() == nil {
		t.Error("the context of the attempt goes on after it")
	}
	if h.Context().Err() != nil {
		t.Error("the context of the hold ended with the attempt")
	}
	mustUnlock(t, h)
}

func TestLocker(t *testing.T) {
	l := memory.New(nil)
	if got := newClient(t, l, nil).Locker(); got != locker.Locker(l) {
		t.Errorf("Locker() = %v", got)
	}
}
