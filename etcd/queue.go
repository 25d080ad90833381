package etcd

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/locker-go/locker"
)

const (
	// maxLook is how often a waiter looks although nothing woke it, at most: a watch
	// may have gone silent.
	maxLook = 5 * time.Second

	// outagePatience is for how long a waiter goes on although etcd does not answer.
	outagePatience = 30 * time.Second
)

// AcquireWait lines up: those who wait get the lock in the order in which the cluster
// took them in, and each watches only the one before it, so that a release wakes one.
// Acquire fails as long as anybody waits.
//
// A waiter has a place under a lease of its own, which is kept alive. If that is lost
// all the same, as in an outage that is longer than ttl, the wait fails at once with
// ErrUnavailable.
func (l *Locker) AcquireWait(ctx context.Context, key string, ttl time.Duration) (locker.Lease, error) {
	if err := locker.ValidateTTL(ttl); err != nil {
		return locker.Lease{}, l.fail(ctx, "acquire", key, err)
	}
	if err := check(ctx, key); err != nil {
		return locker.Lease{}, l.fail(ctx, "acquire", key, err)
	}
	p, err := l.enter(ctx, key, wholeSeconds(ttl), true)
	if err == nil {
		p, err = l.line(ctx, key, p)
	}
	if err != nil {
		return locker.Lease{}, l.fail(ctx, "acquire", key, err)
	}
	lease, err := l.granted(ctx, key, p)
	if err != nil {
		return locker.Lease{}, l.fail(ctx, "acquire", key, err)
	}
	return lease, nil
}

// line waits until the place is at the head of the queue. If it returns an error the
// place is given up.
func (l *Locker) line(ctx context.Context, key string, p place) (place, error) {
	var (
		outage locker.Instant
		down   bool
	)
	for p.ahead != "" {
		next, err := l.awaitChange(ctx, key, p)
		switch {
		case ctx.Err() != nil:
			return p, l.giveUp(ctx, key, p)
		case err == nil:
			p, down = next, false
		case errors.Is(err, errPlaceLost), errors.Is(err, errLeaseGone):
			return p, l.undo(ctx, p.lease, errPlaceLost)
		default:
			if !down {
				outage, down = locker.Now(), true
			}
			if outage.Elapsed() > outagePatience {
				return p, l.undo(ctx, p.lease, err)
			}
			pause(ctx)
		}
	}
	return p, nil
}

// pause lets a moment pass, another one for each waiter.
func pause(ctx context.Context) {
	timer := time.NewTimer(50*time.Millisecond + rand.N(100*time.Millisecond))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// awaitChange waits until the entry ahead, or the waiter's own, is deleted, or until it
// is time to look anyway, and then looks.
//
// It first watches and then looks whether the entries are still there. A watch from the
// revision that was read would need no look, but as soon as anything else was written
// since, it is behind from its start, and the server serves those ten times a second.
func (l *Locker) awaitChange(ctx context.Context, key string, p place) (place, error) {
	watching, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
	ready, woken := make(chan struct{}, 2), make(chan struct{}, 2)
	var watches sync.WaitGroup
	defer watches.Wait()
	defer cancel()
	for _, name := range []string{p.ahead, p.name} {
		watches.Go(func() {
			l.watch(watching, name, ready)
			woken <- struct{}{}
		})
	}
	timer := time.NewTimer(min(p.lease.ttl()/3, maxLook))
	defer timer.Stop()
	for watched := 0; watched < 2; {
		select {
		case <-ready:
			watched++
			continue
		case <-woken:
		case <-timer.C:
		case <-ctx.Done():
		}
		return l.look(ctx, key, p)
	}
	next, err := l.look(ctx, key, p)
	if err != nil || next.ahead != p.ahead {
		return next, err
	}
	select {
	case <-woken:
	case <-timer.C:
	case <-ctx.Done():
	}
	return l.look(ctx, key, next)
}

// watch returns when an entry is deleted, or when that can no longer be told: since
// the store was compacted, or the member lost its leader. It sends to ready once it
// will see what happens.
func (l *Locker) watch(ctx context.Context, name string, ready chan<- struct{}) {
	for resp := range l.client.Watch(ctx, name, clientv3.WithFilterPut(), clientv3.WithCreatedNotify()) {
		switch {
		case resp.Created:
			select {
			case ready <- struct{}{}:
			default: // it was resumed
			}
		case len(resp.Events) > 0 || resp.CompactRevision != 0:
			return
		}
	}
	pause(ctx) // it may fail at once again
}

// look finds out who is ahead, and keeps the place alive.
func (l *Locker) look(ctx context.Context, key string, p place) (place, error) {
	queue := l.names.queue(key)
	var (
		alive    sync.WaitGroup
		extended = p.lease
		aliveErr error
	)
	if !p.lease.young() {
		extended.alive = locker.Now()
		alive.Go(func() { extended.seconds, aliveErr = l.leases.extend(ctx, p.lease.id) })
	}
	resp, err := l.read(ctx,
		clientv3.OpGet(p.name),
		clientv3.OpGet(l.names.base()),
		clientv3.OpGet(queue, append(clientv3.WithLastCreate(), clientv3.WithMaxCreateRev(p.rev-1))...),
		clientv3.OpGet(queue, clientv3.WithFirstCreate()...))
	alive.Wait()
	if err != nil {
		return p, err
	}
	if !p.is(first(resp, 0)) {
		return p, errPlaceLost
	}
	if aliveErr != nil {
		return p, aliveErr
	}
	if p.base, err = readBase(first(resp, 1)); err != nil {
		return p, err
	}
	p.lease, p.head, p.ahead = extended, first(resp, 3), ""
	if ahead := first(resp, 2); ahead != nil {
		p.ahead = string(ahead.Key)
	}
	return p, nil
}

// giveUp leaves the queue because ctx has ended.
func (l *Locker) giveUp(ctx context.Context, key string, p place) error {
	held := &locker.HeldError{Holding: locker.Holding{Key: key}}
	if p.head != nil {
		held.Holding = readEntry(p.head).holding(key)
	}
	return l.undo(ctx, p.lease, fmt.Errorf("%w; gave up waiting: %w", held, locker.Ended(ctx)))
}
