package conformance

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/locker-go/locker"
)

// bound is how long a call may take while the store does not answer.
const bound = 45 * time.Second

// disturb checks that a fault began, and returns what ends it.
func (e *Env) disturb(heal func() error, err error) func() {
	if err != nil {
		fail("a fault", "%s", show(err))
	}
	done := false
	once := func() error {
		if done {
			return nil
		}
		done = true
		return heal()
	}
	e.atEnd(once)
	return func() {
		if err := once(); err != nil {
			fail("an end of the fault", "%s", show(err))
		}
	}
}

func (e *Env) cut(ctx context.Context) (func() error, error) {
	if e.backend.Faults.Cut == nil {
		skip("no fault Cut offered")
	}
	return e.backend.Faults.Cut(ctx)
}

func (e *Env) delay(ctx context.Context, d time.Duration) (func() error, error) {
	if e.backend.Faults.Delay == nil {
		skip("no fault Delay offered")
	}
	return e.backend.Faults.Delay(ctx, d)
}

func (e *Env) loseReply(ctx context.Context) {
	if e.backend.Faults.LoseReply == nil {
		skip("no fault LoseReply offered")
	}
	if err := e.backend.Faults.LoseReply(ctx); err != nil {
		fail("a reply to be lost", "LoseReply: %s", show(err))
	}
}

// unavailable checks what a call says while the store is cut off.
func (e *Env) unavailable(call func() error) {
	began := locker.Now()
	err := call()
	if took := began.Elapsed(); took > bound {
		fail(fmt.Sprintf("an answer within %s", bound), "%s after %s", show(err), took)
	}
	e.refuse("a call while the store is cut off", err, locker.ErrUnavailable)
	e.refuseNot("a call while the store is cut off", err, locker.ErrNotHeld)
	e.refuseNot("a call while the store is cut off", err, locker.ErrHeld)
}

// eventually repeats a call while the store comes back.
func (e *Env) eventually(ctx context.Context, call func() error) {
	for began := locker.Now(); ; {
		err := call()
		if err == nil {
			return
		}
		if !errors.Is(err, locker.ErrUnavailable) || began.Elapsed() > bound {
			fail("no error once the store is back", "%s", show(err))
		}
		pause(ctx, 20*time.Millisecond, "the store to come back")
	}
}

// soonFree checks that a key can be acquired in a moment.
func (e *Env) soonFree(ctx context.Context, l locker.Locker, key string) {
	for began := locker.Now(); ; {
		lease, err := l.Acquire(ctx, key, e.long)
		if err == nil {
			e.remember(l, lease)
			e.release(ctx, l, lease)
			return
		}
		if began.Elapsed() > patience {
			fail("the key free", "Acquire: %s", show(err))
		}
		pause(ctx, 20*time.Millisecond, "the key to be free")
	}
}

// risesThrough checks that a key's tokens rise through a restart.
func (e *Env) risesThrough(ctx context.Context, name string, fault func(context.Context) error) {
	if fault == nil {
		skip("no fault " + name + " offered")
	}
	a, b := e.open(ctx), e.open(ctx)
	last := e.acquire(ctx, a, e.key(), e.short)
	for _, l := range []locker.Locker{a, b, e.open(ctx)} {
		if err := fault(ctx); err != nil {
			fail("the store, restarted", name+": %s", show(err))
		}
		var lease locker.Lease
		began := locker.Now()
		e.eventually(ctx, func() (err error) {
			lease, err = l.Acquire(ctx, last.Key, e.short)
			if errors.Is(err, locker.ErrHeld) && began.Elapsed() < bound {
				return locker.ErrUnavailable // the lease before outlived the restart
			}
			return err
		})
		e.remember(l, lease)
		e.rises(last, lease)
		last = lease
	}
}

// requests returns how many requests have reached the store.
func (e *Env) requests(ctx context.Context) int64 {
	if e.backend.Faults.Requests == nil {
		skip("no fault Requests offered")
	}
	n, err := e.backend.Faults.Requests(ctx)
	if err != nil {
		fail("a count of requests", "Requests: %s", show(err))
	}
	return n
}
