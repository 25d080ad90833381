// Package memory is a Locker within one process: for unit tests of programs that
// use a lock, also in [testing/synctest] bubbles, and as the reference that other
// backends are compared with. Its locks exclude nobody outside the process, and
// its tokens rise beyond the process's life only as far as the clock does.
package memory

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/locker-go/locker"
)

// Store holds locks. The zero value is an empty one.
type Store struct {
	mu      sync.Mutex
	last    locker.Token // the highest issued, for any key
	grants  map[string]grant
	waiters map[string]map[chan struct{}]struct{}
}

type grant struct {
	holder string
	token  locker.Token
	since  locker.Instant
	ttl    time.Duration
}

func (g grant) remaining() time.Duration { return g.ttl - g.since.Elapsed() }

func (g grant) holding(key string) locker.Holding {
	return locker.Holding{Key: key, Holder: locker.ShowHolder(g.holder), Token: g.token, Remaining: g.remaining()}
}

// Locker is a client of a Store. It implements [locker.Waiter] and [locker.Admin].
type Locker struct{ store *Store }

var (
	_ locker.Locker = (*Locker)(nil)
	_ locker.Waiter = (*Locker)(nil)
	_ locker.Admin  = (*Locker)(nil)
)

// New returns a Locker on store, or on a new one if that is nil.
func New(store *Store) *Locker {
	if store == nil {
		store = new(Store)
	}
	return &Locker{store}
}

func fail(op, key string, err error) error {
	return &locker.OpError{Op: op, Backend: "memory", Key: key, Err: err}
}

// usable returns why a call with these arguments cannot be made, or nil.
func usable(ctx context.Context, key string, ttl time.Duration) error {
	if err := errors.Join(locker.ValidateKey(key), locker.ValidateTTL(ttl)); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return fmt.Errorf("%w: %w", locker.ErrUnavailable, locker.Ended(ctx))
	}
	return nil
}

// current returns the grant that stands for key. The store must be locked.
func (s *Store) current(key string) (grant, bool) {
	g, ok := s.grants[key]
	if ok && g.remaining() <= 0 {
		delete(s.grants, key)
		return grant{}, false
	}
	return g, ok
}

// end ends the grant of key and wakes those that wait for it.
func (s *Store) end(key string) {
	delete(s.grants, key)
	for wake := range s.waiters[key] {
		select {
		case wake <- struct{}{}:
		default:
		}
	}
}

func (l *Locker) Acquire(ctx context.Context, key string, ttl time.Duration) (locker.Lease, error) {
	if err := usable(ctx, key, ttl); err != nil {
		return locker.Lease{}, fail("acquire", key, err)
	}
	s := l.store
	s.mu.Lock()
	defer s.mu.Unlock()
	if g, ok := s.current(key); ok {
		return locker.Lease{}, fail("acquire", key, &locker.HeldError{Holding: g.holding(key)})
	}
	now := locker.Now()
	s.last = max(locker.Token(time.Now().UnixMicro()), s.last+1)
	g := grant{locker.NewHolder(), s.last, now, ttl}
	if s.grants == nil {
		s.grants = make(map[string]grant)
	}
	s.grants[key] = g
	return locker.Lease{Key: key, Holder: g.holder, Token: g.token}.Granted(now, ttl, ttl), nil
}

// AcquireWait is woken when the lock is released.
func (l *Locker) AcquireWait(ctx context.Context, key string, ttl time.Duration) (locker.Lease, error) {
	s := l.store
	wake := make(chan struct{}, 1)
	s.mu.Lock()
	if s.waiters == nil {
		s.waiters = make(map[string]map[chan struct{}]struct{})
	}
	if s.waiters[key] == nil {
		s.waiters[key] = make(map[chan struct{}]struct{})
	}
	s.waiters[key][wake] = struct{}{}
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.waiters[key], wake)
		if len(s.waiters[key]) == 0 {
			delete(s.waiters, key)
		}
	}()
	return locker.Wait(ctx, wake, func(ctx context.Context) (locker.Lease, error) { return l.Acquire(ctx, key, ttl) })
}

