package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/locker-go/locker"
)

const (
	// maxLook is how often a waiter looks although nothing woke it, at most.
	maxLook = 5 * time.Second

	// outagePatience is for how long a waiter goes on although the ensemble does not
	// answer.
	outagePatience = 30 * time.Second
)

// AcquireWait lines up: those who wait get the lock in the order in which the ensemble
// took them in, and each watches only the one before it, so that a release wakes one.
// Acquire fails as long as anybody waits.
//
// A waiter has a place as long as its session lives, also through the loss of its
// connection. If the session ends, as in an outage that is longer than its timeout, the
// wait fails with ErrUnavailable.
func (l *Locker) AcquireWait(ctx context.Context, key string, ttl time.Duration) (locker.Lease, error) {
	waiting, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(l.tasks.closing, func() { cancel(fmt.Errorf("%w: %w", context.Canceled, errClosed)) })()
	lease, err := l.attempt(waiting, key, ttl, l.wait)
	if err != nil {
		return locker.Lease{}, l.fail(waiting, "acquire", key, err)
	}
	return lease, nil
}

// wait makes an entry, and waits until it is at the head of its queue.
func (l *Locker) wait(ctx context.Context, key string) (place, error) {
	for range maxTries {
		if !l.crowds.recent(key) {
			p, err := l.enter(ctx, key)
			if !errors.Is(err, errCrowded) {
				return p, err
			}
		}
		p, v, err := l.join(ctx, key)
		if !errors.Is(err, zk.ErrNoNode) {
			if err == nil {
				p, err = l.line(ctx, p, v)
			}
			return p, err
		}
		l.crowds.forget(key)
	}
	return place{}, l.outrun("the queue of the key changed")
}

// line waits until a place, which was looked at, is at the head of its queue. If it
// returns an error the place is given up.
func (l *Locker) line(ctx context.Context, p place, v view) (place, error) {
	var (
		outage moment
		down   bool
		err    error
	)
	for {
		if v.ahead == nil {
			p.asked = now()
			p.base, err = l.currentBase(ctx)
			if err == nil {
				return p, nil
			}
		} else {
			l.crowds.note(p.key)
			v, err = l.await(ctx, p, v)
		}
		switch {
		case err == nil:
			down = false
			continue
		case ctx.Err() != nil:
			return p, l.giveUp(ctx, p, v)
		case is(err, errPlaceLost, errSessionLost, zk.ErrNoAuth):
			return p, l.undo(ctx, p.entry, nil, err)
		}
		if !down {
			outage, down = now(), true
		}
		if now().since(outage) > outagePatience {
			return p, l.undo(ctx, p.entry, nil, err)
		}
		pause(ctx)
	}
}

// view is a queue as an entry in it sees it.
type view struct {
	ahead *spot // the one before, or nil at the head
}

// await waits until the one ahead is gone, or it is time to look anyway, and looks. It
// returns the view as it was if it cannot look.
func (l *Locker) await(ctx context.Context, p place, v view) (view, error) {
	ahead := p.dir + "/" + v.ahead.name
	gone := l.lines.wait(ahead, p.path())
	if gone == nil {
		fired, err := l.watch(ctx, ahead)
		if err != nil {
			return v, err
		}
		gone = &turn{over: fired}
	}
	timer := time.NewTimer(maxLook)
	defer timer.Stop()
	select {
	case <-gone.over:
		if gone.proven {
			return view{}, nil
		}
	case <-timer.C:
	case <-ctx.Done():
		return v, ctx.Err()
	}
	next, err := l.look(ctx, p)
	if err != nil {
		return v, err
	}
	return next, nil
}

// look finds out who is ahead, by a listing that was asked for already or by another one.
// What a server says that lags is right all the same: who is ahead may have gone since,
// but nobody comes in before.
func (l *Locker) look(ctx context.Context, p place, asked ...*call) (view, error) {
	var (
		names []string
		err   error
	)
	if len(asked) > 0 {
		names, err = l.listed(ctx, asked[0])
	}
	if len(asked) == 0 || err != nil {
		names, err = l.children(ctx, p.dir)
	}
	for synced := false; ; synced = true {
		if l.dialer.current().id != p.session.id {
			return view{}, errSessionLost // what is there may be about to vanish
		}
		if err != nil && !errors.Is(err, zk.ErrNoNode) {
			return view{}, err
		}
		if ahead, found := nearest(names, p.spot); found {
			return view{ahead}, nil
		}
		if synced {
			return view{}, errPlaceLost
		}
		// A server that lags, to which the client moved, may not have seen the entry yet.
		if err := l.sync(ctx); err != nil {
			return view{}, err
		}
		names, err = l.children(ctx, p.dir)
	}
}

// nearest returns the entry that is next before own, of the names in a queue's directory,
// and whether own is there.
func nearest(names []string, own spot) (ahead *spot, found bool) {
	for _, name := range names {
		s, ok := spotOf(name)
		switch {
		case !ok:
		case s == own:
			found = true
		case s.before(own) && (ahead == nil || ahead.before(s)):
			ahead = &s
		}
	}
	return ahead, found
}

// giveUp leaves the queue because ctx has ended.
func (l *Locker) giveUp(ctx context.Context, p place, v view) error {
	if v.ahead != nil {
		l.lines.leave(p.dir+"/"+v.ahead.name, p.path())
	}
	held := &locker.HeldError{Holding: locker.Holding{Key: p.key}}
	brief, cancel := context.WithTimeout(context.WithoutCancel(ctx), l.opts.RequestTimeout)
	defer cancel()
	// Who holds the lock is worth a read. That it fails is not worth another error.
	if h, err := l.firstOf(brief, p.key); err == nil && h != nil && h.name != p.spot.name {
		held.Holding = h.Holding
	}
	return l.undo(ctx, p.entry, nil, fmt.Errorf("%w; gave up waiting: %w", held, locker.Ended(ctx)))
}
