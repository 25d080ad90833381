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

// Options configure a Locker. The zero value, and nil, are good.
type Options struct {
	// Phase is where to begin. Default PhaseOld.
	Phase Phase

	// OnEvent is told of holds that could not be carried over from one phase to the
	// next yet, and of what was left to the background.
	OnEvent func(locker.Event)
}

// maxAhead is how far tokens may be ahead of the clock where one store has to follow
// the other.
const maxAhead = 30 * time.Second

// store is one of the two backends.
type store struct {
	locker.Locker
	locker.Admin
	name string // old or new, for messages
}

// Locker keeps locks in two stores, or in one of them, as its phase says. It
// implements [locker.Waiter] and [locker.Admin]. It has no Unwrap: a call on one of the
// stores would bypass the other.
type Locker struct {
	stores   [2]*store
	opts     Options
	presence *presence

	ctx    context.Context // of what is left to the background
	cancel context.CancelFunc
	work   sync.WaitGroup

	changing sync.Mutex // by SetPhase

	mu    sync.Mutex
	now   stage
	holds map[string]hold // by holder, of leases that were granted or renewed here
}

// stage is a phase from its start to its end in this process.
type stage struct {
	phase Phase
	floor locker.Token  // no token was granted above it in the store that the phase does without
	over  chan struct{} // closed at its end
}

// hold is a lease as this process knows it.
type hold struct {
	lease  locker.Lease
	grants grants
}

var (
	_ locker.Locker = (*Locker)(nil)
	_ locker.Waiter = (*Locker)(nil)
	_ locker.Admin  = (*Locker)(nil)
)

// New returns a Locker that moves locks between two backends, which must implement
// [locker.Admin]. It shows its phase in both of them, and fails with ErrInvalid if a
// process that lives is two phases away. Close it before the two.
func New(ctx context.Context, from, to locker.Locker, opts *Options) (*Locker, error) {
	l := &Locker{holds: make(map[string]hold)}
	if opts != nil {
		l.opts = *opts
	}
	if l.opts.Phase == "" {
		l.opts.Phase = PhaseOld
	}
	if _, err := ParsePhase(string(l.opts.Phase)); err != nil {
		return nil, err
	}
	for s, backend := range []locker.Locker{from, to} {
		if backend == nil {
			return nil, fmt.Errorf("%w: the %s backend is nil", locker.ErrInvalid, side(s))
		}
		admin, ok := locker.As[locker.Admin](backend)
		if !ok {
			return nil, fmt.Errorf("%w: the %s backend, a %T, cannot be migrated: it does not implement locker.Admin, by which tokens are raised",
				locker.ErrInvalid, side(s), backend)
		}
		l.stores[s] = &store{backend, admin, side(s).String()}
	}
	l.ctx, l.cancel = context.WithCancel(context.WithoutCancel(ctx))
	l.presence = newPresence(l)
	first, err := l.begin(ctx, l.opts.Phase)
	if err != nil {
		return nil, errors.Join(fail("open", "", err), l.Close())
	}
	l.now = first
	return l, nil
}

// begin shows that this process goes into a phase, and returns its stage.
func (l *Locker) begin(ctx context.Context, p Phase) (stage, error) {
	if err := l.presence.enter(ctx, p); err != nil {
		return stage{}, err
	}
	st := stage{phase: p, over: make(chan struct{})}
	if p == PhaseBoth {
		return st, nil
	}
	// Of locks that nobody has touched while both stores were used, only the other
	// store knows the tokens.
	used := p.sides()[0]
	floor, err := l.stores[used.other()].HighWater(ctx)
	if err == nil {
		err = l.follow(ctx, used, floor, l.presence.key(p))
	}
	if err != nil {
		l.presence.leave(p)
		return stage{}, fmt.Errorf("tokens of the %s store: %w", used.other(), err)
	}
	st.floor = floor
	return st, nil
}

