package migrate

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/locker-go/locker"
)

// Renew renews the lease in each store that it is in, at once. A lease of another phase
// is carried over: it is taken in the store that the phase uses as well, and given
// back in the one that it does without. If that cannot be done now the lease stays as it
// is, an event tells, and the next renewal tries again.
func (l *Locker) Renew(ctx context.Context, lease locker.Lease, ttl time.Duration) (locker.Lease, error) {
	g, err := l.check(ctx, lease)
	if err := errors.Join(locker.ValidateTTL(ttl), err); err != nil {
		return lease, fail("renew", lease.Key, err)
	}
	st := l.current()
	asked := locker.Now()
	var renewed grants
	err = g.each(func(s side) error {
		inner, err := l.stores[s].Renew(ctx, *g[s], ttl)
		renewed[s] = &inner
		return err
	})
	if errors.Is(err, locker.ErrNotHeld) && l.ended(lease) {
		l.undo(ctx, g) // it is over, so nothing must be left of it in the other store
	}
	if err != nil {
		return lease, fail("renew", lease.Key, err)
	}
	g = l.carryOver(ctx, st, lease, renewed, ttl)
	next := g.lease(lease.Key, lease.Holder, lease.Token, asked)
	l.renewed(next, g)
	return next, nil
}

// carryOver takes a lease to the stores that the phase uses.
func (l *Locker) carryOver(ctx context.Context, st stage, lease locker.Lease, g grants, ttl time.Duration) grants {
	complete := true
	for _, s := range st.phase.sides() {
		if g[s] != nil {
			continue
		}
		inner, err := l.stores[s].Acquire(ctx, lease.Key, ttl)
		if err == nil {
			if inner.Token < lease.Token {
				err = l.stores[s].Raise(ctx, lease.Key, lease.Token)
			}
			if err != nil {
				l.undo(ctx, grants{}.with(s, inner))
			}
		}
		if err != nil {
			complete = false
			l.report(locker.Event{
				Kind: locker.EventRenewFailed, Holding: lease.Holding(),
				Err: fmt.Errorf("it is not carried over to the phase %s yet: %w", st.phase, s.in(err)),
			})
			continue
		}
		g = g.with(s, inner)
	}
	if st.phase == PhaseBoth || !complete {
		return g
	}
	if spare := st.phase.sides()[0].other(); g[spare] != nil {
		l.undo(ctx, grants{}.with(spare, *g[spare]))
		g[spare] = nil
	}
	return g
}

// Release gives the lock back in each store that it is in, the new one first. Where it
// fails that is tried again in the background until the lease is over.
func (l *Locker) Release(ctx context.Context, lease locker.Lease) error {
	g, err := l.check(ctx, lease)
	if err != nil {
		return fail("release", lease.Key, err)
	}
	l.ended(lease)
	var lost, failed error
	for _, s := range []side{to, from} {
		if g[s] == nil {
			continue
		}
		switch err := l.stores[s].Release(ctx, *g[s]); {
		case errors.Is(err, locker.ErrNotHeld):
			lost = s.in(err)
		case err != nil:
			failed = errors.Join(failed, s.in(err))
			l.giveBack(s, *g[s])
		}
	}
	if err := errors.Join(lost, failed); err != nil {
		if lost != nil {
			err = lost
		}
		return fail("release", lease.Key, err)
	}
	return nil
}

// FenceToken asks each store that the lease is in, at once.
func (l *Locker) FenceToken(ctx context.Context, lease locker.Lease) (locker.Token, error) {
	g, err := l.check(ctx, lease)
	if err == nil {
		err = l.stand(ctx, g)
	}
	if err != nil {
		return 0, fail("fence", lease.Key, err)
	}
	return lease.Token, nil
}

// check returns what a lease consists of, or why a call for it cannot be made.
func (l *Locker) check(ctx context.Context, lease locker.Lease) (grants, error) {
	if err := l.validateKey(lease.Key); err != nil {
		return grants{}, err
	}
	if ctx.Err() != nil {
		return grants{}, fmt.Errorf("%w: %w", locker.ErrUnavailable, locker.Ended(ctx))
	}
	if l.ctx.Err() != nil {
		return grants{}, fmt.Errorf("%w: the Locker is closed", locker.ErrUnavailable)
	}
	g, ok := grantsOf(lease)
	if !ok {
		return grants{}, locker.ErrNotHeld
	}
	return g, nil
}

// validateKey refuses keys that no backend takes, and those by which processes show
// their phases.
func (l *Locker) validateKey(key string) error {
	if err := locker.ValidateKey(key); err != nil {
		return err
	}
	if isPresence(key) {
		return fmt.Errorf("%w: keys that begin with %q are for the phases of a migration", locker.ErrInvalid, presencePrefix)
	}
	return nil
}
