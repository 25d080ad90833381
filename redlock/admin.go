package redlock

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/locker-go/locker"
	"github.com/locker-go/locker/internal/redisnode"
)

// seen is what a member tells of a lock.
type seen struct {
	holding locker.Holding
	held    bool
}

// Inspect asks all nodes at once. What stands on a minority is not a grant.
func (l *Locker) Inspect(ctx context.Context, key string) (locker.Holding, error) {
	keys, err := l.begin(ctx, key)
	if err != nil {
		return locker.Holding{}, fail("inspect", key, err)
	}
	defer l.calls.Done()
	holding, err := l.inspect(ctx, keys)
	if err != nil {
		return locker.Holding{}, fail("inspect", key, err)
	}
	holding.Key = key
	return holding, nil
}

func (l *Locker) inspect(ctx context.Context, keys redisnode.Keys) (locker.Holding, error) {
	n := len(l.members)
	replies := ask(l, ctx, func(ctx context.Context, m *member) (seen, error) {
		return twice(ctx, func() (seen, error) {
			h, held, err := m.node.Inspect(ctx, keys)
			return seen{h, held}, err
		})
	})
	errs := make(map[*member]error)
	grants := make(map[string][]locker.Holding) // by handle
	most := 0
	// It may also stand on those that failed, and on those that have not answered.
	for left := n; left > 0 && most < majority(n) && most+len(errs)+left >= majority(n); left-- {
		select {
		case r := <-replies:
			if r.err != nil {
				errs[r.member] = r.err
			} else if h := r.value.holding; r.value.held {
				grants[h.Handle] = append(grants[h.Handle], h)
				most = max(most, len(grants[h.Handle]))
			}
		case <-ctx.Done():
			return locker.Holding{}, redisnode.Unavailable(ctx, ctx.Err())
		}
	}
	for _, at := range grants {
		if len(at) >= majority(n) {
			return standing(at, n), nil
		}
	}
	if most+len(errs) >= majority(n) {
		return locker.Holding{}, l.noMajority(errs)
	}
	return locker.Holding{}, locker.ErrNotHeld
}

// standing returns a grant as a majority of n keeps it, of which the members tell.
func standing(at []locker.Holding, n int) locker.Holding {
	slices.SortFunc(at, func(a, b locker.Holding) int { return cmp.Compare(b.Remaining, a.Remaining) })
	return at[majority(n)-1]
}

// Break asks all nodes at once.
func (l *Locker) Break(ctx context.Context, h locker.Holding) error {
	keys, err := l.begin(ctx, h.Key)
	if err != nil {
		return fail("break", h.Key, err)
	}
	defer l.calls.Done()
	replies := ask(l, ctx, func(ctx context.Context, m *member) (bool, error) { return m.node.Break(ctx, keys, h) })
	if _, err := decide(l, ctx, replies, func(broken bool) bool { return broken }); err != nil {
		return fail("break", h.Key, err)
	}
	return nil
}

// Raise lifts the fence on a majority of the nodes, of which each later grant has one.
func (l *Locker) Raise(ctx context.Context, key string, floor locker.Token) error {
	keys, err := l.begin(ctx, key)
	if err != nil {
		return fail("raise", key, err)
	}
	defer l.calls.Done()
	if floor > locker.MaxToken {
		return fail("raise", key, locker.ValidateFloor(floor, 0, time.Now()))
	}
	replies := ask(l, ctx, func(ctx context.Context, m *member) (redisnode.Answer, error) {
		return twice(ctx, func() (redisnode.Answer, error) { return m.node.Raise(ctx, keys, floor) })
	})
	got, err := decide(l, ctx, replies, func(a redisnode.Answer) bool { return a.Status == redisnode.Granted })
	for _, r := range got {
		if err == locker.ErrNotHeld && r.err == nil && r.value.Status == redisnode.Ahead {
			err = locker.ValidateFloor(floor, r.value.Fence, r.value.Time)
			if err == nil {
				err = fmt.Errorf("%w: the token %d is too far ahead of the clocks of most nodes", locker.ErrInvalid, floor)
			}
		}
	}
	if err != nil {
		return fail("raise", key, err)
	}
	return nil
}

// HighWater reads the fences of all keys on a majority of the nodes, of which each
// grant has one. Fences that have expired are below the nodes' clocks.
func (l *Locker) HighWater(ctx context.Context) (locker.Token, error) {
	if err := l.enter(ctx); err != nil {
		return 0, fail("high-water", "", err)
	}
	defer l.calls.Done()
	marks, err := gather(l, ctx, majority(len(l.members)), func(ctx context.Context, m *member) (locker.Token, error) {
		return twice(ctx, func() (locker.Token, error) {
			return redisnode.HighWater(ctx, redisnode.Heeding(m.client, l.opts.RequestTimeout), l.namespace)
		})
	})
	if err != nil {
		return 0, fail("high-water", "", err)
	}
	var highest locker.Token
	for _, r := range marks {
		highest = max(highest, r.value)
	}
	return highest, nil
}

// Holdings scans a majority of the nodes, and asks all of them for each lock that
// one of those has: what stands on a minority is not a grant.
func (l *Locker) Holdings(ctx context.Context, prefix string) iter.Seq2[locker.Holding, error] {
	return func(yield func(locker.Holding, error) bool) {
		keys, err := l.held(ctx, prefix)
		if err != nil {
			yield(locker.Holding{}, fail("list", prefix, err))
			return
		}
		for _, key := range keys {
			h, err := l.inspect(ctx, redisnode.KeysOf(l.namespace, key))
			if err == locker.ErrNotHeld {
				continue
			}
			if err != nil {
				yield(locker.Holding{}, fail("list", prefix, err))
				return
			}
			h.Key = key
			if !yield(h, nil) {
				return
			}
		}
	}
}

// held returns the keys that one of a majority of the nodes has a lock for.
func (l *Locker) held(ctx context.Context, prefix string) ([]string, error) {
	if err := l.enter(ctx); err != nil {
		return nil, err
	}
	defer l.calls.Done()
	lockPrefix := redisnode.LockPrefix(l.namespace)
	lists, err := gather(l, ctx, majority(len(l.members)), func(ctx context.Context, m *member) ([]string, error) {
		var keys []string
		err := redisnode.ScanHoldings(ctx, redisnode.Heeding(m.client, l.opts.RequestTimeout), lockPrefix+prefix, func(h locker.Holding) bool {
			key := strings.TrimPrefix(h.Key, lockPrefix)
			if locker.ValidateKey(key) == nil && !(l.opts.RawKeys && (h.Token == 0 || redisnode.CheckRawKey(key) != nil)) {
				keys = append(keys, key)
			}
			return ctx.Err() == nil
		})
		return keys, err
	})
	if err != nil {
		return nil, err
	}
	found := make(map[string]bool)
	for _, list := range lists {
		for _, key := range list.value {
			found[key] = true
		}
	}
	keys := make([]string, 0, len(found))
	for key := range found {
		keys = append(keys, key)
	}
	return keys, nil
}
