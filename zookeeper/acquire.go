package zookeeper

import (
	"context"
	"errors"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/locker-go/locker"
)

var (
	// errPlaceLost says that an entry that was made is no longer there.
	errPlaceLost = errors.New("the place in the queue is lost: the session expired, or somebody removed it")

	// errCrowded says that a queue's directory is there already.
	errCrowded = errors.New("the queue is not empty")
)

// place is an entry of this client.
type place struct {
	entry
	session session
	asked   moment // when it was asked for
	base    base   // that stood when it was at the head
}

// Acquire takes one write if the lock is free. If it is held the servers refuse the write,
// and two reads tell who holds it.
func (l *Locker) Acquire(ctx context.Context, key string, ttl time.Duration) (locker.Lease, error) {
	lease, err := l.attempt(ctx, key, ttl, l.acquire)
	if err != nil {
		return locker.Lease{}, l.fail(ctx, "acquire", key, err)
	}
	return lease, nil
}

// attempt checks arguments, and makes a lease of the place that enter returns, which is
// at the head of its queue.
func (l *Locker) attempt(ctx context.Context, key string, ttl time.Duration, enter func(context.Context, string) (place, error)) (locker.Lease, error) {
	if err := locker.ValidateTTL(ttl); err != nil {
		return locker.Lease{}, err
	}
	if err := l.begin(ctx, key); err != nil {
		return locker.Lease{}, err
	}
	defer l.tasks.calls.Done()
	p, err := enter(ctx, key)
	if err != nil {
		return locker.Lease{}, err
	}
	return l.granted(ctx, p, ttl)
}

func (l *Locker) acquire(ctx context.Context, key string) (place, error) {
	for range maxTries {
		p, err := l.enter(ctx, key)
		if !errors.Is(err, errCrowded) {
			return p, err
		}
		held, err := l.firstOf(ctx, key)
		if err != nil {
			return place{}, err
		}
		if held != nil {
			return place{}, &locker.HeldError{Holding: held.Holding}
		}
		// A directory that was left behind, or that somebody else leaves just now.
		p, v, err := l.join(ctx, key)
		if errors.Is(err, zk.ErrNoNode) {
			continue
		}
		if err != nil {
			return place{}, err
		}
		if v.ahead == nil {
			if p.base, err = l.currentBase(ctx); err == nil {
				return p, nil
			}
			return place{}, l.undo(ctx, p.entry, nil, err)
		}
		// Whoever was faster is at the head now.
		if err := l.undo(ctx, p.entry, nil, errCrowded); err != errCrowded {
			return place{}, err
		}
	}
	return place{}, l.outrun("the queue of the key changed")
}

// newEntry returns an entry that is to be made.
func (l *Locker) newEntry(key string, b base) entry {
	return entry{key: key, dir: l.names.queue(key), id: newID(), holder: locker.NewHolder(), base: b.value}
}

// enter makes an entry together with its queue's directory, so that it is at the head; if
// there is one already the error is errCrowded. If it returns an error there is no entry,
// and none will be.
func (l *Locker) enter(ctx context.Context, key string) (place, error) {
	for range maxTries {
		b, err := l.upToDate(ctx)
		if err != nil {
			return place{}, err
		}
		p := place{base: b, entry: l.newEntry(key, b)}
		p, _, err = l.create(ctx, p, multi(
			l.sameBase(b),
			createOp(p.dir, nil, l.opts.ACL, zk.FlagPersistent),
			p.creation(l.opts.ACL)))
		switch {
		case err == nil:
			return p, nil
		case again(err):
		case refused(err, 0, zk.ErrBadVersion), refused(err, 0, zk.ErrNoNode): // the base has moved, or is lost
			l.known.forget()
		case refused(err, 1, zk.ErrNodeExists):
			return place{}, errCrowded
		case refused(err, 1, zk.ErrNoNode): // what is above the queues is lost
			if err := l.prepare(ctx); err != nil {
				return place{}, err
			}
		default:
			return place{}, err
		}
	}
	return place{}, l.outrun("the connection was lost, or the base of the tokens changed,")
}