func (l *Locker) Renew(ctx context.Context, lease locker.Lease, ttl time.Duration) (locker.Lease, error) {
	if err := usable(ctx, lease.Key, ttl); err != nil {
		return lease, fail("renew", lease.Key, err)
	}
	s := l.store
	s.mu.Lock()
	defer s.mu.Unlock()
	g, ok := s.current(lease.Key)
	if !ok || !g.is(lease) {
		return lease, fail("renew", lease.Key, locker.ErrNotHeld)
	}
	g.since, g.ttl = locker.Now(), ttl
	s.grants[lease.Key] = g
	return lease.Granted(g.since, ttl, ttl), nil
}

func (g grant) is(lease locker.Lease) bool { return g.holder == lease.Holder && g.token == lease.Token }

func (l *Locker) Release(ctx context.Context, lease locker.Lease) error {
	if err := usable(ctx, lease.Key, locker.MinTTL); err != nil {
		return fail("release", lease.Key, err)
	}
	s := l.store
	s.mu.Lock()
	defer s.mu.Unlock()
	if g, ok := s.current(lease.Key); !ok || !g.is(lease) {
		return fail("release", lease.Key, locker.ErrNotHeld)
	}
	s.end(lease.Key)
	return nil
}

func (l *Locker) FenceToken(ctx context.Context, lease locker.Lease) (locker.Token, error) {
	if err := usable(ctx, lease.Key, locker.MinTTL); err != nil {
		return 0, fail("fence", lease.Key, err)
	}
	s := l.store
	s.mu.Lock()
	defer s.mu.Unlock()
	if g, ok := s.current(lease.Key); !ok || !g.is(lease) {
		return 0, fail("fence", lease.Key, locker.ErrNotHeld)
	}
	return lease.Token, nil
}

func (l *Locker) Inspect(ctx context.Context, key string) (locker.Holding, error) {
	if err := usable(ctx, key, locker.MinTTL); err != nil {
		return locker.Holding{}, fail("inspect", key, err)
	}
	s := l.store
	s.mu.Lock()
	defer s.mu.Unlock()
	g, ok := s.current(key)
	if !ok {
		return locker.Holding{}, fail("inspect", key, locker.ErrNotHeld)
	}
	return g.holding(key), nil
}

func (l *Locker) Holdings(ctx context.Context, prefix string) iter.Seq2[locker.Holding, error] {
	return func(yield func(locker.Holding, error) bool) {
		if ctx.Err() != nil {
			yield(locker.Holding{}, fail("list", prefix, fmt.Errorf("%w: %w", locker.ErrUnavailable, locker.Ended(ctx))))
			return
		}
		s := l.store
		s.mu.Lock()
		var all []locker.Holding
		for key := range s.grants {
			if g, ok := s.current(key); ok && strings.HasPrefix(key, prefix) {
				all = append(all, g.holding(key))
			}
		}
		s.mu.Unlock()
		slices.SortFunc(all, func(a, b locker.Holding) int { return strings.Compare(a.Key, b.Key) })
		for _, h := range all {
			if !yield(h, nil) {
				return
			}
		}
	}
}

func (l *Locker) Break(ctx context.Context, h locker.Holding) error {
	if err := usable(ctx, h.Key, locker.MinTTL); err != nil {
		return fail("break", h.Key, err)
	}
	s := l.store
	s.mu.Lock()
	defer s.mu.Unlock()
	if g, ok := s.current(h.Key); !ok || g.token != h.Token || locker.ShowHolder(g.holder) != h.Holder {
		return fail("break", h.Key, locker.ErrNotHeld)
	}
	s.end(h.Key)
	return nil
}

// Raise lifts the floor of all keys, since the store has one counter.
func (l *Locker) Raise(ctx context.Context, key string, floor locker.Token) error {
	if err := usable(ctx, key, locker.MinTTL); err != nil {
		return fail("raise", key, err)
	}
	s := l.store
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := locker.ValidateFloor(floor, s.last, time.Now()); err != nil {
		return fail("raise", key, err)
	}
	s.last = max(s.last, floor)
	return nil
}

func (l *Locker) HighWater(ctx context.Context) (locker.Token, error) {
	if ctx.Err() != nil {
		return 0, fail("high-water", "", fmt.Errorf("%w: %w", locker.ErrUnavailable, locker.Ended(ctx)))
	}
	s := l.store
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last, nil
}
