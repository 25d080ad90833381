package locker

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/cenkalti/backoff/v5"
)

const (
	// safetyPoll is how often a waiter looks although nothing woke it.
	safetyPoll = 5 * time.Second

	// outagePatience is for how long a waiter that knows the lock to be held
	// goes on although the backend does not answer.
	outagePatience = 30 * time.Second
)

// AcquireWait waits until it has the lock of key or ctx ends, by the backend's own
// way ([Waiter]) where it has one, else by asking again after jittered delays. If
// ctx ends the error is both ErrHeld, with what is known of the holder, and the
// context's. See [Wait] for outages.
func AcquireWait(ctx context.Context, l Locker, key string, ttl time.Duration) (Lease, error) {
	if w, ok := As[Waiter](l); ok {
		return w.AcquireWait(ctx, key, ttl)
	}
	return Wait(ctx, nil, func(ctx context.Context) (Lease, error) { return l.Acquire(ctx, key, ttl) })
}

// Wait calls attempt until it returns a lease or fails with anything but ErrHeld,
// or until ctx ends. It is for writing backends.
//
// Between two attempts it sleeps until wake delivers, or as long as the holder's
// lease has left; without a wake channel, or while a program holds the lock that
// does not use this library, it asks after jittered delays of up to 250 ms.
//
// If the first attempt finds the backend unavailable, Wait fails. Later, when the
// lock was held and others may be waiting too, it goes on for up to 30 s
// of an outage, so that a restart of the server fails nobody.
func Wait(ctx context.Context, wake <-chan struct{}, attempt func(context.Context) (Lease, error)) (Lease, error) {
	delays := &backoff.ExponentialBackOff{
		InitialInterval:     5 * time.Millisecond,
		RandomizationFactor: 0.5,
		Multiplier:          1.5,
		MaxInterval:         250 * time.Millisecond,
	}
	delays.Reset()
	var (
		held   error // the last answer that the lock is held
		outage Instant
		down   bool
	)
	for {
		lease, err := attempt(ctx)
		pause := time.Duration(0)
		switch {
		case err == nil:
			return lease, nil
		case ctx.Err() != nil:
			return Lease{}, waitEnded(ctx, held, err)
		case errors.Is(err, ErrHeld):
			info, ok := errors.AsType[*HeldError](err)
			if !ok {
				info = new(HeldError)
			}
			held, down = err, false
			pause = untilNextAttempt(info.Holding, wake != nil, delays)
		case held != nil && errors.Is(err, ErrUnavailable):
			if !down {
				outage, down = Now(), true
			}
			if outage.Elapsed() > outagePatience {
				return Lease{}, err
			}
			pause = delays.NextBackOff()
		default:
			return Lease{}, err
		}
		timer := time.NewTimer(pause)
		select {
		case _, open := <-wake:
			if !open {
				wake = nil // nothing is left that could wake
			}
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return Lease{}, waitEnded(ctx, held, err)
		}
		timer.Stop()
	}
}

// untilNextAttempt returns for how long to sleep on a lock that is held.
func untilNextAttempt(h Holding, woken bool, delays backoff.BackOff) time.Duration {
	pause := safetyPoll
	if !woken || h.Token == 0 {
		pause = delays.NextBackOff()
	}
	if h.Remaining > 0 && h.Remaining < pause {
		// Just after the end of the lease, each waiter at a moment of its own.
		pause = h.Remaining + time.Millisecond + rand.N(10*time.Millisecond)
	}
	return pause
}

// waitEnded returns the error of a wait that ended with its context: why it ended,
// and beneath it what the last attempt found, or else what an earlier one did.
func waitEnded(ctx context.Context, held, last error) error {
	reason := Ended(ctx)
	if held == nil || errors.Is(last, ErrHeld) {
		held = last
	}
	if held == last && errors.Is(last, ctx.Err()) {
		return last
	}
	if op, ok := errors.AsType[*OpError](held); ok {
		return &OpError{op.Op, op.Backend, op.Key, fmt.Errorf("%w; gave up waiting: %w", op.Err, reason)}
	}
	return fmt.Errorf("%w; gave up waiting: %w", held, reason)
}

// Ended returns why ctx ended: its error, and its cause where that says more. Backends
// wrap it, since callers ask errors.Is for either.
func Ended(ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if errors.Is(cause, err) {
		return cause
	}
	return fmt.Errorf("%w: %w", err, cause)
}
