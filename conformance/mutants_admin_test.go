package conformance_test

import (
	"context"
	"iter"
	"path"
	"time"

	"github.com/locker-go/locker"
)

var adminMutants = []mutant{
	{"shows the fence for the grant's token", []string{"Inspect/held"}, by(func(b *broken) {
		b.inspect = func(ctx context.Context, key string) (locker.Holding, error) {
			h, err := b.inner.Inspect(ctx, key)
			h.Token++
			return h, err
		}
	})},
	{"a renewal does not show", []string{"Inspect/time left"}, by(func(b *broken) {
		var first locker.Holding
		b.inspect = func(ctx context.Context, key string) (locker.Holding, error) {
			h, err := b.inner.Inspect(ctx, key)
			if first.Key != key {
				first = h
			}
			h.Remaining = first.Remaining
			return h, err
		}
	})},
	{"what nobody holds shows as nothing, without an error", []string{"Inspect/free"}, by(func(b *broken) {
		b.inspect = func(ctx context.Context, key string) (locker.Holding, error) {
			h, err := b.inner.Inspect(ctx, key)
			if isNotHeld(err) {
				return locker.Holding{Key: key}, nil
			}
			return h, err
		}
	})},
	{"lists all", []string{"Holdings/prefix", "Holdings/literal prefix"}, by(func(b *broken) {
		b.holdings = func(ctx context.Context, _ string) iter.Seq2[locker.Holding, error] { return b.inner.Holdings(ctx, "") }
	})},
	{"lists what a scan returns twice, twice", []string{"Holdings/prefix"}, listing(func(h locker.Holding, yield func(locker.Holding) bool) bool {
		for range 2 {
			if !yield(h) {
				return false
			}
		}
		return true
	})},
	{"the prefix is a pattern", []string{"Holdings/literal prefix"}, by(func(b *broken) {
		b.holdings = func(ctx context.Context, prefix string) iter.Seq2[locker.Holding, error] {
			return func(yield func(locker.Holding, error) bool) {
				for h, err := range b.inner.Holdings(ctx, "") {
					if match, _ := path.Match(prefix+"*", h.Key); match && !yield(h, err) {
						return
					}
				}
			}
		}
	})},
	{"goes on when nobody reads", []string{"Holdings/stopped"}, listing(func(h locker.Holding, yield func(locker.Holding) bool) bool {
		yield(h)
		return true
	})},
	{"ends without a word when its context does", []string{"Holdings/cancelled"}, by(func(b *broken) {
		b.holdings = func(ctx context.Context, prefix string) iter.Seq2[locker.Holding, error] {
			return func(yield func(locker.Holding, error) bool) {
				for h, err := range b.inner.Holdings(ctx, prefix) {
					if err != nil || !yield(h, nil) {
						return
					}
				}
			}
		}
	})},
	{"says that it broke the grant, and did not", []string{"Break/holder", "Break/renewed", "Break/listed", "Tokens/break"}, by(func(b *broken) {
		b.brk = func(context.Context, locker.Holding) error { return nil }
	})},
	{"a grant is known by its expiry", []string{"Break/renewed"}, by(func(b *broken) {
		b.brk = func(ctx context.Context, h locker.Holding) error {
			now, err := b.inner.Inspect(ctx, h.Key)
			if err == nil && now.Remaining > h.Remaining {
				return &locker.OpError{Op: "break", Key: h.Key, Err: locker.ErrNotHeld}
			}
			return b.inner.Break(ctx, h)
		}
	})},
	{"what is listed lacks what breaks it", []string{"Break/listed"}, listing(func(h locker.Holding, yield func(locker.Holding) bool) bool {
		h.Holder = ""
		return yield(h)
	})},
	{"breaks by the key alone", []string{"Break/successor"}, by(func(b *broken) {
		b.brk = func(ctx context.Context, h locker.Holding) error {
			now, err := b.inner.Inspect(ctx, h.Key)
			if err != nil {
				return err
			}
			return b.inner.Break(ctx, now)
		}
	})},
	{"ignores the floor", []string{"Raise/floor", "Raise/lower floor"}, by(func(b *broken) {
		b.raise = func(context.Context, string, locker.Token) error { return nil }
	})},
	{"a raise is a new grant", []string{"Raise/standing grant"}, by(func(b *broken) {
		b.raise = func(ctx context.Context, key string, floor locker.Token) error {
			err := b.inner.Raise(ctx, key, floor)
			b.mu.Lock()
			defer b.mu.Unlock()
			if lease, ok := b.leases[key]; ok {
				b.issued[lease.Holder] = floor
			}
			return err
		}
	})},
	{"a raise sets the floor, down too", []string{"Raise/lower floor"}, by(func(b *broken) {
		b.inner.token = func(real locker.Lease) locker.Token {
			b.counters[real.Key]++
			return b.counters[real.Key]
		}
		b.raise = func(_ context.Context, key string, floor locker.Token) error {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.counters[key] = floor
			return nil
		}
	})},
	{"an absurd floor is taken", []string{"Raise/absurd floor"}, by(func(b *broken) {
		b.raise = func(ctx context.Context, key string, floor locker.Token) error {
			return b.inner.Raise(ctx, key, min(floor, locker.Token(time.Now().UnixMicro())))
		}
	})},
	{"an absurd floor is refused, and has been taken", []string{"Raise/absurd floor"}, by(func(b *broken) {
		b.inner.token = func(real locker.Lease) locker.Token { return max(real.Token, b.counters[real.Key]+1) }
		b.raise = func(ctx context.Context, key string, floor locker.Token) error {
			b.mu.Lock()
			b.counters[key] = max(b.counters[key], min(floor, locker.MaxToken-1))
			b.mu.Unlock()
			return b.inner.Raise(ctx, key, floor)
		}
	})},
	{"the high-water mark is the clock", []string{"HighWater/issued"}, by(func(b *broken) {
		b.highWater = func(context.Context) (locker.Token, error) { return locker.Token(time.Now().UnixMicro()), nil }
	})},
	{"the high-water mark is on the safe side", []string{"HighWater/as a floor"}, by(func(b *broken) {
		b.highWater = func(context.Context) (locker.Token, error) { return locker.MaxToken, nil }
	})},
}

// listing makes the backend of a mutant that yields something else for each holding.
func listing(each func(h locker.Holding, yield func(locker.Holding) bool) bool) mutantBackend {
	return by(func(b *broken) {
		b.holdings = func(ctx context.Context, prefix string) iter.Seq2[locker.Holding, error] {
			return func(yield func(locker.Holding, error) bool) {
				for h, err := range b.inner.Holdings(ctx, prefix) {
					if err != nil {
						yield(h, err)
						return
					}
					if !each(h, func(h locker.Holding) bool { return yield(h, nil) }) {
						return
					}
				}
			}
		}
	})
}
