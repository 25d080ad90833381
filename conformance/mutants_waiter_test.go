package conformance_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/locker-go/locker"
)

func heldAndEnded(key string, reasons ...error) error {
	all := append([]error{locker.ErrHeld}, reasons...)
	return &locker.OpError{Op: "acquire", Key: key, Err: errors.Join(all...)}
}

var waiterMutants = []mutant{
	{"waits for a release although the key is free", []string{"Waiter/free key"}, by(func(b *broken) {
		b.wait = func(ctx context.Context, key string, _ time.Duration) (locker.Lease, error) {
			<-ctx.Done()
			return locker.Lease{}, heldAndEnded(key, ctx.Err())
		}
	})},
	{"looks again only when the holder's TTL is over", []string{"Waiter/release", "Waiter/many", "Break/waiter"}, by(func(b *broken) {
		b.wait = func(ctx context.Context, key string, ttl time.Duration) (locker.Lease, error) {
			for {
				lease, err := b.inner.Acquire(ctx, key, ttl)
				held, ok := errors.AsType[*locker.HeldError](err)
				if !ok || ctx.Err() != nil {
					return lease, err
				}
				sleep(ctx, held.Remaining+time.Millisecond)
			}
		}
	})},
	{"is woken by releases only", []string{"Waiter/expiry", "Break/waiter"}, by(func(b *broken) {
		b.wait = func(ctx context.Context, key string, ttl time.Duration) (locker.Lease, error) {
			releases := func() int {
				b.mu.Lock()
				defer b.mu.Unlock()
				return b.releases[key]
			}
			for {
				before := releases()
				lease, err := b.inner.Acquire(ctx, key, ttl)
				if !isHeld(err) {
					return lease, err
				}
				for releases() == before {
					if ctx.Err() != nil {
						return locker.Lease{}, heldAndEnded(key, ctx.Err())
					}
					sleep(ctx, time.Millisecond)
				}
			}
		}
	})},
	{"ShedLock#263: the waiter's own clock decides when the holder's time is over", []string{"Waiter/renewing holder"}, by(func(b *broken) {
		b.wait = func(ctx context.Context, key string, ttl time.Duration) (locker.Lease, error) {
			lease, err := b.inner.Acquire(ctx, key, ttl)
			held, ok := errors.AsType[*locker.HeldError](err)
			if !ok {
				return lease, err
			}
			sleep(ctx, held.Remaining)
			if h, err := b.inner.Inspect(ctx, key); err == nil {
				_ = b.inner.Break(ctx, h)
			}
			return b.inner.Acquire(ctx, key, ttl)
		}
	})},
	{"redislock#79: only the context's error can be told", []string{"Waiter/context ends"}, by(func(b *broken) {
		b.wait = func(ctx context.Context, key string, ttl time.Duration) (locker.Lease, error) {
			lease, err := b.poll(ctx, key, ttl)
			if ctx.Err() != nil && err != nil {
				return lease, ctx.Err()
			}
			return lease, err
		}
	})},
	{"redsync#164: only ErrHeld can be told", []string{"Waiter/context ends", "Waiter/cancelled in the queue"}, by(func(b *broken) {
		b.wait = func(ctx context.Context, key string, ttl time.Duration) (locker.Lease, error) {
			lease, err := b.poll(ctx, key, ttl)
			if ctx.Err() != nil && err != nil {
				return lease, heldAndEnded(key)
			}
			return lease, err
		}
	})},
	{"vitess#15756: a cancelled waiter leaves its place in the queue", []string{"Waiter/cancelled in the queue"}, by(func(b *broken) {
		b.wait = func(ctx context.Context, key string, ttl time.Duration) (locker.Lease, error) {
			place := new(int)
			b.mu.Lock()
			b.queue[key] = append(b.queue[key], place)
			b.mu.Unlock()
			atHead := func() bool {
				b.mu.Lock()
				defer b.mu.Unlock()
				return b.queue[key][0] == place
			}
			for {
				if atHead() {
					if lease, err := b.inner.Acquire(ctx, key, ttl); err == nil {
						b.mu.Lock()
						b.queue[key] = slices.Delete(b.queue[key], 0, 1)
						b.mu.Unlock()
						return lease, nil
					}
				}
				sleep(ctx, time.Millisecond)
				if ctx.Err() != nil {
					return locker.Lease{}, heldAndEnded(key, ctx.Err())
				}
			}
		}
	})},
	{"jepsen etcd: an acquire that timed out completes later", []string{"Waiter/cancelled at the release"}, by(func(b *broken) {
		b.wait = func(ctx context.Context, key string, ttl time.Duration) (locker.Lease, error) {
			lease, err := b.poll(ctx, key, ttl)
			if ctx.Err() != nil && err != nil {
				time.Sleep(time.Millisecond)
				_, _ = b.inner.Acquire(context.WithoutCancel(ctx), key, ttl)
			}
			return lease, err
		}
	})},
	{"misses a wake-up after the third", []string{"Waiter/many"}, by(func(b *broken) {
		b.wait = func(ctx context.Context, key string, ttl time.Duration) (locker.Lease, error) {
			for range 3 {
				lease, err := b.inner.Acquire(ctx, key, ttl)
				if !isHeld(err) {
					return lease, err
				}
				sleep(ctx, 20*time.Millisecond)
			}
			<-ctx.Done()
			return locker.Lease{}, heldAndEnded(key, ctx.Err())
		}
		b.release = func(ctx context.Context, lease locker.Lease) error {
			sleep(ctx, 10*time.Millisecond)
			return b.inner.Release(ctx, lease)
		}
	})},
	{"looks at the TTL when it has the lock", []string{"Waiter/invalid arguments"}, by(func(b *broken) {
		b.wait = func(ctx context.Context, key string, ttl time.Duration) (locker.Lease, error) {
			return b.poll(ctx, key, max(ttl, locker.MinTTL))
		}
	})},
	{"tooz: waits a millisecond instead of for ever", []string{"Waiter/few requests"}, by(func(b *broken) {
		b.wait = func(ctx context.Context, key string, ttl time.Duration) (locker.Lease, error) {
			for {
				lease, err := b.Acquire(ctx, key, ttl)
				if !isHeld(err) {
					return lease, err
				}
				sleep(ctx, time.Millisecond)
				if ctx.Err() != nil {
					return locker.Lease{}, fmt.Errorf("%w; gave up waiting: %w", err, ctx.Err())
				}
			}
		}
	})},
}
