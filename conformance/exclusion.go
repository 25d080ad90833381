package conformance

import (
	"context"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/locker-go/locker"
)

var exclusionCases = []Case{
	must("Exclusion/clients at once", "Of clients that ask for a free key at the same moment one gets it, and the others ErrHeld.",
		func(ctx context.Context, e *Env) {
			for range 5 {
				e.oneWinner(ctx, 6, func() locker.Locker { return e.open(ctx) })
			}
		}),
	// hazelcast-nodejs#898: first acquisitions raced the creation of the session.
	must("Exclusion/goroutines at once", "Of goroutines that ask for a free key with one new client one gets it, and the others ErrHeld.",
		func(ctx context.Context, e *Env) {
			for range 5 {
				shared := e.open(ctx)
				e.oneWinner(ctx, 6, func() locker.Locker { return shared })
			}
		}),
	must("Exclusion/contention", "However many contend, holders come one after the other, with tokens that rise.",
		func(ctx context.Context, e *Env) {
			var history History
			key := e.key()
			clients := []locker.Locker{history.Record(e.open(ctx)), history.Record(e.open(ctx))}
			e.each(ctx, 6, func(ctx context.Context, i int) {
				l := clients[i%len(clients)]
				for range 5 {
					lease := e.acquireWait(ctx, l, key, e.long)
					e.stands(ctx, l, lease)
					pause(ctx, time.Millisecond, "a moment as the holder")
					lease = e.renew(ctx, l, lease, e.long)
					e.release(ctx, l, lease)
				}
			})
			e.legal(&history)
		}),
	must("Exclusion/stalled holders", "A holder that comes back after its lease expired is told so, whatever it asks for; its successor is untouched.",
		func(ctx context.Context, e *Env) {
			var history History
			key := e.key()
			e.each(ctx, 3, func(ctx context.Context, i int) {
				l := history.Record(e.open(ctx))
				for range 2 {
					if i == 0 {
						e.release(ctx, l, e.acquireWait(ctx, l, key, e.long))
						continue
					}
					lease := e.acquireWait(ctx, l, key, e.short)
					e.lapse(ctx, lease)
					_, renewErr := l.Renew(ctx, lease, e.short)
					_, fenceErr := l.FenceToken(ctx, lease)
					e.refuse("Renew", renewErr, locker.ErrNotHeld)
					e.refuse("FenceToken", fenceErr, locker.ErrNotHeld)
					e.refuse("Release", l.Release(ctx, lease), locker.ErrNotHeld)
				}
			})
			e.legal(&history)
		}),
	must("Exclusion/guarded data", "What holders write to a resource that refuses stale tokens is as if they had come one after the other, even when leases expire under them.",
		func(ctx context.Context, e *Env) {
			var (
				guarded register
				done    increments
				key     = e.key()
			)
			e.each(ctx, 4, func(ctx context.Context, i int) {
				l := e.open(ctx)
				for round := range 3 {
					stalls := round == 1 && i%2 == 0
					ttl := e.long
					if stalls {
						ttl = e.short
					}
					lease := e.acquireWait(ctx, l, key, ttl)
					began := done.now()
					value, ok := guarded.read(lease.Token)
					if !ok && stalls {
						continue // it stalled longer than it meant to
					}
					if !ok {
						fail("the newest holder let in", "token %d is refused as stale", lease.Token)
					}
					if stalls {
						e.lapse(ctx, lease)
						pause(ctx, e.short/4, "others to write")
					}
					if guarded.write(lease.Token, value+1) {
						done.add(i, value, began)
					} else if !stalls {
						fail("the holder's write let in", "token %d is refused as stale", lease.Token)
					}
					if !stalls {
						e.release(ctx, l, lease)
					}
				}
			})
			if result := done.check(); result != porcupine.Ok {
				fail("increments that happened one after the other", "%s: %s", result, &done)
			}
		}),
}
