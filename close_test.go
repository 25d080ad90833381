package locker_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/locker-go/locker"
	"github.com/locker-go/locker/memory"
)

func TestCloseReleasesAllThatIsHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		var ev events
		c := locker.New(f, &locker.Options{OnEvent: ev.hook})
		var holds []*locker.Hold
		for i := range 100 {
			holds = append(holds, mustLock(t, c, fmt.Sprint(i)))
		}
		if err := c.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
		for i, h := range holds {
			if !isFree(t, f, fmt.Sprint(i)) {
				t.Errorf("%s is still held", h)
			}
			if !isLost(h) {
				t.Errorf("%s is not lost", h)
			}
			wantErr(t, context.Cause(h.Context()), locker.ErrNotHeld)
			wantErr(t, h.Unlock(), locker.ErrNotHeld)
		}
		if n := f.count("release"); n != 200 { // with those of isFree, which go past the client
			t.Errorf("%d releases, want one of each hold", n-100)
		}
		for _, kind := range ev.kinds()[100:] {
			if kind != locker.EventLost {
				t.Errorf("got event %q, want %q", kind, locker.EventLost)
			}
		}
		if n := len(ev.kinds()); n != 200 {
			t.Errorf("%d events, want 200", n)
		}
		if err := c.Close(); err != nil {
			t.Errorf("Close again: %v", err)
		}
		_, err := c.Lock(t.Context(), key)
		wantErr(t, err, locker.ErrUnavailable)
		_, err = c.TryLock(t.Context(), key)
		wantErr(t, err, locker.ErrUnavailable)
	})
}

// What somebody else ended needs no release, and is no failure of Close.
func TestCloseWithAHoldThatIsGone(t *testing.T) {
	f := newFake()
	c := locker.New(f, nil)
	h := mustLock(t, c, key)
	if err := f.Locker.Release(t.Context(), h.Lease()); err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
}

func TestCloseEndsWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := new(memory.Store)
		other := newClient(t, memory.New(store), nil)
		defer mustUnlock(t, mustLock(t, other, key))
		c := locker.New(memory.New(store), nil)
		l := lineUp(t, c, 5) // the first waits in the backend, the others in the process
		start := time.Now()
		if err := c.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
		l.wg.Wait()
		if d := time.Since(start); d > 0 {
			t.Errorf("Close took %s", d)
		}
		for _, err := range l.errs {
			wantErr(t, err, locker.ErrUnavailable)
		}
	})
}

func TestCloseIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		f.release = func(ctx context.Context, _ locker.Lease) error { return stall(ctx) }
		f.renew = func(ctx context.Context, lease locker.Lease, _ time.Duration) (locker.Lease, error) {
			return lease, stall(ctx)
		}
		c := locker.New(f, nil)
		for i := range 100 {
			mustLock(t, c, fmt.Sprint(i))
		}
		time.Sleep(11 * time.Second) // renewals are in flight
		start := time.Now()
		wantErr(t, c.Close(), locker.ErrUnavailable)
		if d := time.Since(start); d > 5*time.Second {
			t.Errorf("Close took %s, want at most 5 s", d)
		}
	})
}

// An attempt that succeeds although Close has begun leaves no lock behind.
func TestCloseDuringLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		f.acquire = func(ctx context.Context, key string, ttl time.Duration) (locker.Lease, error) {
			<-ctx.Done()
			time.Sleep(time.Second)
			return f.Locker.Acquire(context.WithoutCancel(ctx), key, ttl)
		}
		c := locker.New(f, nil)
		var h *locker.Hold
		var wg sync.WaitGroup
		wg.Go(func() { h = mustLock(t, c, key) })
		synctest.Wait()
		if err := c.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
		wg.Wait()
		if !isLost(h) || !isFree(t, f.Locker, key) {
			t.Error("the lock is still held")
		}
	})
}

// Close and the owner's Unlock, at once: the lock is released once, before the
// backend is closed.
func TestCloseDuringUnlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &closingFake{fake: newFake()}
		f.release = func(ctx context.Context, lease locker.Lease) error {
			time.Sleep(time.Second)
			if f.closed.Load() {
				t.Error("the backend was closed during a release")
			}
			return f.Locker.Release(ctx, lease)
		}
		c := locker.New(f, &locker.Options{CloseLocker: true})
		h := mustLock(t, c, key)
		var wg sync.WaitGroup
		wg.Go(func() { mustUnlock(t, h) })
		synctest.Wait()
		err := c.Close()
		wantErr(t, err, errClosing)
		wg.Wait()
		if n := f.count("release"); n != 1 {
			t.Errorf("%d releases", n)
		}
		if !f.closed.Load() {
			t.Error("the backend was not closed")
		}
	})
}

var errClosing = errors.New("closing the backend failed")

type closingFake struct {
	*fake
	closed atomic.Bool
}

func (f *closingFake) Close() error {
	f.closed.Store(true)
	return errClosing
}

func TestCloseLeavesTheBackendOpenUnlessAsked(t *testing.T) {
	f := &closingFake{fake: newFake()}
	if err := locker.New(f, nil).Close(); err != nil || f.closed.Load() {
		t.Errorf("Close = %v; backend closed: %t", err, f.closed.Load())
	}
}

// A client that was never closed, but holds nothing, has no goroutine.
func TestClientThatHoldsNothingHasNoGoroutine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := locker.New(newFake(), nil)
		for range 3 {
			h := mustLock(t, c, key)
			time.Sleep(time.Minute)
			if n := goroutines("run"); n != 1 {
				t.Errorf("%d goroutines of the client while it holds a lock, want the scheduler", n)
			}
			mustUnlock(t, h)
			time.Sleep(2 * time.Second)
			if n := goroutines("run"); n != 0 {
				t.Errorf("%d goroutines of the client while it holds nothing", n)
			}
		}
	})
}

// goroutines returns how many goroutines run the method of a client's scheduler.
func goroutines(method string) int {
	stacks := make([]byte, 1<<20)
	return strings.Count(string(stacks[:runtime.Stack(stacks, true)]), "locker.(*renewals)."+method+"(")
}
