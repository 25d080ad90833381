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
	if err == nil && p.ahead != "" {
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
	for {
		woken := l.sleep(ctx, p)
		if ctx.Err() != nil {
			return p, l.giveUp(ctx, key, p)
		}
		next, err := l.look(ctx, key, p)
		switch {
		case err == nil && next.ahead == "":
			return next, nil
		case err == nil:
			p, down = next, false
		case ctx.Err() != nil:
			return p, l.giveUp(ctx, key, p)
		case errors.Is(err, errPlaceLost), errors.Is(err, errLeaseGone):
			return p, l.undo(ctx, p.lease, errPlaceLost)
		default:
			if !down {
				outage, down = locker.Now(), true
			}
			if outage.Elapsed() > outagePatience {
				return p, l.undo(ctx, p.lease, err)
			}
		}
		if !woken && down {
			pause(ctx)
		}
	}
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

// sleep waits until the entry ahead, or the waiter's own, is deleted, or until it is
// time to look anyway. It returns true if a watch woke it.
func (l *Locker) sleep(ctx context.Context, p place) bool {
	timer := time.NewTimer(min(p.lease.ttl()/3, maxLook))
	defer timer.Stop()
	watching, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
	woken := make(chan struct{}, 2)
	var watches sync.WaitGroup
	defer watches.Wait()
	defer cancel()
	for _, name := range []string{p.ahead, p.name} {
		watches.Go(func() {
			l.awaitDelete(watching, name, p.seen+1)
			woken <- struct{}{}
		})
	}
	select {
	case <-woken:
		return true
	case <-timer.C:
	case <-ctx.Done():
	}
	return false
}

// awaitDelete returns when an entry is deleted at that revision or later, or when that
// can no longer be told: since the store was compacted, or the member lost its leader.
//
// The watch begins with the revision after the one that was read. One that begins with
// that itself is behind from its start, and the server serves those ten times a second.
func (l *Locker) awaitDelete(ctx context.Context, name string, rev int64) {
	for resp := range l.client.Watch(ctx, name, clientv3.WithRev(rev), clientv3.WithFilterPut()) {
		if len(resp.Events) > 0 || resp.CompactRevision != 0 {
			return
		}
		if resp.Err() != nil {
			break
		}
	}
	pause(ctx) // it may fail at once again
}

// look finds out who is ahead, and keeps the place alive.
func (l *Locker) look(ctx context.Context, key string, p place) (place, error) {
	queue := l.names.queue(key)
	p.asked = locker.Now()
	var (
		alive    sync.WaitGroup
		aliveErr error
	)
	alive.Go(func() { _, aliveErr = l.leases.extend(ctx, p.lease.id) })
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
	p.seen, p.head, p.ahead = resp.Header.Revision, first(resp, 3), ""
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
