package conformance

import (
	"context"
	"errors"
	"time"

	"github.com/locker-go/locker"
)

// patience is how long a case waits for what should happen in a moment. It is well
// below the TTL of leases that are not to expire, so that what only happens because
// one expired comes too late.
const patience = 10 * time.Second

// acquireWait waits for a lock.
func (e *Env) acquireWait(ctx context.Context, l locker.Locker, key string, ttl time.Duration) locker.Lease {
	lease, err := inTime(ttl, func() (locker.Lease, error) { return locker.AcquireWait(ctx, l, key, ttl) })
	if err != nil {
		fail("a lease, after a wait", "AcquireWait: %s", show(err))
	}
	e.remember(l, lease)
	return lease
}

// waiter is an AcquireWait in the background.
type waiter struct {
	done  chan struct{}
	lease locker.Lease
	err   error
}

// wait begins to wait for a lock, for as long as ctx.
func (e *Env) wait(ctx context.Context, l locker.Locker, key string) *waiter {
	w := &waiter{done: make(chan struct{})}
	e.background.Go(func() {
		defer close(w.done)
		w.lease, w.err = locker.AcquireWait(ctx, l, key, e.long)
		if w.err == nil {
			e.remember(l, w.lease)
		}
	})
	return w
}

// settle gives waiters the time to begin. Nothing tells when they have; a waiter that
// has not makes a case prove less, never fail.
func (e *Env) settle(ctx context.Context) { pause(ctx, 30*time.Millisecond, "waiters to begin") }

// waiting says whether the wait goes on.
func (w *waiter) waiting() bool {
	select {
	case <-w.done:
		return false
	default:
		return true
	}
}

// end waits until the wait has ended.
func (w *waiter) end(within time.Duration) {
	timer := time.NewTimer(within)
	defer timer.Stop()
	select {
	case <-w.done:
	case <-timer.C:
		fail("an end of the wait", "a wait that goes on after %s", within)
	}
}

// granted returns what the waiter gets.
func (w *waiter) granted(within time.Duration) locker.Lease {
	w.end(within)
	if w.err != nil {
		fail("a lease, after a wait", "AcquireWait: %s", show(w.err))
	}
	return w.lease
}

// refused checks that the wait ended without a lease, for each of the reasons.
func (w *waiter) refused(reasons ...error) {
	w.end(patience)
	if w.err == nil {
		fail("an error of the wait", "%s", w.lease)
	}
	for _, reason := range reasons {
		if !errors.Is(w.err, reason) {
			fail("an error that is also: "+show(reason), "AcquireWait: %s", show(w.err))
		}
	}
}

// knowsHolder returns a wait that has ended by its context, which lasted long enough
// for one answer of the backend at least: without one nobody knows that the lock is
// held.
func (e *Env) knowsHolder(ctx context.Context, begin func(ctx context.Context, after time.Duration) *waiter) *waiter {
	for after := 50 * time.Millisecond; ; after *= 4 {
		w := begin(ctx, after)
		w.end(after + patience)
		if errors.Is(w.err, locker.ErrHeld) || after > patience/2 {
			return w
		}
	}
}
