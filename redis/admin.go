package redis

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/locker-go/locker"
	"github.com/locker-go/locker/internal/redisnode"
)

// Inspect takes one request. A plain lock of another program shows without a token.
func (l *Locker) Inspect(ctx context.Context, key string) (locker.Holding, error) {
	keys, err := l.keys(ctx, key)
	if err != nil {
		return locker.Holding{}, fail("inspect", key, err)
	}
	type answer struct {
		holding locker.Holding
		held    bool
	}
	a, err := redisnode.Twice(ctx, func() (answer, error) {
		h, held, err := l.node.Inspect(ctx, keys)
		return answer{h, held}, err
	})
	if err == nil && !a.held {
		err = locker.ErrNotHeld
	}
	if err != nil {
		return locker.Holding{}, fail("inspect", key, err)
	}
	a.holding.Key = key
	return a.holding, nil
}

// Break takes one request.
func (l *Locker) Break(ctx context.Context, h locker.Holding) error {
	keys, err := l.keys(ctx, h.Key)
	if err != nil {
		return fail("break", h.Key, err)
	}
	broken, err := l.node.Break(ctx, keys, h)
	if err == nil && !broken {
		err = locker.ErrNotHeld
	}
	if err != nil {
		return fail("break", h.Key, err)
	}
	return nil
}

// Raise takes one request.
func (l *Locker) Raise(ctx context.Context, key string, floor locker.Token) error {
	keys, err := l.keys(ctx, key)
	if err != nil {
		return fail("raise", key, err)
	}
	if floor > locker.MaxToken {
		return fail("raise", key, locker.ValidateFloor(floor, 0, time.Now()))
	}
	answer, err := redisnode.Twice(ctx, func() (redisnode.Answer, error) { return l.node.Raise(ctx, keys, floor) })
	if err == nil && answer.Status == redisnode.Ahead {
		err = locker.ValidateFloor(floor, answer.Fence, answer.Time)
		if err == nil {
			err = fmt.Errorf("%w: the token %d is too far ahead of the server's clock", locker.ErrInvalid, floor)
		}
	}
	if err != nil {
		return fail("raise", key, err)
	}
	return nil
}

// Holdings scans the whole server, or all masters of a cluster, some keys at a time,
// without blocking it. With RawKeys it yields only locks of this library, since
// nothing tells another program's lock from any other string.
func (l *Locker) Holdings(ctx context.Context, prefix string) iter.Seq2[locker.Holding, error] {
	return func(yield func(locker.Holding, error) bool) {
		lockPrefix := redisnode.LockPrefix(l.namespace)
		seen := make(map[string]bool) // a scan may return a key twice
		more := true
		err := l.eachMaster(ctx, func(server *redis.Client) error {
			if !more {
				return nil
			}
			return redisnode.ScanHoldings(ctx, server, lockPrefix+prefix, func(h locker.Holding) bool {
				h.Key = strings.TrimPrefix(h.Key, lockPrefix)
				if seen[h.Key] || locker.ValidateKey(h.Key) != nil || l.opts.RawKeys && (h.Token == 0 || redisnode.CheckRawKey(h.Key) != nil) {
					return true
				}
				seen[h.Key] = true
				more = yield(h, nil)
				return more
			})
		})
		if err != nil && more {
			yield(locker.Holding{}, fail("list", prefix, err))
		}
	}
}

// HighWater reads the fences of all keys. Those that have expired are below the
// server's clock.
func (l *Locker) HighWater(ctx context.Context) (locker.Token, error) {
	var highest locker.Token
	err := l.eachMaster(ctx, func(server *redis.Client) error {
		mark, err := redisnode.HighWater(ctx, server, l.namespace)
		highest = max(highest, mark)
		return err
	})
	if err != nil {
		return 0, fail("high-water", "", err)
	}
	return highest, nil
}

// eachMaster calls fn for each server that keeps locks, one after the other. Each
// request has the Locker's limit.
func (l *Locker) eachMaster(ctx context.Context, fn func(*redis.Client) error) error {
	if c, ok := l.client.(*redis.Client); ok {
		return fn(redisnode.Heeding(c, l.opts.RequestTimeout))
	}
	var (
		mu      sync.Mutex
		masters []*redis.Client
	)
	err := l.client.(*redis.ClusterClient).ForEachMaster(ctx, func(_ context.Context, m *redis.Client) error {
		mu.Lock()
		defer mu.Unlock()
		masters = append(masters, redisnode.Heeding(m, l.opts.RequestTimeout))
		return nil
	})
	if err != nil {
		return redisnode.Unavailable(ctx, err)
	}
	for _, m := range masters {
		if err := fn(m); err != nil {
			return err
		}
	}
	return nil
}
