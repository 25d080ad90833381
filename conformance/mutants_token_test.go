package conformance_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/locker-go/locker"
)

// issuing makes the backend of a mutant that tells other tokens than memory's. The
// function is called with the store locked.
func issuing(token func(s *store, real locker.Lease) locker.Token) mutantBackend {
	return by(func(b *broken) {
		b.inner.token = func(real locker.Lease) locker.Token { return token(b.store, real) }
	})
}

const base = locker.Token(1 << 50) // of tokens that are made up

var tokenMutants = []mutant{
	{"tokens have 64 bits", []string{"Tokens/range"}, issuing(func(_ *store, real locker.Lease) locker.Token { return real.Token | 1<<60 })},
	{"the first token is zero", []string{"Tokens/range"}, issuing(func(s *store, _ locker.Lease) locker.Token {
		s.counters[""]++
		return s.counters[""] - 1
	})},
	{"tokens are counted from 1, and start there again wherever data is lost", []string{"Tokens/number space"}, issuing(func(s *store, real locker.Lease) locker.Token {
		s.counters[real.Key]++
		return s.counters[real.Key]
	})},
	{"litestream: a release deletes the counter", []string{"Tokens/release", "Tokens/new clients"}, issuing(func(*store, locker.Lease) locker.Token { return base + 1 })},
	{"only a release counts", []string{"Tokens/expiry", "Tokens/break", "Waiter/expiry", "Break/waiter"}, issuing(func(s *store, real locker.Lease) locker.Token {
		return base + locker.Token(s.releases[real.Key])
	})},
	{"each client counts for itself", []string{"Tokens/new clients", "Tokens/release", "Tokens/clients at once"}, by(func(b *broken) {
		count := base
		b.inner.token = func(locker.Lease) locker.Token { count++; return count }
	})},
	{"Redlock with INCR: the highest of a majority's counters may be lower than one before", []string{"Tokens/clients at once", "Exclusion/contention", "Waiter/many"},
		issuing(func(s *store, real locker.Lease) locker.Token {
			s.counters[real.Key]++
			return base + s.counters[real.Key]*3%7
		})},
	{"INCR after an asynchronous failover: two holders have one token", []string{"Exclusion/guarded data", "Exclusion/contention"},
		issuing(func(s *store, real locker.Lease) locker.Token {
			s.counters[real.Key]++
			return base + s.counters[real.Key]/8
		})},
	{"a waiter does not get the higher token", []string{"Waiter/release"}, issuing(func(s *store, real locker.Lease) locker.Token {
		s.counters[real.Key]++
		return base - s.counters[real.Key]
	})},
}

var errorMutants = []mutant{
	{"the server finds out that a TTL is invalid", []string{"Errors/invalid sends nothing"}, by(func(b *broken) {
		b.acquire = func(ctx context.Context, key string, ttl time.Duration) (locker.Lease, error) {
			b.requests.Add(1)
			return b.inner.Acquire(ctx, key, ttl)
		}
	})},
	{"redsync#165: the cause is told, and the context's error is not", []string{"Errors/cause of a cancelled context"}, by(func(b *broken) {
		b.release = func(ctx context.Context, lease locker.Lease) error {
			if ctx.Err() != nil {
				return &locker.OpError{Op: "release", Key: lease.Key, Err: fmt.Errorf("%w: %w", locker.ErrUnavailable, context.Cause(ctx))}
			}
			return b.inner.Release(ctx, lease)
		}
	})},
	{"errors are bare", []string{"Errors/operation"}, by(func(b *broken) {
		b.release = func(ctx context.Context, lease locker.Lease) error {
			err := b.inner.Release(ctx, lease)
			if isNotHeld(err) {
				return locker.ErrNotHeld
			}
			return err
		}
	})},
	{"a renewal fails as an acquire", []string{"Errors/operation"}, by(func(b *broken) {
		b.renew = func(ctx context.Context, lease locker.Lease, ttl time.Duration) (locker.Lease, error) {
			renewed, err := b.inner.Renew(ctx, lease, ttl)
			if op, ok := errors.AsType[*locker.OpError](err); ok {
				op.Op = "acquire"
			}
			return renewed, err
		}
	})},
	{"consul#1162: what is not known is taken for lost", []string{"Errors/kind"}, by(func(b *broken) {
		b.renew = func(ctx context.Context, lease locker.Lease, ttl time.Duration) (locker.Lease, error) {
			renewed, err := b.inner.Renew(ctx, lease, ttl)
			if errors.Is(err, locker.ErrUnavailable) {
				err = &locker.OpError{Op: "renew", Key: lease.Key, Err: fmt.Errorf("%w: %w", locker.ErrNotHeld, err)}
			}
			return renewed, err
		}
	})},
	{"a refusal shows the holder's credential", []string{"Errors/credential", "Acquire/held names the holder"}, by(func(b *broken) {
		b.acquire = func(ctx context.Context, key string, ttl time.Duration) (locker.Lease, error) {
			lease, err := b.inner.Acquire(ctx, key, ttl)
			if held, ok := errors.AsType[*locker.HeldError](err); ok {
				held.Holder = b.newest(key).Holder
			}
			return lease, err
		}
	})},
	{"the handle of a holding has the holder's credential", []string{"Errors/credential"}, by(func(b *broken) {
		b.inspect = func(ctx context.Context, key string) (locker.Holding, error) {
			h, err := b.inner.Inspect(ctx, key)
			h.Handle = b.newest(key).Holder
			return h, err
		}
	})},
	{"an error repeats the lease", []string{"Errors/credential"}, by(func(b *broken) {
		b.renew = func(ctx context.Context, lease locker.Lease, ttl time.Duration) (locker.Lease, error) {
			renewed, err := b.inner.Renew(ctx, lease, ttl)
			if isNotHeld(err) {
				err = &locker.OpError{Op: "renew", Key: lease.Key, Err: fmt.Errorf("%w by %s", locker.ErrNotHeld, lease.Holder)}
			}
			return renewed, err
		}
	})},
}
