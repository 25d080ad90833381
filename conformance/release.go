package conformance

import (
	"context"

	"github.com/locker-go/locker"
)

var releaseCases = []Case{
	must("Release/twice", "A lease that was released is no longer held: releasing it again is ErrNotHeld.",
		func(ctx context.Context, e *Env) {
			a := e.open(ctx)
			lease := e.acquire(ctx, a, e.key(), e.long)
			e.release(ctx, a, lease)
			e.refuse("the second Release", a.Release(ctx, lease), locker.ErrNotHeld)
		}),
	// ShedLock#2583: a stale unlock, by the key alone, freed the successor's lock.
	must("Release/successor", "Release ends this very grant and no other: of a lease that expired it is ErrNotHeld, and whoever has the key now keeps it.",
		func(ctx context.Context, e *Env) {
			a, b := e.open(ctx), e.open(ctx)
			lease := e.acquire(ctx, a, e.key(), e.short)
			next := e.takeOver(ctx, b, lease)
			e.refuse("Release", a.Release(ctx, lease), locker.ErrNotHeld)
			e.stands(ctx, b, next)
			e.held(ctx, a, lease.Key)
		}),
}
