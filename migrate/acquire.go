package migrate

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/locker-go/locker"
)

// cleanUpLimit bounds what is done for a caller that may have gone.
const cleanUpLimit = 5 * time.Second

// errPhase ends what was begun in a phase that is over.
var errPhase = errors.New("the phase has changed")

// Acquire takes the lock in each store that the phase uses, in turn. In the phase both it
// takes two more round trips than the two stores do.
func (l *Locker) Acquire(ctx context.Context, key string, ttl time.Duration) (locker.Lease, error) {
	return l.take(ctx, key, ttl, func(ctx context.Context, s side) (locker.Lease, error) {
		return l.stores[s].Acquire(ctx, key, ttl)
	})
}

// AcquireWait waits in each store that the phase uses, in turn. While it waits in the
// second it keeps its lock in the first, so that it has its turn there whatever
// processes of the next phase do. It goes on in another phase if that changes.
func (l *Locker) AcquireWait(ctx context.Context, key string, ttl time.Duration) (locker.Lease, error) {
	return l.take(ctx, key, ttl, func(ctx context.Context, s side) (locker.Lease, error) {
		return locker.AcquireWait(ctx, l.stores[s], key, ttl)
	})
}

// take takes a lock by a function that does so in one store.
func (l *Locker) take(ctx context.Context, key string, ttl time.Duration, in func(context.Context, side) (locker.Lease, error)) (locker.Lease, error) {
	if err := errors.Join(locker.ValidateTTL(ttl), l.validateKey(key)); err != nil {
		return locker.Lease{}, fail("acquire", key, err)
	}
	for {
		st := l.current()
		lease, err := l.takeIn(ctx, st, key, ttl, in)
		if errors.Is(err, errPhase) && ctx.Err() == nil && l.ctx.Err() == nil {
			continue
		}
		if err != nil {
			if ctx.Err() != nil && !errors.Is(err, ctx.Err()) {
				err = fmt.Errorf("%w: %w: %w", locker.ErrUnavailable, locker.Ended(ctx), err)
			}
			return locker.Lease{}, fail("acquire", key, err)
		}
		return lease, nil
	}
}

// takeIn takes a lock in one stage. It fails with errPhase if that ends.
func (l *Locker) takeIn(ctx context.Context, st stage, key string, ttl time.Duration, in func(context.Context, side) (locker.Lease, error)) (locker.Lease, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stop := make(chan struct{})
	defer close(stop)
	go func() {
		select {
		case <-st.over:
			cancel(errPhase)
		case <-stop:
		}
	}()
	asked := locker.Now()
	var g grants
	for _, s := range st.phase.sides() {
		var inner locker.Lease
		err := l.keeping(ctx, &g, ttl, func(ctx context.Context) (err error) {
			inner, err = in(ctx, s)
			return err
		})
		if err != nil {
			l.undo(ctx, g)
			if context.Cause(ctx) == errPhase {
				return locker.Lease{}, errPhase
			}
			return locker.Lease{}, l.refused(ctx, s, key, g, err)
		}
		g = g.with(s, inner)
	}
	lease, err := l.seal(ctx, st, key, g, asked)
	if err == nil && !l.admit(st, lease, g) {
		err = errPhase
	}
	if err != nil {
		l.undo(ctx, g)
		if context.Cause(ctx) == errPhase {
			err = errPhase
		}
		return locker.Lease{}, err
	}
	return lease, nil
}

// seal makes a lease of grants: it gives it a token above all that were granted in
// either store, and makes sure that later ones are higher. Then it looks whether all
// grants still stand: after a stall they may be over, and the token, which was made
// for a holder of before, higher than that of the holder of now.
func (l *Locker) seal(ctx context.Context, st stage, key string, g grants, asked locker.Instant) (locker.Lease, error) {
	sides := g.sides()
	var token locker.Token
	for _, s := range sides {
		token = max(token, g[s].Token)
	}
	if token <= st.floor {
		token = st.floor + 1
	}
	raised := false
	for _, s := range sides {
		if g[s].Token < token {
			if err := l.stores[s].Raise(ctx, key, token); err != nil {
				return locker.Lease{}, s.in(err)
			}
			raised = true
		}
	}
	if raised || len(sides) > 1 {
		if err := l.stand(ctx, g); err != nil {
			return locker.Lease{}, fmt.Errorf("%w: the lock was lost while it was taken: %v", locker.ErrUnavailable, err)
		}
	}
	lease := g.lease(key, g[sides[0]].Holder, token, asked)
	if lease.Remaining() == 0 {
		return locker.Lease{}, fmt.Errorf("%w: taking the lock took longer than the lease: use a longer TTL", locker.ErrUnavailable)
	}
	return lease, nil
}

