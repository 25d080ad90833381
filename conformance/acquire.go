package conformance

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/locker-go/locker"
)

var invalidTTLs = []time.Duration{0, -1, -time.Second, 500 * time.Microsecond, locker.MinTTL - 1, locker.MaxTTL + 1}

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
	should("Acquire/held names the holder", "Who is refused learns who holds the key: its name as ShowHolder prints it, and its token.",
		func(ctx context.Context, e *Env) {
			lease := e.acquire(ctx, e.open(ctx), e.key(), e.long)
			held := e.held(ctx, e.open(ctx), lease.Key)
			want := lease.Holding()
			if held.Key != want.Key || held.Holder != want.Holder || held.Token != want.Token {
				fail(fmt.Sprintf("%q held by %s with token %d", want.Key, want.Holder, want.Token),
					"%q held by %s with token %d", held.Key, held.Holder, held.Token)
			}
		}),
	should("Acquire/held tells the time left", "Who is refused learns for how long the backend will keep the lock: no shorter than the holder counts on, no longer than TTL and Grace.",
		func(ctx context.Context, e *Env) {
			lease := e.acquire(ctx, e.open(ctx), e.key(), e.long)
			e.plausible(e.held(ctx, e.open(ctx), lease.Key).Remaining, lease)
		}),
	must("Acquire/after release", "A key that was released is free at once, for every client.",
		func(ctx context.Context, e *Env) {
			key, a, b := e.key(), e.open(ctx), e.open(ctx)
			e.release(ctx, a, e.acquire(ctx, a, key, e.long))
			e.release(ctx, b, e.acquire(ctx, b, key, e.long))
			e.free(ctx, a, key)
		}),
	// etcd#6025, classicswarm#1251: 1.5 s became 1 s, unnoticed by the holder.
	must("Acquire/not before the deadline", "Nobody is granted the key before the deadline that its holder counts on.",
		func(ctx context.Context, e *Env) {
			lease := e.acquire(ctx, e.open(ctx), e.key(), e.short+e.short/2+time.Nanosecond)
			e.takeOver(ctx, e.open(ctx), lease)
		}),
	must("Acquire/after expiry", "A lease that is not renewed frees its key, at most Grace after the TTL that it was granted for.",
		func(ctx context.Context, e *Env) {
			lease := e.acquire(ctx, e.open(ctx), e.key(), e.short)
			e.lapse(ctx, lease)
			e.free(ctx, e.open(ctx), lease.Key)
		}),
	// redlock-py#3: the allowance for drift had the wrong sign.
	must("Acquire/drift", "The holder's deadline leaves room for clocks that drift: TTL less 1 % and 2 ms, from before the request left.",
		func(ctx context.Context, e *Env) {
			lease := e.acquire(ctx, e.open(ctx), e.key(), e.long)
			e.drifts(lease)
		}),
	must("Acquire/shortest TTL", "A TTL of 10 ms is allowed: it is granted as a lease that ends as it says, or the backend is too slow for it and takes nothing.",
		func(ctx context.Context, e *Env) {
			key, a, b := e.key(), e.open(ctx), e.open(ctx)
			lease, err := a.Acquire(ctx, key, locker.MinTTL)
			if err != nil {
				e.refuse("Acquire for the shortest TTL", err, locker.ErrUnavailable)
				e.free(ctx, b, key)
				return
			}
			e.remember(a, lease)
			e.takeOver(ctx, b, lease)
		}),
	// redislock (v0.10.0) returned a lock for a TTL of zero although there was no key.
	must("Acquire/invalid TTL", "A TTL that is zero, negative, below 10 ms or above the maximum is ErrInvalid, and takes nothing.",
		func(ctx context.Context, e *Env) {
			key, a := e.key(), e.open(ctx)
			for _, ttl := range invalidTTLs {
				lease, err := a.Acquire(ctx, key, ttl)
				e.refuse("Acquire for "+ttl.String(), err, locker.ErrInvalid)
				if lease != (locker.Lease{}) {
					fail("no lease with an error", "%s", lease)
				}
			}
			e.free(ctx, e.open(ctx), key)
		}),
	must("Acquire/cancelled before", "With a context that has ended Acquire fails with its error, and takes nothing.",
		func(ctx context.Context, e *Env) {
			key, a := e.key(), e.open(ctx)
			ended, cancel := context.WithCancel(ctx)
			cancel()
			lease, err := a.Acquire(ended, key, e.long)
			if err == nil {
				e.remember(a, lease)
			}
			e.refuse("Acquire", err, context.Canceled)
			e.free(ctx, e.open(ctx), key)
		}),
	// redsync, blnk#354, ncps#913: the clean-up used the caller's cancelled context, so
	// the key stayed for its whole TTL.
	must("Acquire/cancelled under way", "An Acquire that is cancelled at any moment has the lock, or leaves the key free.",
		func(ctx context.Context, e *Env) {
			a, b := e.open(ctx), e.open(ctx)
			e.free(ctx, a, e.key()) // so that a is connected
			for i := range 60 {
				key := e.key()
				brief, cancel := context.WithTimeout(ctx, time.Duration(i)*20*time.Microsecond+rand.N(20*time.Microsecond))
				lease, err := a.Acquire(brief, key, e.long)
				cancel()
				switch {
				case err == nil:
					e.remember(a, lease)
					e.release(ctx, a, lease)
				case errors.Is(err, locker.ErrHeld):
					fail("a lease, or the context's error", "Acquire of a key that nobody wants: %s", show(err))
				default:
					e.refuse("Acquire", err, context.DeadlineExceeded)
				}
				e.free(ctx, b, key)
			}
		}),
	must("Acquire/many keys", "Each key is a lock of its own: a client holds many, and giving one back touches no other.",
		func(ctx context.Context, e *Env) {
			a, b := e.open(ctx), e.open(ctx)
			var leases []locker.Lease
			for range 5 {
				leases = append(leases, e.acquire(ctx, a, e.key(), e.long))
			}
			e.release(ctx, a, leases[2])
			e.free(ctx, b, leases[2].Key)
			for i, lease := range leases {
				if i != 2 {
					e.stands(ctx, a, lease)
					e.held(ctx, b, lease.Key)
				}
			}
		}),
}
