package conformance

import (
	"context"
	"fmt"
	"time"

	"github.com/locker-go/locker"
)

// distinct checks that each key is a lock of its own, beside all others.
func (e *Env) distinct(ctx context.Context, keys ...string) {
	a, b := e.open(ctx), e.open(ctx)
	leases := make([]locker.Lease, len(keys))
	for i, key := range keys {
		lease, err := a.Acquire(ctx, key, e.long)
		if err != nil {
			fail(fmt.Sprintf("a lease of the free key %q", key), "Acquire, with %q held: %s", keys[:i], show(err))
		}
		e.remember(a, lease)
		leases[i] = lease
	}
	for i, key := range keys {
		if _, err := a.FenceToken(ctx, leases[i]); err != nil {
			fail(fmt.Sprintf("the lease of %q to stand", key), "FenceToken, after acquiring %q: %s", keys[i+1:], show(err))
		}
		e.held(ctx, b, key)
	}
	for i, key := range keys {
		e.release(ctx, a, leases[i])
		e.free(ctx, b, key)
		for j := i + 1; j < len(keys); j++ {
			if _, err := a.FenceToken(ctx, leases[j]); err != nil {
				fail(fmt.Sprintf("the lease of %q to stand", keys[j]), "FenceToken, after releasing %q: %s", key, show(err))
			}
		}
	}
}

// invalid checks that every method refuses each of the keys.
func (e *Env) invalid(ctx context.Context, keys ...string) {
	l := e.open(ctx)
	for _, key := range keys {
		lease := locker.Lease{Key: key, Holder: locker.NewHolder(), Token: 1, TTL: e.long, Deadline: time.Now().Add(e.long)}
		_, err := l.Acquire(ctx, key, e.long)
		e.refuse("Acquire", err, locker.ErrInvalid)
		_, err = locker.AcquireWait(ctx, l, key, e.long)
		e.refuse("AcquireWait", err, locker.ErrInvalid)
		_, err = l.Renew(ctx, lease, e.long)
		e.refuse("Renew", err, locker.ErrInvalid)
		e.refuse("Release", l.Release(ctx, lease), locker.ErrInvalid)
		_, err = l.FenceToken(ctx, lease)
		e.refuse("FenceToken", err, locker.ErrInvalid)
		if admin, ok := locker.As[locker.Admin](l); ok {
			_, err = admin.Inspect(ctx, key)
			e.refuse("Inspect", err, locker.ErrInvalid)
			e.refuse("Break", admin.Break(ctx, lease.Holding()), locker.ErrInvalid)
			e.refuse("Raise", admin.Raise(ctx, key, 1), locker.ErrInvalid)
		}
	}
}
