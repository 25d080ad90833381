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
			e.refuse("the third Release", a.Release(ctx, lease), locker.ErrNotHeld)
		}),
	must("Release/expired", "Release of a lease that expired is ErrNotHeld, also while nobody has the key.",
		func(ctx context.Context, e *Env) {
			a := e.open(ctx)
			lease := e.acquire(ctx, a, e.key(), e.short)
			e.lapse(ctx, lease)
			e.refuse("Release", a.Release(ctx, lease), locker.ErrNotHeld)
			e.free(ctx, a, lease.Key)
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
	// etcd#22082: a retried unlock deleted a newer lock of the same session.
	must("Release/successor of the same client", "Release goes by the grant, not by the client: an older lease does not end a newer one of the same client.",
		func(ctx context.Context, e *Env) {
			a := e.open(ctx)
			first := e.acquire(ctx, a, e.key(), e.long)
			e.release(ctx, a, first)
			second := e.acquire(ctx, a, first.Key, e.long)
			e.refuse("Release", a.Release(ctx, first), locker.ErrNotHeld)
			e.stands(ctx, a, second)
			e.held(ctx, e.open(ctx), first.Key)
		}),
	must("Release/never held", "Release of a lease on a key that it was not granted for is ErrNotHeld, and touches neither key.",
		func(ctx context.Context, e *Env) {
			a, b := e.open(ctx), e.open(ctx)
			lease := e.acquire(ctx, a, e.key(), e.long)
			other := e.acquire(ctx, b, e.key(), e.long)
			moved := lease
			moved.Key = other.Key
			e.refuse("Release", a.Release(ctx, moved), locker.ErrNotHeld)
			moved.Key = e.key()
			e.refuse("Release", a.Release(ctx, moved), locker.ErrNotHeld)
			e.stands(ctx, a, lease)
			e.stands(ctx, b, other)
		}),
	// redislock compared holders by their beginning.
	must("Release/forged holder", "Only the holder releases: under a similar name it is ErrNotHeld, and the lease stands.",
		func(ctx context.Context, e *Env) {
			e.forge(ctx, otherHolders, func(l locker.Locker, forged locker.Lease) error { return l.Release(ctx, forged) })
		}),
	must("Release/forged token", "Only the very grant is released: with another token it is ErrNotHeld, and the lease stands.",
		func(ctx context.Context, e *Env) {
			e.forge(ctx, otherTokens, func(l locker.Locker, forged locker.Lease) error { return l.Release(ctx, forged) })
		}),
	must("Release/cancelled", "With a context that has ended Release fails with its error; the lock is released later, or with its TTL.",
		func(ctx context.Context, e *Env) {
			a := e.open(ctx)
			lease := e.acquire(ctx, a, e.key(), e.long)
			ended, cancel := context.WithCancel(ctx)
			cancel()
			e.refuse("Release", a.Release(ended, lease), context.Canceled)
			if err := a.Release(ctx, lease); err != nil {
				e.refuse("Release", err, locker.ErrNotHeld)
			}
			e.free(ctx, e.open(ctx), lease.Key)
		}),
}