// follow waits until a store can issue tokens above floor, which may be a little ahead
// of the clock. Most take one that is 10 s ahead at most.
func (l *Locker) follow(ctx context.Context, s side, floor locker.Token, key string) error {
	_, err := backoff.Retry(ctx, func() (struct{}, error) {
		err := l.stores[s].Raise(ctx, key, floor)
		if time.Until(time.UnixMicro(int64(floor))) > maxAhead {
			err = backoff.Permanent(err)
		}
		return struct{}{}, err
	}, backoff.WithMaxElapsedTime(maxAhead))
	return err
}

// Phase returns the phase that new locks are taken in.
func (l *Locker) Phase() Phase { return l.current().phase }

func (l *Locker) current() stage {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.now
}

// SetPhase goes to the next phase, or back to the one before. Holds go on: at their
// next renewal they are carried over to the stores that the phase uses. It first
// waits, until ctx ends, for those that have not been carried over to the present phase, and
// fails with ErrInvalid if that is two phases away from the new one, here or in another
// process.
func (l *Locker) SetPhase(ctx context.Context, p Phase) error {
	if _, err := ParsePhase(string(p)); err != nil {
		return fail("migrate", "", err)
	}
	l.changing.Lock()
	defer l.changing.Unlock()
	before := l.current()
	if p == before.phase {
		return nil
	}
	if p.distance(before.phase) > 1 {
		return fail("migrate", "", fmt.Errorf("%w: from %s to %s is two steps: all processes must have been in %s at one time", locker.ErrInvalid, before.phase, p, PhaseBoth))
	}
	if err := l.carriedOver(ctx, before.phase); err != nil {
		return fail("migrate", "", err)
	}
	next, err := l.begin(ctx, p)
	if err != nil {
		return fail("migrate", "", err)
	}
	l.mu.Lock()
	l.now = next
	l.mu.Unlock()
	close(before.over)
	// Until all holds are such as the phase makes them, this process is in both.
	l.work.Go(func() {
		if l.carriedOver(l.ctx, p) == nil {
			l.presence.leave(before.phase)
		}
	})
	return nil
}

// carriedOver waits until no hold of this process lacks a store that the phase uses.
func (l *Locker) carriedOver(ctx context.Context, p Phase) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		behind := l.behind(p)
		if behind == "" {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("%w: %w: the hold of %q is not carried over to the phase %s", locker.ErrUnavailable, ctx.Err(), behind, p)
		case <-l.ctx.Done():
			return fmt.Errorf("%w: the Locker is closed", locker.ErrUnavailable)
		}
	}
}

// behind returns the key of a hold that lacks a store which the phase uses.
func (l *Locker) behind(p Phase) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	for holder, h := range l.holds {
		if h.lease.Remaining() == 0 {
			delete(l.holds, holder)
			continue
		}
		for _, s := range p.sides() {
			if h.grants[s] == nil {
				return h.lease.Key
			}
		}
	}
	return ""
}

// admit takes down a lease that was granted in a stage. It is false if that is over.
func (l *Locker) admit(st stage, lease locker.Lease, g grants) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.now.over != st.over {
		return false
	}
	l.holds[lease.Holder] = hold{lease, g}
	return true
}

// renewed takes down a lease that was renewed.
func (l *Locker) renewed(lease locker.Lease, g grants) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.holds[lease.Holder] = hold{lease, g}
}

// ended forgets a lease, and says whether it was one of this process that nobody has
// given back.
func (l *Locker) ended(lease locker.Lease) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, ok := l.holds[lease.Holder]
	delete(l.holds, lease.Holder)
	return ok
}

// Close ends what was left to the background, and no longer shows a phase. It closes
// neither backend.
func (l *Locker) Close() error {
	l.cancel()
	l.work.Wait()
	return l.presence.close()
}

func (l *Locker) report(e locker.Event) {
	if l.opts.OnEvent != nil {
		l.opts.OnEvent(e)
	}
}

func fail(op, key string, err error) error {
	return &locker.OpError{Op: op, Backend: "migrate", Key: key, Err: err}
}

// in says in which store something failed.
func (s side) in(err error) error {
	if inner, ok := errors.AsType[*locker.OpError](err); ok && error(inner) == err {
		return fmt.Errorf("%s (%s): %w", inner.Backend, s, inner.Err)
	}
	return fmt.Errorf("%s: %w", s, err)
}
