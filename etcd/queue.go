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

	// lookSoon is when a waiter looks what happened before its watch began, if the entry
	// ahead waits too: then that has hardly gone.
	lookSoon = 100 * time.Millisecond

	// ownAfter is when a waiter begins to watch its own entry too. Most waits are over by
	// then, and whoever gets the lock looks at it anyway.
	ownAfter = time.Second

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
			if outage.Elapsed() > outagePatience || l.client.Ctx().Err() != nil {
				return p, l.undo(ctx, p.lease, err)
			}
			pause(ctx, shortly())
		}
	}
	return p, nil
}

// shortly returns how long to pause after a failure, something else for each waiter.
func shortly() time.Duration { return 50*time.Millisecond + rand.N(100*time.Millisecond) }

// pause lets some time pass, unless ctx ends.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// awaitChange waits until another entry is ahead, or none, or the waiter's own is gone.
// It looks when one of the two is deleted, and now and then anyway.
//
// A watch sees what happens from when it began. Whether something had happened before, a
// look tells, which can wait unless the one ahead has the lock. A watch from the revision
// that was read would need no look, but as soon as anything else was written since, it is
// behind from its start, and the server serves those ten times a second.
func (l *Locker) awaitChange(ctx context.Context, key string, p place) (place, error) {
	watching, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
	defer cancel()
	began := time.Now()
	ahead, since, err := l.watch(watching, p, p.ahead)
	if err != nil {
		pause(ctx, shortly())
		return l.look(ctx, key, p, newest)
	}
	next := ownAfter
	switch {
	case since == p.rev: // nothing has happened in between
	case p.head != nil && string(p.head.Key) == p.ahead:
		if seen, err := l.look(ctx, key, p, since); err != nil || seen.ahead != p.ahead {
			return seen, err
		}
	default:
		next = lookSoon
	}
	timer := time.NewTimer(min(next, p.lease.ttl()/3))
	defer timer.Stop()
	var own clientv3.WatchChan
	for seen := p; ; {
		select {
		case resp := <-ahead:
			return l.look(ctx, key, seen, deletion(ctx, resp))
		case resp := <-own:
			return l.look(ctx, key, seen, deletion(ctx, resp))
		case <-ctx.Done():
			return seen, ctx.Err()
		case <-timer.C:
		}
		if own == nil && time.Since(began) >= ownAfter {
			if own, _, err = l.watch(watching, p, p.name); err != nil {
				return seen, err
			}
		}
		if seen, err = l.look(ctx, key, seen, newest); err != nil || seen.ahead != p.ahead {
			return seen, err
		}
		next = ownAfter
		if own != nil {
			next = maxLook
		}
		timer.Reset(min(next, seen.lease.ttl()/3))
	}
}

// deletion returns the revision of what a watch saw; or newest, after a moment, if it
// saw nothing: it began anew, the store was compacted, or the member lost its leader.
func deletion(ctx context.Context, resp clientv3.WatchResponse) int64 {
	if len(resp.Events) > 0 {
		return resp.Events[0].Kv.ModRevision
	}
	pause(ctx, shortly()) // it may end at once again
	return newest
}

// watch begins to watch an entry, and returns the revision after which it sees what
// happens.
func (l *Locker) watch(ctx context.Context, p place, name string) (clientv3.WatchChan, int64, error) {
	ctx, cancel := context.WithCancel(ctx)
	limit := time.AfterFunc(min(l.opts.RequestTimeout, p.lease.ttl()/3), cancel)
	defer limit.Stop()
	events := l.client.Watch(ctx, name, clientv3.WithFilterPut(), clientv3.WithCreatedNotify())
	resp := <-events
	if !resp.Created {
		return nil, 0, errors.Join(errors.New("the server began no watch"), resp.Err())
	}
	return events, resp.Header.Revision, nil
}

// look finds out who is ahead as of revision since or later, and keeps the place alive.
//
// What is at the head of its queue in any revision got the lock by that revision, with
// the base of it, however late its owner learns of that: a member that has that revision
// need not ask the others, which would wait for whatever they are writing.
func (l *Locker) look(ctx context.Context, key string, p place, since int64) (place, error) {
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
	resp, err := l.readSince(ctx, since,
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
