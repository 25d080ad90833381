package redlock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/locker-go/locker"
	"github.com/locker-go/locker/internal/redisnode"
)

// AcquireWait is woken when the lock is released, by a message that one node
// publishes when a majority has released it. Those who wait take turns, as on a
// single Redis. When that node fails they listen at the next.
func (l *Locker) AcquireWait(ctx context.Context, key string, ttl time.Duration) (locker.Lease, error) {
	if err := l.validateTTL(ttl); err != nil {
		return locker.Lease{}, fail("acquire", key, err)
	}
	keys, err := l.begin(ctx, key)
	if err != nil {
		return locker.Lease{}, fail("acquire", key, err)
	}
	l.calls.Done() // a wait may take long: Close does not wait for it
	e := &ear{l: l, keys: keys, wake: make(chan struct{}, 1)}
	defer e.close()
	if err := e.listen().Yield(ctx); err != nil {
		held := &locker.HeldError{Holding: locker.Holding{Key: key}}
		return locker.Lease{}, fail("acquire", key, fmt.Errorf("%w; gave up waiting: %w", held, err))
	}
	return locker.Wait(ctx, e.wake, func(ctx context.Context) (locker.Lease, error) {
		e.listen()
		lease, err := l.Acquire(ctx, key, ttl)
		if held, ok := errors.AsType[*locker.HeldError](err); ok {
			e.at.wakes.Held(e.waiter, held.Token)
		}
		return lease, err
	})
}

// ear is where one AcquireWait listens.
type ear struct {
	l      *Locker
	keys   redisnode.Keys
	wake   chan struct{}
	at     *member
	waiter *redisnode.Waiter
}

// listen listens at the node that tells of releases now.
func (e *ear) listen() *redisnode.Waiter {
	if herald := e.l.herald(e.keys); e.at != herald {
		e.close()
		e.at, e.waiter = herald, herald.wakes.Watch(e.keys.Channel, e.wake)
	}
	return e.waiter
}

func (e *ear) close() {
	if e.at != nil {
		e.at.wakes.Leave(e.waiter)
	}
}