// stand returns nil if all grants stand, asking their stores at once.
func (l *Locker) stand(ctx context.Context, g grants) error {
	return g.each(func(s side) error {
		_, err := l.stores[s].FenceToken(ctx, *g[s])
		return err
	})
}

// each calls fn for each grant at once. The error is ErrNotHeld if one of them is, whatever
// the other is.
func (g grants) each(fn func(side) error) error {
	var (
		errs [2]error
		wg   sync.WaitGroup
	)
	sides := g.sides()
	for _, s := range sides[1:] {
		wg.Go(func() { errs[s] = fn(s) })
	}
	errs[sides[0]] = fn(sides[0])
	wg.Wait()
	var other error
	for _, s := range sides {
		if errors.Is(errs[s], locker.ErrNotHeld) {
			return s.in(errs[s])
		}
		if errs[s] != nil {
			other = errors.Join(other, s.in(errs[s]))
		}
	}
	return other
}

// keeping calls fn, and renews the grants meanwhile. If one of them is lost it ends fn's
// context.
func (l *Locker) keeping(ctx context.Context, g *grants, ttl time.Duration, fn func(context.Context) error) error {
	if len(g.sides()) == 0 {
		return fn(ctx)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var renewing sync.WaitGroup
	done := make(chan struct{})
	renewing.Go(func() {
		tick := time.NewTicker(max(ttl/3, time.Millisecond))
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
			case <-done:
				return
			}
			for _, s := range g.sides() {
				renewed, err := l.stores[s].Renew(ctx, *g[s], ttl)
				if err == nil {
					g[s] = &renewed
				} else if errors.Is(err, locker.ErrNotHeld) || g[s].Remaining() == 0 {
					cancel(fmt.Errorf("%w: lost while waiting for the other store: %v", locker.ErrUnavailable, s.in(err)))
					return
				}
			}
		}
	})
	err := fn(ctx)
	close(done)
	renewing.Wait()
	if cause := context.Cause(ctx); err != nil && errors.Is(cause, locker.ErrUnavailable) {
		return cause
	}
	return err
}

// undo gives back what was taken, in the opposite order. What fails is tried again in
// the background until it is over.
func (l *Locker) undo(ctx context.Context, g grants) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanUpLimit)
	defer cancel()
	for _, s := range []side{to, from} {
		if g[s] == nil {
			continue
		}
		if err := l.stores[s].Release(ctx, *g[s]); err != nil && !errors.Is(err, locker.ErrNotHeld) {
			l.giveBack(s, *g[s])
		}
	}
}

// giveBack goes on to release a grant in the background, until it is over.
func (l *Locker) giveBack(s side, lease locker.Lease) {
	l.work.Go(func() {
		deadline := time.Now().Add(lease.Remaining())
		ctx, cancel := context.WithDeadline(l.ctx, deadline)
		defer cancel()
		_, err := backoff.Retry(ctx, func() (struct{}, error) {
			err := l.stores[s].Release(ctx, lease)
			if errors.Is(err, locker.ErrNotHeld) {
				err = nil
			}
			return struct{}{}, err
		}, backoff.WithMaxElapsedTime(0))
		if err != nil {
			l.report(locker.Event{Kind: locker.EventReleaseFailed, Holding: lease.Holding(), Err: s.in(err)})
		}
	})
}

// refused returns why a store did not grant a lock. If it is held the other store may
// know more of the holder, such as a higher token, unless the lock was taken there meanwhile.
func (l *Locker) refused(ctx context.Context, s side, key string, taken grants, err error) error {
	info, ok := errors.AsType[*locker.HeldError](err)
	if !ok {
		return s.in(err)
	}
	seen := sighting{}
	seen[s] = &info.Holding
	if taken[s.other()] == nil && ctx.Err() == nil {
		l.complete(ctx, key, &seen)
	}
	return &heldError{&locker.HeldError{Holding: seen.holding(key)}, s.in(err)}
}

// heldError is what is known of a holder, and how that was learned.
type heldError struct {
	held *locker.HeldError
	err  error
}

func (e *heldError) Error() string   { return e.err.Error() }
func (e *heldError) Unwrap() []error { return []error{e.held, e.err} }
