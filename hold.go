package locker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
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

	// request is taken during Renew and Release: one request at a time, so that
	// no renewal is under way when the release is sent, and none follows it.
	request    chan struct{}
	released   bool // guarded by request, as is releaseErr
	releaseErr error

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
	h := &Hold{client: c, lease: lease, lost: make(chan struct{}), request: make(chan struct{}, 1)}
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

// String returns what others may see of the hold's lease.
func (h *Hold) String() string { return h.Lease().String() }

// Format writes String whatever the verb, so that none shows the secret part of
// the lease.
func (h *Hold) Format(s fmt.State, _ rune) { _, _ = io.WriteString(s, h.String()) }

// LogValue returns what others may see of the hold's lease.
func (h *Hold) LogValue() slog.Value { return h.Lease().LogValue() }

// Unlock gives the lock back. It returns ErrNotHeld if the lock had been lost or
// unlocked before, and ErrUnavailable if the backend did not answer within
// Options.ReleaseTimeout; then the TTL frees the lock.
func (h *Hold) Unlock() error {
	deadline := time.Now().Add(h.client.opts.ReleaseTimeout)
	if h.Lease().Remaining() == 0 && h.lose(h.overdue()) {
		h.reportLoss() // the scheduler would have done so in a moment
	}
	h.mu.Lock()
	was, why, key := h.state, h.why, h.lease.Key
	h.state = holdUnlocked
	h.mu.Unlock()
	switch was {
	case holdUnlocked:
		return &OpError{Op: "release", Key: key, Err: fmt.Errorf("%w: unlocked before", ErrNotHeld)}
	case holdLost:
		// A renewal whose reply was lost may have kept it.
		_ = h.release(deadline) // the caller learns of the loss, which says more
		return why
	}
	h.client.renewals.remove(h)
	h.cancel(errUnlocked)
	err := h.giveBack(deadline)
	switch {
	case err == nil:
		h.report(EventReleased, nil)
	case errors.Is(err, ErrNotHeld):
		h.report(EventLost, err)
	default:
		h.report(EventReleaseFailed, err)
	}
	return err
}

// giveBack releases, and then lets the next in the process have its turn.
func (h *Hold) giveBack(deadline time.Time) error {
	defer h.retire()
	return h.release(deadline)
}

// release sends the release, once, after the renewal in flight, if there is one.
func (h *Hold) release(deadline time.Time) error {
	ctx, cancel := context.WithDeadline(context.WithoutCancel(h.ctx), deadline)
	defer cancel()
	select {
	case h.request <- struct{}{}:
		defer func() { <-h.request }()
	case <-ctx.Done():
		err := fmt.Errorf("%w: a renewal that was cancelled has not ended: %w", ErrUnavailable, ctx.Err())
		return &OpError{Op: "release", Key: h.Lease().Key, Err: err}
	}
	if !h.released {
		h.releaseErr = h.client.locker.Release(ctx, h.Lease())
		h.released = true
	}
	return h.releaseErr
}

// abandon releases a hold whose owner did not unlock it, or is just about to, and
// tells the owner that it is lost.
func (h *Hold) abandon(why error, deadline time.Time) error {
	lost := h.lose(fmt.Errorf("%w: %w", ErrNotHeld, why))
	err := h.release(deadline)
	if lost {
		h.reportLoss()
	}
	if errors.Is(err, ErrNotHeld) {
		return nil
	}
	return err
}

// lose ends the hold as lost; false if it had ended before. Whoever was told true
// calls reportLoss, as soon as nothing waits for it.
func (h *Hold) lose(why error) bool {
	h.mu.Lock()
	if h.state != holding {
		h.mu.Unlock()
		return false
	}
	h.state = holdLost
	h.why = &OpError{Op: "renew", Key: h.lease.Key, Err: why}
	h.mu.Unlock()
	h.client.renewals.remove(h)
	h.cancel(h.why) // first, so that whoever is told by Lost finds the cause
	close(h.lost)
	h.retire()
	return true
}

// retire ends the turn at the key, and what the client keeps of the hold.
func (h *Hold) retire() {
	h.client.queues.leave(h.Lease().Key)
	h.client.forget(h)
}

func (h *Hold) reportLoss() { h.report(EventLost, h.why) }

func (h *Hold) report(kind EventKind, err error) { h.client.report(h.ctx, kind, h.Lease(), err) }

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

// renew asks the backend once for another TTL. It reports whether it got it.
func (h *Hold) renew() bool {
	renewed, err := h.requestRenewal()
	switch {
	case errors.Is(err, ErrNotHeld):
		if h.lose(err) {
			h.reportLoss()
		}
		return false
	case err != nil && h.ctx.Err() != nil:
		return false // unlocked, lost, or no longer wanted
	case err != nil:
		h.report(EventRenewFailed, err)
	}
	return renewed
}

// requestRenewal sends one renewal, unless the hold has ended.
func (h *Hold) requestRenewal() (renewed bool, err error) {
	h.request <- struct{}{}
	defer func() { <-h.request }()
	h.mu.Lock()
	lease, state := h.lease, h.state
	h.mu.Unlock()
	left := lease.Remaining()
	if state != holding || h.ctx.Err() != nil || left == 0 {
		return false, nil
	}
	// One stalled request must leave time for another.
	ctx, cancel := context.WithTimeout(h.ctx, max(left/2, min(left, 50*time.Millisecond)))
	defer cancel()
	next, err := h.client.locker.Renew(ctx, lease, h.client.opts.TTL)
	h.mu.Lock()
	defer h.mu.Unlock()
	if err == nil {
		h.lease = next // also if it is lost by now, for its release
	}
	if err == nil || h.ctx.Err() == nil {
		h.renewErr = err
	}
	return err == nil, err
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
