package conformance_test

import (
	"context"
	"time"

	"github.com/locker-go/locker"
)

// again returns a Renew that takes a lost lock again.
func again(b *broken) func(context.Context, locker.Lease, time.Duration) (locker.Lease, error) {
	return func(ctx context.Context, lease locker.Lease, ttl time.Duration) (locker.Lease, error) {
		renewed, err := b.inner.Renew(ctx, lease, ttl)
		if isNotHeld(err) {
			if renewed, err = b.inner.Acquire(ctx, lease.Key, ttl); err != nil {
				return lease, err
			}
		}
		return renewed, err
	}
}

var renewMutants = []mutant{
	{"a renewal is a new grant", []string{"Renew/token", "Renew/older copy"}, by(func(b *broken) {
		b.renew = func(ctx context.Context, lease locker.Lease, ttl time.Duration) (locker.Lease, error) {
			if err := b.inner.Release(ctx, lease); err != nil {
				return lease, err
			}
			return b.inner.Acquire(ctx, lease.Key, ttl)
		}
	})},
	{"a renewal is only noted by the client", []string{"Renew/keeps the lock", "Renew/longer", "Waiter/renewing holder"}, by(func(b *broken) {
		b.renew = func(ctx context.Context, lease locker.Lease, ttl time.Duration) (locker.Lease, error) {
			asked := locker.Now()
			if _, err := b.inner.FenceToken(ctx, lease); err != nil {
				return lease, err
			}
			return lease.Granted(asked, ttl, ttl), nil
		}
	})},
	{"trillian#2249: dead after 16 renewals", []string{"Renew/many times"}, by(func(b *broken) {
		times := 0
		b.renew = func(ctx context.Context, lease locker.Lease, ttl time.Duration) (locker.Lease, error) {
			if times++; times > 16 {
				return lease, &locker.OpError{Op: "renew", Key: lease.Key, Err: locker.ErrNotHeld}
			}
			return b.inner.Renew(ctx, lease, ttl)
		}
	})},
	{"renews for the first TTL, whatever is asked", []string{"Renew/longer"}, by(func(b *broken) {
		b.renew = func(ctx context.Context, lease locker.Lease, ttl time.Duration) (locker.Lease, error) {
			asked := locker.Now()
			renewed, err := b.inner.Renew(ctx, lease, lease.TTL)
			if err != nil {
				return lease, err
			}
			return renewed.Granted(asked, ttl, ttl), nil
		}
	})},
	{"never makes a deadline earlier", []string{"Renew/shorter"}, by(func(b *broken) {
		b.renew = func(ctx context.Context, lease locker.Lease, ttl time.Duration) (locker.Lease, error) {
			return b.inner.Renew(ctx, lease, max(ttl, lease.TTL))
		}
	})},
	{"shortens the lease for the client only", []string{"Renew/shorter frees sooner"}, by(func(b *broken) {
		b.renew = func(ctx context.Context, lease locker.Lease, ttl time.Duration) (locker.Lease, error) {
			asked := locker.Now()
			renewed, err := b.inner.Renew(ctx, lease, max(ttl, lease.TTL))
			if err != nil {
				return lease, err
			}
			return renewed.Granted(asked, ttl, ttl), nil
		}
	})},
	{"allows for no drift", []string{"Renew/drift"}, by(func(b *broken) {
		b.renew = func(ctx context.Context, lease locker.Lease, ttl time.Duration) (locker.Lease, error) {
			renewed, err := b.inner.Renew(ctx, lease, ttl)
			renewed.Deadline = renewed.Deadline.Add(ttl/100 + 2*time.Millisecond)
			return renewed, err
		}
	})},
	{"redislock: a refresh for less than a millisecond deletes the key", []string{"Renew/invalid TTL"}, by(func(b *broken) {
		b.renew = func(ctx context.Context, lease locker.Lease, ttl time.Duration) (locker.Lease, error) {
			if ttl.Milliseconds() <= 0 {
				return lease, b.inner.Release(ctx, lease)
			}
			return b.inner.Renew(ctx, lease, ttl)
		}
	})},
	{"redsync (SetNXOnExtend): takes a lost lock again", []string{"Renew/expired", "Renew/released", "Renew/never held", "Exclusion/stalled holders"},
		by(func(b *broken) { b.renew = again(b) })},
	{"redlock-rb#36: takes a lost lock again, and says that it is lost", []string{"Renew/expired", "Renew/released"}, by(func(b *broken) {
		b.renew = func(ctx context.Context, lease locker.Lease, ttl time.Duration) (locker.Lease, error) {
			renewed, err := b.inner.Renew(ctx, lease, ttl)
			if isNotHeld(err) {
				_, _ = b.inner.Acquire(ctx, lease.Key, ttl)
			}
			return renewed, err
		}
	})},
	{"libkv#31: extending a lost lock is always well", []string{"Renew/expired", "Renew/released", "Break/holder"}, by(func(b *broken) {
		b.renew = func(ctx context.Context, lease locker.Lease, ttl time.Duration) (locker.Lease, error) {
			renewed, err := b.inner.Renew(ctx, lease, ttl)
			if isNotHeld(err) {
				return lease, nil
			}
			return renewed, err
		}
	})},
	{"returns no lease with an error", []string{"Renew/expired", "Renew/invalid TTL", "Renew/cancelled"}, by(func(b *broken) {
		b.renew = func(ctx context.Context, lease locker.Lease, ttl time.Duration) (locker.Lease, error) {
			renewed, err := b.inner.Renew(ctx, lease, ttl)
			if err != nil {
				return locker.Lease{}, err
			}
			return renewed, nil
		}
	})},
	{"renews by the key alone", []string{"Renew/successor", "Renew/forged holder", "Renew/forged token"}, by(func(b *broken) {
		b.renew = func(ctx context.Context, lease locker.Lease, ttl time.Duration) (locker.Lease, error) {
			return b.inner.Renew(ctx, b.newest(lease.Key), ttl)
		}
	})},
	{"redislock: compares holders by their beginning", []string{"Renew/forged holder"}, by(func(b *broken) {
		b.renew = func(ctx context.Context, lease locker.Lease, ttl time.Duration) (locker.Lease, error) {
			if real := b.newest(lease.Key); similar(real.Holder, lease.Holder) {
				lease = real
			}
			return b.inner.Renew(ctx, lease, ttl)
		}
	})},
	{"does not compare tokens", []string{"Renew/forged token"}, by(func(b *broken) {
		b.renew = func(ctx context.Context, lease locker.Lease, ttl time.Duration) (locker.Lease, error) {
			if real := b.newest(lease.Key); real.Holder == lease.Holder {
				lease = real
			}
			return b.inner.Renew(ctx, lease, ttl)
		}
	})},
	{"dynamolock#280: compares with what the renewal before wrote", []string{"Renew/older copy"}, by(func(b *broken) {
		b.renew = func(ctx context.Context, lease locker.Lease, ttl time.Duration) (locker.Lease, error) {
			if lease.TTL != b.newest(lease.Key).TTL {
				return lease, &locker.OpError{Op: "renew", Key: lease.Key, Err: locker.ErrNotHeld}
			}
			return b.inner.Renew(ctx, lease, ttl)
		}
	})},
	{"RedLock.net#64: a renewal in flight takes the lock again", []string{"Renew/during release"}, by(func(b *broken) {
		b.renew = func(ctx context.Context, lease locker.Lease, ttl time.Duration) (locker.Lease, error) {
			if _, err := b.inner.FenceToken(ctx, lease); err != nil {
				return lease, err
			}
			sleep(ctx, time.Millisecond) // until the request arrives
			return again(b)(ctx, lease, ttl)
		}
		b.release = func(ctx context.Context, lease locker.Lease) error {
			sleep(ctx, 500*time.Microsecond)
			return b.inner.Release(ctx, lease)
		}
	})},
	{"consul#1162: a renewal that ends with its context gives up the lock", []string{"Renew/cancelled"}, by(func(b *broken) {
		b.renew = func(ctx context.Context, lease locker.Lease, ttl time.Duration) (locker.Lease, error) {
			renewed, err := b.inner.Renew(ctx, lease, ttl)
			if ctx.Err() != nil {
				_ = b.inner.Release(context.WithoutCancel(ctx), lease)
			}
			return renewed, err
		}
	})},
}
