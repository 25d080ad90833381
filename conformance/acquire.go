package conformance

import (
	"context"
	"fmt"
	"time"

	"github.com/locker-go/locker"
)

var acquireCases = []Case{
	must("Acquire/free key", "A free key is granted at the first attempt, by a lease that says for how long.",
		func(ctx context.Context, e *Env) {
			key := e.key()
			lease := e.acquire(ctx, e.open(ctx), key, e.long)
			switch {
			case lease.Key != key:
				fail(fmt.Sprintf("a lease of %q", key), "one of %q", lease.Key)
			case lease.Holder == "":
				fail("a lease with a holder", "one without")
			case lease.TTL <= 0 || lease.Remaining() <= 0:
				fail("a lease with time left", "TTL %s, %s left", lease.TTL, lease.Remaining())
			}
		}),
	must("Acquire/held by another client", "One attempt at a key that is held fails with ErrHeld as a *HeldError.",
		func(ctx context.Context, e *Env) {
			key, a := e.key(), e.open(ctx)
			lease := e.acquire(ctx, a, key, e.long)
			e.held(ctx, e.open(ctx), key)
			e.stands(ctx, a, lease)
		}),
	// etcd#11391, etcd#11360: two handles on one session both held the lock.
	must("Acquire/held by the same client", "Locks are not reentrant: a client that asks for a key that it holds gets ErrHeld.",
		func(ctx context.Context, e *Env) {
			key, a := e.key(), e.open(ctx)
			lease := e.acquire(ctx, a, key, e.long)
			e.held(ctx, a, key)
			e.stands(ctx, a, lease)
		}),
	must("Acquire/after release", "A key that was released is free at once, for every client.",
		func(ctx context.Context, e *Env) {
			key, a, b := e.key(), e.open(ctx), e.open(ctx)
			e.release(ctx, a, e.acquire(ctx, a, key, e.long))
			e.release(ctx, b, e.acquire(ctx, b, key, e.long))
			e.free(ctx, a, key)
		}),
	// etcd#6025, classicswarm#1251: 1.5 s became 1 s, unnoticed by the holder.
	must("Acquire/after expiry", "A lease that is not renewed frees its key: never before its deadline, and at most Grace after its TTL.",
		func(ctx context.Context, e *Env) {
			lease := e.acquire(ctx, e.open(ctx), e.key(), e.short+e.short/2+time.Nanosecond)
			e.takeOver(ctx, e.open(ctx), lease)
		}),
	// redislock (v0.10.0) returned a lock for a TTL of zero although there was no key.
	must("Acquire/invalid TTL", "A TTL that is zero, negative, below 10 ms or above the maximum is ErrInvalid, and takes nothing.",
		func(ctx context.Context, e *Env) {
			key, a := e.key(), e.open(ctx)
			for _, ttl := range invalidTTLs {
				_, err := a.Acquire(ctx, key, ttl)
				e.refuse("Acquire for "+ttl.String(), err, locker.ErrInvalid)
			}
			e.free(ctx, e.open(ctx), key)
		}),
}

var invalidTTLs = []time.Duration{0, -1, -time.Second, 500 * time.Microsecond, locker.MinTTL - 1, locker.MaxTTL + 1}