// again says whether an entry can be made once more: the connection was lost, and what
// was begun, if anything was, is undone.
func again(err error) bool { return err == errCut || err == errNotSent }

// join makes an entry at the end of a queue that has a directory, and looks who is ahead;
// if there is none the error is zk.ErrNoNode. If it returns an error there is no entry,
// and none will be.
func (l *Locker) join(ctx context.Context, key string) (place, view, error) {
	for range maxTries {
		b, err := l.upToDate(ctx)
		if err != nil {
			return place{}, view{}, err
		}
		p := place{entry: l.newEntry(key, b)}
		p, list, err := l.create(ctx, p, single(p.creation(l.opts.ACL)), listing(p.dir))
		if again(err) {
			continue
		}
		if err != nil {
			return place{}, view{}, err
		}
		v, err := l.look(ctx, p, list...)
		if err != nil {
			return place{}, view{}, l.undo(ctx, p.entry, nil, err)
		}
		return p, v, nil
	}
	return place{}, view{}, l.outrun("the connection was lost")
}

// create sends a change that makes an entry, and a request that is to follow it.
func (l *Locker) create(ctx context.Context, p place, creation request, next ...request) (place, []*call, error) {
	var (
		c    *change
		more []*call
	)
	results, err := bounded(ctx, l, func(ctx context.Context) (results []result, err error) {
		if c, more, err = l.send(ctx, creation, next...); err != nil {
			return nil, err
		}
		results, p.zxid, err = l.result(ctx, c)
		return results, err
	})
	if _, ok := errors.AsType[*refusal](err); ok || c == nil {
		return p, nil, err
	}
	if err == nil {
		p.spot, err = p.made(results)
	}
	if err != nil {
		return p, nil, l.undo(ctx, p.entry, c, err)
	}
	p.session, p.asked = c.session, c.asked
	l.lines.add(p.path())
	return p, more, nil
}

// granted makes the lease of a place at the head of its queue.
func (l *Locker) granted(ctx context.Context, p place, ttl time.Duration) (locker.Lease, error) {
	lease, g, err := l.lease(ctx, p, ttl)
	if err != nil {
		return locker.Lease{}, l.undo(ctx, p.entry, nil, err)
	}
	l.grants.add(g)
	l.startKeeper()
	l.startSweeper()
	l.tellAhead(g.entry)
	return lease, nil
}

func (l *Locker) lease(ctx context.Context, p place, ttl time.Duration) (locker.Lease, *grant, error) {
	ttl = min(ttl, l.longest(p.session))
	e, err := l.settle(ctx, p.entry, p.base)
	if err != nil {
		return locker.Lease{}, nil, err
	}
	asked := p.asked
	kept := min(ttl, l.safety.kept(p.session, asked))
	if kept < ttl-ttl/4 {
		// The session was not known to live for some time, as after a long wait.
		asked = now()
		if err := l.prove(ctx, e); err != nil {
			return locker.Lease{}, nil, err
		}
		kept = min(ttl, l.safety.kept(p.session, asked))
	}
	if l.dialer.current().id != p.session.id {
		return locker.Lease{}, nil, errSessionLost
	}
	lease := locker.Lease{Key: e.key, Holder: e.holder, Token: e.token(), Handle: e.spot.name}.Granted(asked.instant(), ttl, kept)
	if lease.Remaining() == 0 {
		return locker.Lease{}, nil, errors.New("the answer took longer than the lease, or the session may be about to expire: use a longer TTL, and a longer session timeout")
	}
	return lease, &grant{entry: e, session: p.session.id, asked: asked, ttl: ttl}, nil
}

// prove has a majority of the servers confirm that an entry is there. It asks again if
// the connection is lost meanwhile.
func (l *Locker) prove(ctx context.Context, e entry) error {
	_, err := bounded(ctx, l, func(ctx context.Context) (struct{}, error) {
		for {
			err := l.make(ctx, multi(checkOp(e.path(), anyVersion))) // alone it would be no request of the protocol
			if !is(err, errCut, errNotSent) {
				return struct{}{}, err
			}
		}
	})
	if errors.Is(err, zk.ErrNoNode) {
		return errPlaceLost
	}
	return err
}
