package conformance

import (
	"context"

	"github.com/locker-go/locker"
)

var fenceTokenCases = []Case{
	must("FenceToken/current", "FenceToken of the lease that stands is its own token, before and after a renewal.",
		func(ctx context.Context, e *Env) {
			a := e.open(ctx)
			lease := e.acquire(ctx, a, e.key(), e.long)
			e.stands(ctx, a, lease)
			e.stands(ctx, a, e.renew(ctx, a, lease, e.long))
		}),
	must("FenceToken/released", "FenceToken of a lease that was released is ErrNotHeld.",
		func(ctx context.Context, e *Env) {
			a := e.open(ctx)
			lease := e.acquire(ctx, a, e.key(), e.long)
			e.release(ctx, a, lease)
			e.gone(ctx, a, lease)
		}),
	must("FenceToken/expired", "FenceToken of a lease that expired is ErrNotHeld, also while nobody has the key.",
		func(ctx context.Context, e *Env) {
			a := e.open(ctx)
			lease := e.acquire(ctx, a, e.key(), e.short)
			e.lapse(ctx, lease)
			e.gone(ctx, a, lease)
		}),
	// RFencedLock: a stale holder that asked for its token was given its successor's.
	must("FenceToken/successor", "FenceToken never returns the token of a successor: to a stale holder it is ErrNotHeld.",
		func(ctx context.Context, e *Env) {
			a, b := e.open(ctx), e.open(ctx)
			first := e.acquire(ctx, a, e.key(), e.long)
			e.release(ctx, a, first)
			second := e.acquire(ctx, b, first.Key, e.long)
			e.gone(ctx, a, first)
			e.stands(ctx, b, second)
		}),
	must("FenceToken/forged holder", "Under a similar name FenceToken is ErrNotHeld.",
		func(ctx context.Context, e *Env) {
			e.forge(ctx, otherHolders, func(l locker.Locker, forged locker.Lease) error {
				_, err := l.FenceToken(ctx, forged)
				return err
			})
		}),
	must("FenceToken/forged token", "With another token FenceToken is ErrNotHeld: it confirms a token, and does not look one up.",
		func(ctx context.Context, e *Env) {
			e.forge(ctx, otherTokens, func(l locker.Locker, forged locker.Lease) error {
				_, err := l.FenceToken(ctx, forged)
				return err
			})
		}),
	must("FenceToken/no renewal", "Asking for the token does not extend the lease.",
		func(ctx context.Context, e *Env) {
			a := e.open(ctx)
			lease := e.acquire(ctx, a, e.key(), e.short)
			for e.overdue(lease) <= 0 {
				if _, err := a.FenceToken(ctx, lease); err != nil {
					e.refuse("FenceToken", err, locker.ErrNotHeld)
				}
				pause(ctx, e.short/10, "the lease to expire")
			}
			e.free(ctx, e.open(ctx), lease.Key)
		}),
	must("FenceToken/cancelled", "With a context that has ended FenceToken fails with its error, which says nothing of the lease.",
		func(ctx context.Context, e *Env) {
			a := e.open(ctx)
			lease := e.acquire(ctx, a, e.key(), e.long)
			ended, cancel := context.WithCancel(ctx)
			cancel()
			token, err := a.FenceToken(ended, lease)
			e.refuse("FenceToken", err, context.Canceled)
			e.refuseNot("FenceToken", err, locker.ErrNotHeld)
			if token != 0 {
				fail("no token with an error", "%d", token)
			}
			e.stands(ctx, a, lease)
		}),
}
