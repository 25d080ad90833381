package backends

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/locker-go/locker"
)

// routes is a Locker that makes each call on the store of its key. It has no Unwrap,
// since a call on one of its stores would bypass the others.
type routes struct {
	stores []locker.Locker
	list   []route // the last takes all keys
}

type route struct {
	keys  pattern
	store int
}

var (
	_ locker.Locker = (*routes)(nil)
	_ locker.Waiter = (*routes)(nil)
)

func (r *routes) add(keys pattern, store int) { r.list = append(r.list, route{keys, store}) }

// index returns which store the key is in. A key that is invalid has one too, which
// says so.
func (r *routes) index(key string) int {
	for _, route := range r.list {
		if route.keys.match(key) {
			return route.store
		}
	}
	return r.list[len(r.list)-1].store
}

func (r *routes) of(key string) locker.Locker { return r.stores[r.index(key)] }

func (r *routes) Acquire(ctx context.Context, key string, ttl time.Duration) (locker.Lease, error) {
	return r.of(key).Acquire(ctx, key, ttl)
}

// AcquireWait is right for stores without it too, as the one of the root package is.
func (r *routes) AcquireWait(ctx context.Context, key string, ttl time.Duration) (locker.Lease, error) {
	return locker.AcquireWait(ctx, r.of(key), key, ttl)
}

func (r *routes) Renew(ctx context.Context, lease locker.Lease, ttl time.Duration) (locker.Lease, error) {
	return r.of(lease.Key).Renew(ctx, lease, ttl)
}

func (r *routes) Release(ctx context.Context, lease locker.Lease) error {
	return r.of(lease.Key).Release(ctx, lease)
}

func (r *routes) FenceToken(ctx context.Context, lease locker.Lease) (locker.Token, error) {
	return r.of(lease.Key).FenceToken(ctx, lease)
}

// Close closes all stores at once, so that it takes no longer than the slowest.
func (r *routes) Close() error {
	errs := make([]error, len(r.stores))
	var closing sync.WaitGroup
	for i, store := range r.stores {
		if c, ok := store.(io.Closer); ok {
			closing.Go(func() { errs[i] = c.Close() })
		}
	}
	closing.Wait()
	return errors.Join(errs...)
}
