package file

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/locker-go/locker"
)

// usable returns why a call with these arguments cannot be made, or nil.
func usable(ctx context.Context, key string, ttl time.Duration) error {
	if err := errors.Join(locker.ValidateKey(key), locker.ValidateTTL(ttl)); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return unavailable(locker.Ended(ctx))
	}
	return nil
}

// update changes the state of key's shard, while nobody else does. If change fails
// nothing is written. If change returns true, waiters are woken afterwards.
func (l *Locker) update(ctx context.Context, key string, change func(*state) (wake bool, err error)) (err error) {
	s := l.shardOf(key)
	f, err := s.lock(ctx, l.timeout)
	if err != nil {
		return err
	}
	wake := false
	defer func() {
		if unlockErr := s.unlock(f, wake); err == nil && unlockErr != nil {
			err = unavailable(unlockErr)
		}
	}()
	st, err := s.read()
	if err != nil {
		return err
	}
	if wake, err = change(st); err != nil {
		return err
	}
	st.prune(l.clock())
	return s.write(st)
}

// Acquire reads the state first: a lock that is held costs no more than that.
func (l *Locker) Acquire(ctx context.Context, key string, ttl time.Duration) (locker.Lease, error) {
	if err := usable(ctx, key, ttl); err != nil {
		return locker.Lease{}, fail("acquire", key, err)
	}
	st, err := l.shardOf(key).read()
	if err == nil {
		err = st.free(key, l.clock())
	}
	if err != nil {
		return locker.Lease{}, fail("acquire", key, err)
	}
	var lease locker.Lease
	err = l.update(ctx, key, func(st *state) (bool, error) {
		asked := locker.Now()
		now := l.clock()
		if err := st.free(key, now); err != nil {
			return false, err
		}
		token := max(locker.Token(max(now.wall.UnixMicro(), 1)), st.Fence+1)
		if token > locker.MaxToken {
			return false, unavailable(fmt.Errorf("no token is left: the clock says %s", now.wall.UTC().Format(time.RFC3339)))
		}
		st.Fence = token
		lease = locker.Lease{Key: key, Holder: locker.NewHolder(), Token: token}.Granted(asked, ttl, ttl)
		st.Grants[key] = newGrant(lease.Holder, token, ttl, now)
		return false, nil
	})
	if err == nil && lease.Remaining() == 0 {
		err = unavailable(fmt.Errorf("writing took longer than the TTL of %s", ttl))
	}
	if err == nil && ctx.Err() != nil {
		err = unavailable(locker.Ended(ctx)) // the caller went away while it was written
	}
	if err != nil && lease.Token != 0 {
		err = l.undo(ctx, lease, err)
	}
	if err != nil {
		return locker.Lease{}, fail("acquire", key, err)
	}
	return lease, nil
}

// free returns a HeldError if key is held.
func (s *state) free(key string, now moment) error {
	if g, ok := s.current(key, now); ok {
		return &locker.HeldError{Holding: g.holding(key, now)}
	}
	return nil
}

// undo gives back a lease that was perhaps written, after its Acquire failed for why.
func (l *Locker) undo(ctx context.Context, lease locker.Lease, why error) error {
	err := l.end(context.WithoutCancel(ctx), lease.Key, func(g grant) bool { return g.Holder == lease.Holder })
	if err != nil && !errors.Is(err, locker.ErrNotHeld) {
		return errors.Join(why, fmt.Errorf("and it was not undone; the lock may be kept for its TTL: %w", err))
	}
	return why
}

// AcquireWait is woken by a release on Linux; elsewhere it asks again and again.
func (l *Locker) AcquireWait(ctx context.Context, key string, ttl time.Duration) (locker.Lease, error) {
	attempt := func(ctx context.Context) (locker.Lease, error) { return l.Acquire(ctx, key, ttl) }
	lease, err := attempt(ctx)
	if !errors.Is(err, locker.ErrHeld) {
		return lease, err
	}
	wake, stop := l.watch.start(l.shardOf(key).lockFile())
	defer stop()
	return locker.Wait(ctx, wake, attempt)
}

func (l *Locker) Renew(ctx context.Context, lease locker.Lease, ttl time.Duration) (locker.Lease, error) {
	if err := usable(ctx, lease.Key, ttl); err != nil {
		return lease, fail("renew", lease.Key, err)
	}
	var renewed locker.Lease
	err := l.update(ctx, lease.Key, func(st *state) (bool, error) {
		asked := locker.Now()
		now := l.clock()
		g, ok := st.of(lease, now)
		if !ok {
			return false, locker.ErrNotHeld
		}
		renewed = lease.Granted(asked, ttl, ttl)
		st.Grants[lease.Key] = newGrant(g.Holder, g.Token, ttl, now)
		return ttl < g.remaining(now), nil // waiters count on what was left
	})
	if err != nil {
		return lease, fail("renew", lease.Key, err)
	}
	return renewed, nil
}

func (l *Locker) Release(ctx context.Context, lease locker.Lease) error {
	err := usable(ctx, lease.Key, locker.MinTTL)
	if err == nil {
		err = l.end(ctx, lease.Key, func(g grant) bool { return g.Holder == lease.Holder && g.Token == lease.Token })
	}
	if err != nil {
		return fail("release", lease.Key, err)
	}
	return nil
}

// end ends the grant of key that stands, if it is the right one.
func (l *Locker) end(ctx context.Context, key string, right func(grant) bool) error {
	return l.update(ctx, key, func(st *state) (bool, error) {
		if g, ok := st.current(key, l.clock()); !ok || !right(g) {
			return false, locker.ErrNotHeld
		}
		delete(st.Grants, key)
		return true, nil
	})
}

func (l *Locker) FenceToken(ctx context.Context, lease locker.Lease) (locker.Token, error) {
	err := usable(ctx, lease.Key, locker.MinTTL)
	if err == nil {
		var st *state
		if st, err = l.shardOf(lease.Key).read(); err == nil {
			if _, ok := st.of(lease, l.clock()); ok {
				return lease.Token, nil
			}
			err = locker.ErrNotHeld
		}
	}
	return 0, fail("fence", lease.Key, err)
}
