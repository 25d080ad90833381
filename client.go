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

// Options configure a [Client]. The zero value, and nil, are good.
type Options struct {
	// TTL is for how long the backend keeps a lock whose holder no longer
	// renews it: the longest that others wait after a crash. Renewal happens at
	// a third of it. Default 30 s.
	TTL time.Duration

	// Wait bounds how long Lock and Do wait for a lock that is held. Default: as
	// long as their context.
	Wait time.Duration

	// ReleaseTimeout bounds the request that gives a lock back. Default 5 s.
	ReleaseTimeout time.Duration

	// Logger is told of what OnEvent is. Default: nobody.
	Logger *slog.Logger

	// OnEvent is called, from any goroutine, when something worth counting or
	// alerting on happens. It must return quickly, and must neither
	// panic nor call Close.
	OnEvent func(Event)

	// CloseLocker makes Close also close the Locker, if that has a Close method.
	CloseLocker bool
}

// Client is what programs use: on any [Locker] it adds waiting, renewal and the
// detection of loss. The goroutines of one Client queue for a key among
// themselves, first come first served. Its methods may be called concurrently.
type Client struct {
	locker   Locker
	opts     Options
	queues   queues
	renewals renewals

	closing context.Context // ends when Close is called
	close   context.CancelCauseFunc

	mu     sync.Mutex
	closed bool
	calls  sync.WaitGroup // of Lock and TryLock
	holds  map[*Hold]struct{}
}

var errClosed = fmt.Errorf("%w: the client is closed", ErrUnavailable)

// New returns a Client on l. Close it to release what is still held.
func New(l Locker, opts *Options) *Client {
	c := &Client{locker: l, holds: make(map[*Hold]struct{})}
	if opts != nil {
		c.opts = *opts
	}
	if c.opts.TTL == 0 {
		c.opts.TTL = 30 * time.Second
	}
	if c.opts.ReleaseTimeout <= 0 {
		c.opts.ReleaseTimeout = 5 * time.Second
	}
	if c.opts.Logger == nil {
		c.opts.Logger = slog.New(slog.DiscardHandler)
	}
	c.closing, c.close = context.WithCancelCause(context.Background())
	c.renewals.init()
	return c
}

// Locker returns the backend. Calls on it do not pass through the Client's queue.
func (c *Client) Locker() Locker { return c.locker }

// Do calls fn while it holds the lock of key, for which it waits. fn's context is
// derived from ctx and ends, with cause ErrNotHeld, when the lock is lost: fn
// should then stop, and the resource that it writes to should check lease.Token,
// since fn may be too late to notice.
//
// Do returns fn's error. If the lock was lost before fn returned it is also
// ErrNotHeld, even where fn itself returned nil. A panic of fn releases the lock
// and goes on. That the lock could not be given back is no error, since the work
// was done while it was held: it is reported as an event, and the TTL frees the
// lock.
func (c *Client) Do(ctx context.Context, key string, fn func(ctx context.Context, lease Lease) error) error {
	h, err := c.Lock(ctx, key)
	if err != nil {
		return err
	}
	return h.do(fn)
}

// TryDo is Do without waiting: if the lock is held it returns ErrHeld at once.
func (c *Client) TryDo(ctx context.Context, key string, fn func(ctx context.Context, lease Lease) error) error {
	h, err := c.TryLock(ctx, key)
	if err != nil {
		return err
	}
	return h.do(fn)
}

// Lock waits for the lock of key and returns the hold of it, which is renewed
// until it is unlocked, or until ctx ends: then renewal stops, and unless it is
// unlocked before, the hold is lost at its deadline. So ctx must live as long as
// the hold; bound the waiting by Options.Wait instead.
func (c *Client) Lock(ctx context.Context, key string) (*Hold, error) { return c.lock(ctx, key, true) }

// TryLock is Lock without waiting: if the lock is held it returns ErrHeld at once.
func (c *Client) TryLock(ctx context.Context, key string) (*Hold, error) {
	return c.lock(ctx, key, false)
}

