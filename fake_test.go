package locker_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/locker-go/locker"
	"github.com/locker-go/locker/memory"
)

const key = "invoice:42"

var errDown = &locker.OpError{Op: "renew", Backend: "fake", Key: key, Err: locker.ErrUnavailable}

// fake is a Locker that passes calls on to another one, except those for which a
// test gives it a function. It records what it was asked, and when.
type fake struct {
	locker.Locker
	acquire func(ctx context.Context, key string, ttl time.Duration) (locker.Lease, error)
	renew   func(ctx context.Context, lease locker.Lease, ttl time.Duration) (locker.Lease, error)
	release func(ctx context.Context, lease locker.Lease) error

	mu    sync.Mutex
	calls []call
}

type call struct {
	op string
	at time.Time
}

func newFake() *fake { return &fake{Locker: memory.New(nil)} }

func (f *fake) record(op string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls = append(f.calls, call{op, time.Now()})
}

// times returns when op was called.
func (f *fake) times(op string) []time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	var all []time.Time
	for _, c := range f.calls {
		if c.op == op {
			all = append(all, c.at)
		}
	}
	return all
}

func (f *fake) count(op string) int { return len(f.times(op)) }

func (f *fake) Acquire(ctx context.Context, key string, ttl time.Duration) (locker.Lease, error) {
	f.record("acquire")
	if f.acquire != nil {
		return f.acquire(ctx, key, ttl)
	}
	return f.Locker.Acquire(ctx, key, ttl)
}

func (f *fake) Renew(ctx context.Context, lease locker.Lease, ttl time.Duration) (locker.Lease, error) {
	f.record("renew")
	if f.renew != nil {
		return f.renew(ctx, lease, ttl)
	}
	return f.Locker.Renew(ctx, lease, ttl)
}

func (f *fake) Release(ctx context.Context, lease locker.Lease) error {
	f.record("release")
	if f.release != nil {
		return f.release(ctx, lease)
	}
	return f.Locker.Release(ctx, lease)
}

// stall answers as a silent server does: not before ctx ends.
func stall(ctx context.Context) error {
	<-ctx.Done()
	return errors.Join(errDown, ctx.Err())
}

// newClient returns a Client that is closed at the end of the test.
func newClient(t *testing.T, l locker.Locker, opts *locker.Options) *locker.Client {
	t.Helper()
	c := locker.New(l, opts)
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return c
}

func mustLock(t *testing.T, c *locker.Client, key string) *locker.Hold {
	t.Helper()
	h, err := c.Lock(t.Context(), key)
	if err != nil {
		t.Fatalf("Lock: %v", err)
	}
	return h
}

func mustUnlock(t *testing.T, h *locker.Hold) {
	t.Helper()
	if err := h.Unlock(); err != nil {
		t.Errorf("Unlock: %v", err)
	}
}

// wantErr fails the test unless err is all of targets.
func wantErr(t *testing.T, err error, targets ...error) {
	t.Helper()
	for _, target := range targets {
		if !errors.Is(err, target) {
			t.Errorf("got error %v, want one that is %v", err, target)
		}
	}
}

func isLost(h *locker.Hold) bool {
	select {
	case <-h.Lost():
		return true
	default:
		return false
	}
}

// isFree says whether nobody holds key in the backend.
func isFree(t *testing.T, l locker.Locker, key string) bool {
	t.Helper()
	lease, err := l.Acquire(t.Context(), key, time.Minute)
	if errors.Is(err, locker.ErrHeld) {
		return false
	}
	if err == nil {
		err = l.Release(t.Context(), lease)
	}
	if err != nil {
		t.Fatal(err)
	}
	return true
}

// events records what an event hook is told.
type events struct {
	mu  sync.Mutex
	all []locker.Event
}

func (e *events) hook(ev locker.Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.all = append(e.all, ev)
}

func (e *events) kinds() []locker.EventKind {
	e.mu.Lock()
	defer e.mu.Unlock()
	var kinds []locker.EventKind
	for _, ev := range e.all {
		kinds = append(kinds, ev.Kind)
	}
	return kinds
}

func (e *events) want(t *testing.T, want ...locker.EventKind) {
	t.Helper()
	if got := e.kinds(); !slices.Equal(got, want) {
		t.Errorf("got events %q, want %q", got, want)
	}
}
