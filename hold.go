package locker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// Hold is a lock that this process holds. It is renewed in the background until
// it is unlocked, until the context that it was locked with ends, or until it is
// lost: because the backend says so, or because its deadline passed without a
// renewal that succeeded.
type Hold struct {
	client *Client
	ctx    context.Context
	cancel context.CancelCauseFunc
	lost   chan struct{}

	request sync.Mutex // held during Renew and Release: one request at a time

	mu       sync.Mutex
	lease    Lease
	state    holdState
	why      error // of the loss
	renewErr error // of the last renewal, if that failed

	timing timing // belongs to renewals
}

type holdState int

const (
	holding holdState = iota
	holdLost
	holdUnlocked
)

var errUnlocked = errors.New("the lock was unlocked")

func newHold(ctx context.Context, c *Client, lease Lease) *Hold {
	h := &Hold{client: c, lease: lease, lost: make(chan struct{})}
	h.ctx, h.cancel = context.WithCancelCause(ctx)
	return h
}

// Context returns a context, derived from the one that the hold was locked with,
// that ends when the hold does. If the lock was lost its cause is ErrNotHeld.
func (h *Hold) Context() context.Context { return h.ctx }

// Lost returns a channel that is closed when the lock is lost. Unlocking does not
// close it.
func (h *Hold) Lost() <-chan struct{} { return h.lost }

// Lease returns the lease as it was last renewed.
func (h *Hold) Lease() Lease {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.lease
}

// Unlock gives the lock back. It returns ErrNotHeld if the lock had been lost or
// unlocked before, and ErrUnavailable if the backend did not answer within
// Options.ReleaseTimeout; then the TTL frees the lock.
func (h *Hold) Unlock() error { return h.unlock(time.Now().Add(h.client.opts.ReleaseTimeout)) }

func (h *Hold) unlock(deadline time.Time) error {
	h.mu.Lock()
	was, lease := h.state, h.lease
	h.mu.Unlock()
	if was == holding && lease.Remaining() == 0 {
		h.lose(h.overdue()) // its scheduler would have said so in a moment
	}
	h.mu.Lock()
	was, h.state = h.state, holdUnlocked
	why := h.why
	h.mu.Unlock()
	if was == holdUnlocked {
		return &OpError{Op: "release", Key: lease.Key, Err: fmt.Errorf("%w: unlocked before", ErrNotHeld)}
	}
	h.client.renewals.remove(h)
	h.cancel(errUnlocked)
	err := h.release(deadline)
	if was == holdLost {
		return why
	}
	h.client.queues.leave(lease.Key)
	h.client.forget(h)
	return err
}

// release sends the release after the renewal in flight, if there is one. It is
// sent for a lost lock as well: a renewal whose reply was lost may have kept it.
func (h *Hold) release(deadline time.Time) error {
	ctx, cancel := context.WithDeadline(context.WithoutCancel(h.ctx), deadline)
	defer cancel()
	h.request.Lock()
	defer h.request.Unlock()
	lease := h.Lease()
	err := h.client.locker.Release(ctx, lease)
	if err == nil {
		h.client.report(EventReleased, lease, nil)
	} else if !errors.Is(err, ErrNotHeld) {
		h.client.report(EventReleaseFailed, lease, err)
	}
	return err
}

// abandon unlocks a hold whose owner did not, and tells the owner that it is lost.
func (h *Hold) abandon(why error, deadline time.Time) error {
	if !h.lose(fmt.Errorf("%w: %w", ErrNotHeld, why)) {
		return nil // lost or unlocked by its owner, who releases it
	}
	if err := h.release(deadline); !errors.Is(err, ErrNotHeld) {
		return err
	}
	return nil
}

// lose ends the hold as lost, once; false if it had ended before.
func (h *Hold) lose(why error) bool {
	h.mu.Lock()
	if h.state != holding {
		h.mu.Unlock()
		return false
	}
	h.state = holdLost
	h.why = &OpError{Op: "renew", Key: h.lease.Key, Err: why}
	lease := h.lease
	h.mu.Unlock()
	h.client.renewals.remove(h)
	close(h.lost)
	h.cancel(h.why)
	h.client.queues.leave(lease.Key)
	h.client.forget(h)
	h.client.report(EventLost, lease, h.why)
	return true
}

// overdue returns the reason of a loss by the deadline.
func (h *Hold) overdue() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.renewErr != nil {
		return fmt.Errorf("%w: its deadline passed; the last renewal failed: %w", ErrNotHeld, h.renewErr)
	}
	if err := context.Cause(h.ctx); err != nil {
		return fmt.Errorf("%w: its deadline passed; it was not renewed since its context ended: %w", ErrNotHeld, err)
	}
	return fmt.Errorf("%w: its deadline passed before it was renewed", ErrNotHeld)
}

// renew asks the backend once for another TTL.
func (h *Hold) renew() {
	h.request.Lock()
	defer h.request.Unlock()
	h.mu.Lock()
	lease, state := h.lease, h.state
	h.mu.Unlock()
	left := lease.Remaining()
	if state != holding || h.ctx.Err() != nil || left == 0 {
		return
	}
	// One stalled request must leave time for another.
	ctx, cancel := context.WithTimeout(h.ctx, max(left/2, min(left, 50*time.Millisecond)))
	renewed, err := h.client.locker.Renew(ctx, lease, h.client.opts.TTL)
	cancel()
	if h.ctx.Err() != nil && err != nil {
		return // unlocked, lost, or no longer wanted
	}
	if errors.Is(err, ErrNotHeld) {
		h.lose(err)
		return
	}
	h.mu.Lock()
	h.renewErr = err
	if err == nil {
		h.lease = renewed // also if it is lost by now, for its release
	}
	h.mu.Unlock()
	if err != nil {
		h.client.report(EventRenewFailed, lease, err)
	}
}

// do runs fn and unlocks, also when fn panics.
func (h *Hold) do(fn func(context.Context, Lease) error) (err error) {
	defer func() {
		if unlockErr := h.Unlock(); errors.Is(unlockErr, ErrNotHeld) && !errors.Is(err, ErrNotHeld) {
			err = errors.Join(err, unlockErr)
		}
	}()
	return fn(h.ctx, h.Lease())
}