func (c *Client) lock(ctx context.Context, key string, wait bool) (*Hold, error) {
	fail := func(err error) (*Hold, error) { return nil, &OpError{Op: "acquire", Key: key, Err: err} }
	if err := errors.Join(ValidateKey(key), ValidateTTL(c.opts.TTL)); err != nil {
		return fail(err)
	}
	if !c.begin() {
		return fail(errClosed)
	}
	defer c.calls.Done()

	attempt, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stop := context.AfterFunc(c.closing, func() { cancel(errClosed) })
	defer stop()
	if wait && c.opts.Wait > 0 {
		var end context.CancelFunc
		attempt, end = context.WithTimeout(attempt, c.opts.Wait)
		defer end()
	}

	if err := c.takeTurn(attempt, key, wait); err != nil {
		return fail(err)
	}
	lease, err := c.acquire(attempt, key, wait)
	if err != nil {
		return nil, err
	}
	h := newHold(ctx, c, lease)
	c.queues.holds(key, h)
	c.mu.Lock()
	c.holds[h] = struct{}{}
	c.mu.Unlock()
	h.report(EventGranted, nil)
	c.renewals.add(h)
	return h, nil
}

// takeTurn waits until nobody else in the process is at key, or fails at once.
func (c *Client) takeTurn(ctx context.Context, key string, wait bool) error {
	if !wait {
		if !c.queues.tryEnter(key) {
			return c.queues.held(key)
		}
		return nil
	}
	if err := c.queues.enter(ctx, key); err != nil {
		return fmt.Errorf("%w; gave up waiting: %w", c.queues.held(key), err)
	}
	return nil
}

// acquire takes the lock in the caller's turn, which it ends if it returns no
// lease, also when the backend panics.
func (c *Client) acquire(ctx context.Context, key string, wait bool) (lease Lease, err error) {
	granted := false
	defer func() {
		if !granted {
			c.queues.leave(key)
		}
	}()
	if wait {
		lease, err = AcquireWait(ctx, c.locker, key, c.opts.TTL)
	} else {
		lease, err = c.locker.Acquire(ctx, key, c.opts.TTL)
	}
	if err == nil && lease.Remaining() == 0 {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.opts.ReleaseTimeout)
		defer cancel()
		late := fmt.Errorf("%w: the lease had ended when the answer came: use a longer TTL", ErrUnavailable)
		err = &OpError{Op: "acquire", Key: key, Err: errors.Join(late, c.locker.Release(ctx, lease))}
	}
	granted = err == nil
	return lease, err
}

// begin counts a call that Close waits for; false if the client is closed.
func (c *Client) begin() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return false
	}
	c.calls.Add(1)
	return true
}

// Close ends all waiting, releases what is still held, and waits until nothing of
// the client runs any more. Holds that it releases end as if they had been lost.
// It takes at most as long as the backend's requests and ReleaseTimeout let it.
func (c *Client) Close() error {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return nil
	}
	c.closed = true
	c.mu.Unlock()
	c.close(errClosed)
	c.calls.Wait()

	c.mu.Lock()
	holds := make([]*Hold, 0, len(c.holds))
	for h := range c.holds {
		holds = append(holds, h)
	}
	c.mu.Unlock()
	errs := make([]error, len(holds)+1)
	slots := make(chan struct{}, maxRequests)
	var wg sync.WaitGroup
	deadline := time.Now().Add(c.opts.ReleaseTimeout)
	for i, h := range holds {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			errs[i] = h.abandon(errClosed, deadline)
		})
	}
	wg.Wait()
	c.renewals.stop()
	if closer, ok := c.locker.(io.Closer); ok && c.opts.CloseLocker {
		errs[len(holds)] = closer.Close()
	}
	return errors.Join(errs...)
}

func (c *Client) forget(h *Hold) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.holds, h)
}

// report tells the event hook and the logger. Nothing that they could wait for may
// wait for it.
func (c *Client) report(ctx context.Context, kind EventKind, lease Lease, err error) {
	if c.opts.OnEvent != nil {
		c.opts.OnEvent(Event{Kind: kind, Holding: lease.Holding(), Err: err})
	}
	level := slog.LevelDebug
	if err != nil {
		level = slog.LevelWarn
	}
	if !c.opts.Logger.Enabled(ctx, level) {
		return
	}
	attrs := []any{"lease", lease}
	if err != nil {
		attrs = append(attrs, "err", err)
	}
	c.opts.Logger.Log(ctx, level, "lock "+string(kind), attrs...)
}
