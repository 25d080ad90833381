package conformance

import (
	"context"
	"errors"
	"time"

	"github.com/locker-go/locker"
)

// They need a Fault each, and run alone.
var faultCases = []Case{
	// rueidis#925: the reply was lost, the driver asked again, found its own key, and
	// reported that another had the lock; the key stayed.
	alone(must("Acquire/lost reply", "An Acquire whose reply is lost has the lock, or is ErrUnavailable and leaves the key free: a caller is never its own rival.",
		func(ctx context.Context, e *Env) {
			a, b := e.open(ctx), e.open(ctx)
			e.free(ctx, a, e.key()) // so that a is connected
			key := e.key()
			e.loseReply(ctx)
			lease, err := a.Acquire(ctx, key, e.long)
			if err != nil {
				e.refuse("Acquire", err, locker.ErrUnavailable)
				e.refuseNot("Acquire", err, locker.ErrHeld)
				e.soonFree(ctx, b, key)
				return
			}
			e.remember(a, lease)
			e.stands(ctx, a, lease)
			e.held(ctx, b, key)
			e.release(ctx, a, lease)
			e.free(ctx, b, key)
		})),
	alone(must("Renew/lost reply", "A Renew whose reply is lost succeeds or is ErrUnavailable, never ErrNotHeld, and can be tried again.",
		func(ctx context.Context, e *Env) {
			a := e.open(ctx)
			lease := e.acquire(ctx, a, e.key(), e.long)
			e.loseReply(ctx)
			if _, err := a.Renew(ctx, lease, e.long); err != nil {
				e.refuse("Renew", err, locker.ErrUnavailable)
				e.refuseNot("Renew", err, locker.ErrNotHeld)
			}
			e.renew(ctx, a, lease, e.long)
			e.stands(ctx, a, lease)
		})),
	alone(must("Release/lost reply", "A Release whose reply is lost succeeds or is ErrUnavailable, never ErrNotHeld, and the key is free.",
		func(ctx context.Context, e *Env) {
			a, b := e.open(ctx), e.open(ctx)
			lease := e.acquire(ctx, a, e.key(), e.long)
			e.loseReply(ctx)
			if err := a.Release(ctx, lease); err != nil {
				e.refuse("Release", err, locker.ErrUnavailable)
				e.refuseNot("Release", err, locker.ErrNotHeld)
			}
			e.forget(lease)
			e.soonFree(ctx, b, lease.Key)
		})),
	alone(must("Acquire/cancelled during a delay", "An Acquire that is cancelled while its request is under way ends at once with the context's error, and the request, arriving late, does not take the lock.",
		func(ctx context.Context, e *Env) {
			const delay = 300 * time.Millisecond
			a, b := e.open(ctx), e.open(ctx)
			e.free(ctx, a, e.key()) // so that a is connected
			key := e.key()
			heal := e.disturb(e.delay(ctx, delay))
			brief, cancel := context.WithTimeout(ctx, delay/4)
			defer cancel()
			lease, err := a.Acquire(brief, key, e.long)
			heal()
			if err == nil {
				e.remember(a, lease)
				fail("an error", "%s", lease)
			}
			e.refuse("Acquire", err, context.DeadlineExceeded)
			e.soonFree(ctx, b, key)
			pause(ctx, 4*delay, "a late request to arrive")
			e.free(ctx, b, key)
		})),
	// node-redlock#296: acquiring took longer than the TTL, and the lock was returned.
	alone(must("Acquire/slower than its TTL", "A lease that was over before the reply came is not returned as a lock, and the key is free.",
		func(ctx context.Context, e *Env) {
			a, b := e.open(ctx), e.open(ctx)
			e.free(ctx, a, e.key()) // so that a is connected
			key := e.key()
			heal := e.disturb(e.delay(ctx, e.short))
			began := locker.Now()
			lease, err := a.Acquire(ctx, key, e.short)
			if err == nil && lease.Remaining() == 0 {
				fail("an error, or a lease with time left", "after %s: %s", began.Elapsed(), lease)
			}
			heal()
			if err == nil {
				e.remember(a, lease)
				e.release(ctx, a, lease)
			}
			e.soonFree(ctx, b, key)
		})),
	alone(must("Acquire/slow reply", "The deadline counts from before the request left, not from its reply: nobody is granted the key before it.",
		func(ctx context.Context, e *Env) {
			a, b := e.open(ctx), e.open(ctx)
			e.free(ctx, a, e.key()) // so that a is connected
			heal := e.disturb(e.delay(ctx, e.short/4))
			lease, err := a.Acquire(ctx, e.key(), e.short)
			heal()
			if err != nil {
				e.refuse("Acquire", err, locker.ErrUnavailable)
				return // too slow for the TTL
			}
			e.remember(a, lease)
			e.takeOver(ctx, b, lease)
		})),
	// madelson#191: release hung on a dead server.
	alone(must("Faults/cut", "While the store is unreachable every call is ErrUnavailable in bounded time, and says nothing of the lock; afterwards the lease stands as before.",
		func(ctx context.Context, e *Env) {
			a := e.open(ctx)
			lease := e.acquire(ctx, a, e.key(), e.long*10)
			key := e.key()
			heal := e.disturb(e.cut(ctx))
			e.unavailable(func() error { _, err := a.Acquire(ctx, key, e.long); return err })
			e.unavailable(func() error { _, err := a.Renew(ctx, lease, e.long*10); return err })
			e.unavailable(func() error { _, err := a.FenceToken(ctx, lease); return err })
			heal()
			e.eventually(ctx, func() error { _, err := a.FenceToken(ctx, lease); return err })
			e.stands(ctx, a, lease)
			e.renew(ctx, a, lease, e.long)
			e.soonFree(ctx, a, key)

			heal = e.disturb(e.cut(ctx))
			e.unavailable(func() error { return a.Release(ctx, lease) })
			heal()
			e.eventually(ctx, func() error {
				if err := a.Release(ctx, lease); !errors.Is(err, locker.ErrNotHeld) { // it may have got through
					return err
				}
				return nil
			})
			e.soonFree(ctx, a, lease.Key)
		})),
	alone(must("Waiter/outage", "A waiter outlives a short outage of the store: it gets the lock when that is back.",
		func(ctx context.Context, e *Env) {
			a, b := e.open(ctx), e.open(ctx)
			lease := e.acquire(ctx, a, e.key(), e.long)
			w := e.wait(ctx, b, lease.Key)
			pause(ctx, 2*time.Second, "the waiter to begin, since its first attempt may fail")
			heal := e.disturb(e.cut(ctx))
			pause(ctx, time.Second, "an outage")
			heal()
			e.eventually(ctx, func() error {
				if err := a.Release(ctx, lease); !errors.Is(err, locker.ErrNotHeld) {
					return err
				}
				return nil
			})
			w.granted(patience)
		})),
	alone(must("Tokens/restart", "Tokens of a key rise through a restart of the store.",
		func(ctx context.Context, e *Env) { e.risesThrough(ctx, "Restart", e.backend.Faults.Restart) })),
	alone(must("Tokens/wipe", "Tokens of a key rise though the store lost its data, as long as clocks agree.",
		func(ctx context.Context, e *Env) { e.risesThrough(ctx, "Wipe", e.backend.Faults.Wipe) })),
	alone(must("Renew/wiped", "A lease that the store lost is ErrNotHeld, and neither Renew nor Release brings it back.",
		func(ctx context.Context, e *Env) {
			if e.backend.Faults.Wipe == nil {
				skip("no fault Wipe offered")
			}
			a := e.open(ctx)
			lease := e.acquire(ctx, a, e.key(), e.long)
			if err := e.backend.Faults.Wipe(ctx); err != nil {
				fail("the store without its data", "Wipe: %s", show(err))
			}
			var err error
			e.eventually(ctx, func() error {
				if _, err = a.Renew(ctx, lease, e.long); errors.Is(err, locker.ErrUnavailable) {
					return err
				}
				return nil
			})
			e.refuse("Renew", err, locker.ErrNotHeld)
			e.refuse("Release", a.Release(ctx, lease), locker.ErrNotHeld)
			e.gone(ctx, a, lease)
			e.soonFree(ctx, a, lease.Key)
		})),
}
