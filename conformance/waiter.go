package conformance

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/locker-go/locker"
)

// These run locker.AcquireWait, which uses the backend's Waiter if there is one.
var waiterCases = []Case{
	must("Waiter/free key", "A wait for a free key is granted at once.",
		func(ctx context.Context, e *Env) {
			l, key := e.open(ctx), e.key()
			lease := e.wait(ctx, l, key).granted(patience)
			e.stands(ctx, l, lease)
		}),
	must("Waiter/release", "A waiter gets the lock when it is released, long before the holder's TTL is over.",
		func(ctx context.Context, e *Env) {
			a, b := e.open(ctx), e.open(ctx)
			lease := e.acquire(ctx, a, e.key(), e.long)
			w := e.wait(ctx, b, lease.Key)
			e.settle(ctx)
			e.release(ctx, a, lease)
			next := w.granted(patience)
			e.rises(lease, next)
			e.stands(ctx, b, next)
		}),
	must("Waiter/expiry", "A waiter gets the lock of a holder that died, not before its deadline, and soon after its TTL.",
		func(ctx context.Context, e *Env) {
			b := e.open(ctx)
			lease := e.acquire(ctx, e.open(ctx), e.key(), e.short)
			w := e.wait(ctx, b, lease.Key)
			next := w.granted(lease.TTL + e.backend.Grace + patience)
			if left := lease.Remaining(); left > 0 {
				fail("no grant while the holder counts on its lease", "a grant %s before its deadline", left)
			}
			e.rises(lease, next)
		}),
	must("Waiter/renewing holder", "A holder that renews keeps waiters waiting; when it releases they get the lock.",
		func(ctx context.Context, e *Env) {
			a, b := e.open(ctx), e.open(ctx)
			var w *waiter
			lease := e.keepAlive(ctx, a,
				func(key string) { w = e.wait(ctx, b, key) },
				func(lease locker.Lease) {
					if !w.waiting() && lease.Remaining() > 0 {
						fail("a wait that lasts", "an end of it while the holder counts on its lease: %s, %s", w.lease, show(w.err))
					}
				})
			e.release(ctx, a, lease)
			w.granted(patience)
		}),
	// redsync#164, redislock#79: only one of the two reasons could be told.
	must("Waiter/context ends", "A wait that ends with its context is both ErrHeld and the context's error, at once.",
		func(ctx context.Context, e *Env) {
			lease := e.acquire(ctx, e.open(ctx), e.key(), e.long)
			b := e.open(ctx)
			e.knowsHolder(ctx, func(given context.Context, after time.Duration) *waiter {
				brief, cancel := context.WithTimeout(given, after)
				e.atEnd(func() error { cancel(); return nil })
				return e.wait(brief, b, lease.Key)
			}).refused(locker.ErrHeld, context.DeadlineExceeded)
			e.knowsHolder(ctx, func(given context.Context, after time.Duration) *waiter {
				cancelled, cancel := context.WithCancelCause(given)
				w := e.wait(cancelled, b, lease.Key)
				pause(ctx, after, "a waiter")
				cancel(errors.New("no longer wanted"))
				return w
			}).refused(locker.ErrHeld, context.Canceled)
		}),
	must("Waiter/context ended before", "A wait with a context that has ended fails with its error, and takes nothing.",
		func(ctx context.Context, e *Env) {
			l, key := e.open(ctx), e.key()
			ended, cancel := context.WithCancel(ctx)
			cancel()
			e.wait(ended, l, key).refused(context.Canceled)
			e.free(ctx, e.open(ctx), key)
		}),
	// vitess#15756, etcd#9715: a cancelled waiter left its place in the queue, and
	// everybody behind it waited for ever.
	must("Waiter/cancelled in the queue", "A waiter that gives up leaves nothing that blocks those behind it.",
		func(ctx context.Context, e *Env) {
			a, b := e.open(ctx), e.open(ctx)
			lease := e.acquire(ctx, a, e.key(), e.long)
			gone, cancel := context.WithCancel(ctx)
			defer cancel()
			first := []*waiter{e.wait(gone, e.open(ctx), lease.Key), e.wait(gone, b, lease.Key)}
			e.settle(ctx)
			behind := e.wait(ctx, e.open(ctx), lease.Key)
			e.settle(ctx)
			cancel()
			for _, w := range first {
				w.refused(context.Canceled)
			}
			e.release(ctx, a, lease)
			behind.granted(patience)
		}),
	must("Waiter/cancelled at the release", "A wait that is cancelled while the lock is being released has the lock, or leaves it free.",
		func(ctx context.Context, e *Env) {
			a, b := e.open(ctx), e.open(ctx)
			for round := range 20 {
				lease := e.acquire(ctx, a, e.key(), e.long)
				given, cancel := context.WithCancel(ctx)
				w := e.wait(given, b, lease.Key)
				pause(ctx, time.Duration(round)*time.Millisecond/4, "a waiter")
				e.each(ctx, 2, func(ctx context.Context, i int) {
					if i == 0 {
						cancel()
					} else {
						e.release(ctx, a, lease)
					}
				})
				cancel()
				w.end(patience)
				if w.err == nil {
					e.release(ctx, b, w.lease)
				}
				e.free(ctx, a, lease.Key)
			}
		}),
	must("Waiter/many", "All who wait get their turn.",
		func(ctx context.Context, e *Env) {
			var history History
			key, a := e.key(), e.open(ctx)
			lease := e.acquire(ctx, a, key, e.long)
			clients := []locker.Locker{history.Record(a), history.Record(e.open(ctx)), history.Record(e.open(ctx))}
			e.each(ctx, 10, func(ctx context.Context, i int) {
				if i == 0 {
					e.settle(ctx)
					e.release(ctx, a, lease)
					return
				}
				l := clients[i%len(clients)]
				e.release(ctx, l, e.wait(ctx, l, key).granted(e.long*3/4))
			})
			e.legal(&history)
		}),
	must("Waiter/invalid arguments", "A wait with an invalid key or TTL is ErrInvalid at once, also while the key is held.",
		func(ctx context.Context, e *Env) {
			l := e.open(ctx)
			lease := e.acquire(ctx, l, e.key(), e.long)
			for _, ttl := range invalidTTLs {
				_, err := locker.AcquireWait(ctx, l, lease.Key, ttl)
				e.refuse(fmt.Sprintf("AcquireWait for %s", ttl), err, locker.ErrInvalid)
			}
			_, err := locker.AcquireWait(ctx, l, "", e.long)
			e.refuse("AcquireWait of the empty key", err, locker.ErrInvalid)
		}),
	alone(should("Waiter/few requests", "Waiting is cheap: each of four waiters sends at most 25 requests a second.",
		func(ctx context.Context, e *Env) {
			e.requests(ctx) // or skips
			lease := e.acquire(ctx, e.open(ctx), e.key(), e.long)
			over, cancel := context.WithCancel(ctx)
			defer cancel()
			for range 4 {
				e.wait(over, e.open(ctx), lease.Key)
			}
			pause(ctx, time.Second, "waiters to begin")
			before, began := e.requests(ctx), locker.Now()
			pause(ctx, 2*time.Second, "waiters to wait")
			sent, took := e.requests(ctx)-before, began.Elapsed()
			if most := int64(4 * 25 * took.Seconds()); sent > most {
				fail(fmt.Sprintf("at most %d requests in %s", most, took), "%d", sent)
			}
		})),
}
