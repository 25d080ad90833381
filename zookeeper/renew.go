package zookeeper

import (
	"context"
	"errors"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/locker-go/locker"
)

// held returns the grant of a lease, or says ErrNotHeld. Leases do not leave their
// client: they end with its session.
func (l *Locker) held(lease locker.Lease) (*grant, error) {
	g, stands := l.grants.of(lease)
	if g != nil && g.session != l.dialer.current().id {
		l.forget(g)
		stands = false
	}
	if !stands {
		return nil, locker.ErrNotHeld
	}
	return g, nil
}

// confirm has a majority of the servers confirm a grant. A read, or a ping, would be
// answered by a follower that is cut from the others.
func (l *Locker) confirm(ctx context.Context, g *grant) error {
	err := l.prove(ctx, g.entry)
	if errors.Is(err, errPlaceLost) {
		l.forget(g)
		return locker.ErrNotHeld
	}
	return err
}

// Renew takes one write: of nothing, but a majority of the servers confirms that the lock
// is held.
func (l *Locker) Renew(ctx context.Context, lease locker.Lease, ttl time.Duration) (locker.Lease, error) {
	renewed, err := l.renew(ctx, lease, ttl)
	if err != nil {
		return lease, l.fail(ctx, "renew", lease.Key, err)
	}
	return renewed, nil
}

func (l *Locker) renew(ctx context.Context, lease locker.Lease, ttl time.Duration) (locker.Lease, error) {
	if err := locker.ValidateTTL(ttl); err != nil {
		return lease, err
	}
	if err := l.begin(ctx, lease.Key); err != nil {
		return lease, err
	}
	defer l.tasks.calls.Done()
	g, err := l.held(lease)
	if err != nil {
		return lease, err
	}
	s, asked := l.dialer.current(), now()
	if err := l.confirm(ctx, g); err != nil {
		return lease, err
	}
	ttl = min(ttl, l.longest(s))
	renewed := lease.Granted(asked.instant(), ttl, min(ttl, l.safety.kept(s, asked)))
	if renewed.Remaining() == 0 {
		return lease, errors.New("the answer took longer than the lease, or the session may be about to expire")
	}
	if !l.grants.renew(g, asked, ttl) {
		return lease, locker.ErrNotHeld
	}
	return renewed, nil
}

// FenceToken takes one write, of nothing, as Renew.
func (l *Locker) FenceToken(ctx context.Context, lease locker.Lease) (locker.Token, error) {
	token, err := l.fenceToken(ctx, lease)
	if err != nil {
		return 0, l.fail(ctx, "fence", lease.Key, err)
	}
	return token, nil
}

func (l *Locker) fenceToken(ctx context.Context, lease locker.Lease) (locker.Token, error) {
	if err := l.begin(ctx, lease.Key); err != nil {
		return 0, err
	}
	defer l.tasks.calls.Done()
	g, err := l.held(lease)
	if err != nil {
		return 0, err
	}
	if err := l.confirm(ctx, g); err != nil {
		return 0, err
	}
	return lease.Token, nil
}

// Release takes one write, and a second one if it was wrong about whether others wait.
func (l *Locker) Release(ctx context.Context, lease locker.Lease) error {
	if err := l.release(ctx, lease); err != nil {
		return l.fail(ctx, "release", lease.Key, err)
	}
	return nil
}

func (l *Locker) release(ctx context.Context, lease locker.Lease) error {
	if err := l.begin(ctx, lease.Key); err != nil {
		return err
	}
	defer l.tasks.calls.Done()
	g, err := l.held(lease)
	if err != nil {
		return err
	}
	_, err = bounded(ctx, l, func(ctx context.Context) (struct{}, error) {
		// No later lock has the name of this one, so it may be sent twice.
		for {
			removed, err := l.pass(ctx, g.entry)
			switch {
			case err == nil && (removed || l.grants.doubted(g)):
				return struct{}{}, nil
			case err == nil:
				return struct{}{}, locker.ErrNotHeld
			}
			l.grants.doubt(g)
			if ctx.Err() != nil || is(err, zk.ErrNoAuth) {
				return struct{}{}, err
			}
			pause(ctx)
		}
	})
	if err == nil || errors.Is(err, locker.ErrNotHeld) {
		l.forget(g)
	}
	return err
}
