package conformance

import (
	"context"
	"fmt"

	"github.com/locker-go/locker"
)

var renewCases = []Case{
	must("Renew/token", "Renew keeps the token, the key and the holder.",
		func(ctx context.Context, e *Env) {
			a := e.open(ctx)
			lease := e.acquire(ctx, a, e.key(), e.long)
			renewed := e.renew(ctx, a, lease, e.long)
			if renewed.Token != lease.Token || renewed.Key != lease.Key || renewed.Holder != lease.Holder {
				fail(lease.String(), "%s", renewed)
			}
			e.stands(ctx, a, renewed)
		}),
	must("Renew/keeps the lock", "A lease that is renewed in time holds beyond its first TTL, and nobody else gets the key.",
		func(ctx context.Context, e *Env) {
			a, b := e.open(ctx), e.open(ctx)
			e.keepAlive(ctx, a, func(string) {}, func(lease locker.Lease) {
				other, err := b.Acquire(ctx, lease.Key, e.long)
				if err == nil {
					e.remember(b, other)
				}
				if err == nil && lease.Remaining() > 0 {
					fail("ErrHeld", "a grant %s before the holder's deadline", lease.Remaining())
				}
			})
		}),
	// trillian#2249, valkeyrie#61: renewal died after 16 times.
	must("Renew/many times", "A lease can be renewed any number of times.",
		func(ctx context.Context, e *Env) {
			a := e.open(ctx)
			lease := e.acquire(ctx, a, e.key(), e.long)
			for range 40 {
				lease = e.renew(ctx, a, lease, e.long)
			}
			e.stands(ctx, a, lease)
		}),
	must("Renew/longer", "Renew for a longer TTL keeps the lock beyond the shorter one's end.",
		func(ctx context.Context, e *Env) {
			a, b := e.open(ctx), e.open(ctx)
			for ttl := e.short; ttl <= 32*e.short; ttl *= 2 {
				lease := e.acquire(ctx, a, e.key(), ttl)
				end := locker.Now().Add(lease.TTL + e.backend.Grace)
				renewed, inTime := e.renewInTime(ctx, a, lease, ttl*2+e.long)
				if !inTime {
					continue // this machine was too slow
				}
				for end.Elapsed() < 0 {
					pause(ctx, -end.Elapsed(), "the first TTL to be over")
				}
				e.stands(ctx, a, renewed)
				e.held(ctx, b, lease.Key)
				if renewed.TTL <= lease.TTL || renewed.Remaining() <= 0 {
					fail("a lease with the longer TTL, and time left", "TTL %s, %s left", renewed.TTL, renewed.Remaining())
				}
				return
			}
			fail("a lease that is renewed in time", "a machine too slow for a TTL of %s, and for longer ones", e.short)
		}),
	must("Renew/shorter", "Renew for a shorter TTL makes the deadline earlier, and the holder goes on until then.",
		func(ctx context.Context, e *Env) {
			a, b := e.open(ctx), e.open(ctx)
			lease := e.renew(ctx, a, e.acquire(ctx, a, e.key(), e.long), e.long/2)
			if left := lease.Remaining(); left > e.long*3/4 {
				fail(fmt.Sprintf("about %s left", e.long/2), "%s", left)
			}
			e.stands(ctx, a, lease)
			e.held(ctx, b, lease.Key)
		}),
	should("Renew/shorter frees sooner", "After Renew for a shorter TTL a dead holder's key is free when that has passed.",
		func(ctx context.Context, e *Env) {
			a := e.open(ctx)
			lease := e.renew(ctx, a, e.acquire(ctx, a, e.key(), e.long), e.short)
			e.takeOver(ctx, e.open(ctx), lease)
		}),
	must("Renew/drift", "The renewed deadline leaves room for clocks that drift: TTL less 1 % and 2 ms, from before the request left.",
		func(ctx context.Context, e *Env) {
			a := e.open(ctx)
			e.drifts(e.renew(ctx, a, e.acquire(ctx, a, e.key(), e.long), e.long))
		}),
	// redislock (v0.10.0): a refresh for 500 us deleted the key, and said that all was well.
	must("Renew/invalid TTL", "A TTL that is zero, negative, below 10 ms or above the maximum is ErrInvalid, and the lease stands as it was.",
		func(ctx context.Context, e *Env) {
			a := e.open(ctx)
			lease := e.acquire(ctx, a, e.key(), e.long)
			for _, ttl := range invalidTTLs {
				same, err := a.Renew(ctx, lease, ttl)
				e.refuse("Renew for "+ttl.String(), err, locker.ErrInvalid)
				e.unchanged(lease, same)
			}
			e.stands(ctx, a, lease)
			e.held(ctx, e.open(ctx), lease.Key)
		}),
	// redsync (SetNXOnExtend), redlock-rb#36, RedLock.net#48, libkv#31: extending a lock
	// that had expired succeeded, or took it again.
	must("Renew/expired", "Renew never takes a lock again that expired: it is ErrNotHeld, the lease is returned as it was, and the key stays free.",
		func(ctx context.Context, e *Env) {
			a := e.open(ctx)
			lease := e.acquire(ctx, a, e.key(), e.short)
			e.lapse(ctx, lease)
			same, err := a.Renew(ctx, lease, e.long)
			e.refuse("Renew", err, locker.ErrNotHeld)
			e.unchanged(lease, same)
			e.free(ctx, e.open(ctx), lease.Key)
		}),
	must("Renew/released", "Renew never takes a lock again that was released: it is ErrNotHeld, and the key stays free.",
		func(ctx context.Context, e *Env) {
			a := e.open(ctx)
			lease := e.acquire(ctx, a, e.key(), e.long)
			e.release(ctx, a, lease)
			_, err := a.Renew(ctx, lease, e.long)
			e.refuse("Renew", err, locker.ErrNotHeld)
			e.free(ctx, e.open(ctx), lease.Key)
		}),
	// redsync#61, RedLock.net#48: extending a lock that was never held created it.
	must("Renew/never held", "Renew of a lease on a key that it was not granted for is ErrNotHeld, and creates nothing.",
		func(ctx context.Context, e *Env) {
			a := e.open(ctx)
			lease := e.acquire(ctx, a, e.key(), e.long)
			moved := lease
			moved.Key = e.key()
			_, err := a.Renew(ctx, moved, e.long)
			e.refuse("Renew", err, locker.ErrNotHeld)
			e.free(ctx, e.open(ctx), moved.Key)
			e.stands(ctx, a, lease)
		}),
	must("Renew/successor", "Renew of a lease that expired is ErrNotHeld, and whoever has the key now keeps it.",
		func(ctx context.Context, e *Env) {
			a, b := e.open(ctx), e.open(ctx)
			lease := e.acquire(ctx, a, e.key(), e.short)
			next := e.takeOver(ctx, b, lease)
			_, err := a.Renew(ctx, lease, e.long)
			e.refuse("Renew", err, locker.ErrNotHeld)
			e.stands(ctx, b, next)
		}),
	must("Renew/forged holder", "Only the holder renews: under a similar name it is ErrNotHeld, and the lease stands.",
		func(ctx context.Context, e *Env) {
			e.forge(ctx, otherHolders, func(l locker.Locker, forged locker.Lease) error {
				_, err := l.Renew(ctx, forged, e.long)
				return err
			})
		}),
	must("Renew/forged token", "Only the very grant is renewed: with another token it is ErrNotHeld, and the lease stands.",
		func(ctx context.Context, e *Env) {
			e.forge(ctx, otherTokens, func(l locker.Locker, forged locker.Lease) error {
				_, err := l.Renew(ctx, forged, e.long)
				return err
			})
		}),
	// dynamolock#280: a renewal whose reply was lost made the next one fail.
	must("Renew/older copy", "Renewing is idempotent: the lease as it was before a renewal renews, and releases, as well.",
		func(ctx context.Context, e *Env) {
			a := e.open(ctx)
			lease := e.acquire(ctx, a, e.key(), e.long/2)
			e.renew(ctx, a, lease, e.long)
			e.renew(ctx, a, lease, e.long/2)
			e.renew(ctx, a, lease, e.long)
			e.stands(ctx, a, lease)
			e.release(ctx, a, lease)
			e.free(ctx, e.open(ctx), lease.Key)
		}),
	// RedLock.net#64, redis-semaphore#206: a renewal in flight took a lock again that had
	// just been released.
	must("Renew/during release", "A renewal at the same time as the release does not bring the lock back.",
		func(ctx context.Context, e *Env) {
			a, b := e.open(ctx), e.open(ctx)
			for range 30 {
				lease := e.acquire(ctx, a, e.key(), e.long)
				e.each(ctx, 2, func(ctx context.Context, i int) {
					if i == 0 {
						e.release(ctx, a, lease)
						return
					}
					if _, err := a.Renew(ctx, lease, e.long); err != nil {
						e.refuse("Renew", err, locker.ErrNotHeld)
					}
				})
				e.free(ctx, b, lease.Key)
			}
		}),
	must("Renew/cancelled", "With a context that has ended Renew fails with its error, and the lease stands as it was.",
		func(ctx context.Context, e *Env) {
			a := e.open(ctx)
			lease := e.acquire(ctx, a, e.key(), e.long)
			ended, cancel := context.WithCancel(ctx)
			cancel()
			same, err := a.Renew(ended, lease, e.long)
			e.refuse("Renew", err, context.Canceled)
			e.unchanged(lease, same)
			e.stands(ctx, a, lease)
			e.renew(ctx, a, lease, e.long)
		}),
}
