package file

import (
	"context"
	"iter"
	"strings"

	"github.com/locker-go/locker"
)

func (l *Locker) Inspect(ctx context.Context, key string) (locker.Holding, error) {
	err := usable(ctx, key, locker.MinTTL)
	if err == nil {
		var st *state
		if st, err = l.shardOf(key).read(); err == nil {
			now := l.clock()
			if g, ok := st.current(key, now); ok {
				return g.holding(key, now), nil
			}
			err = locker.ErrNotHeld
		}
	}
	return locker.Holding{}, fail("inspect", key, err)
}

// states yields the state of every shard.
func (l *Locker) states(ctx context.Context) iter.Seq2[*state, error] {
	return func(yield func(*state, error) bool) {
		for n := range shards {
			if ctx.Err() != nil {
				yield(nil, unavailable(locker.Ended(ctx)))
				return
			}
			if st, err := l.shard(n).read(); !yield(st, err) || err != nil {
				return
			}
		}
	}
}

func (l *Locker) Holdings(ctx context.Context, prefix string) iter.Seq2[locker.Holding, error] {
	return func(yield func(locker.Holding, error) bool) {
		for st, err := range l.states(ctx) {
			if err != nil {
				yield(locker.Holding{}, fail("list", prefix, err))
				return
			}
			now := l.clock()
			for key := range st.Grants {
				if g, ok := st.current(key, now); ok && strings.HasPrefix(key, prefix) && !yield(g.holding(key, now), nil) {
					return
				}
			}
		}
	}
}

func (l *Locker) Break(ctx context.Context, h locker.Holding) error {
	err := usable(ctx, h.Key, locker.MinTTL)
	if err == nil {
		err = l.end(ctx, h.Key, func(g grant) bool { return g.Token == h.Token && locker.ShowHolder(g.Holder) == h.Holder })
	}
	if err != nil {
		return fail("break", h.Key, err)
	}
	return nil
}

// Raise lifts the floor of all keys in key's shard, since a shard has one fence.
func (l *Locker) Raise(ctx context.Context, key string, floor locker.Token) error {
	err := usable(ctx, key, locker.MinTTL)
	if err == nil {
		err = l.update(ctx, key, func(st *state) (bool, error) {
			if err := locker.ValidateFloor(floor, st.Fence, l.clock().wall); err != nil {
				return false, err
			}
			st.Fence = max(st.Fence, floor)
			return false, nil
		})
	}
	if err != nil {
		return fail("raise", key, err)
	}
	return nil
}

func (l *Locker) HighWater(ctx context.Context) (locker.Token, error) {
	var high locker.Token
	for st, err := range l.states(ctx) {
		if err != nil {
			return 0, fail("high-water", "", err)
		}
		high = max(high, st.Fence)
	}
	return high, nil
}
