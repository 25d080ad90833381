package redisnode

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// Limiter ends requests that take too long. It looks at all that are open with one
// timer, now and then: a context with a timer for each would take as long to make as
// the server takes for three commands.
type Limiter struct {
	limit time.Duration
	every time.Duration // from one look to the next

	mu      sync.Mutex
	open    map[*Call]struct{}
	looking bool
}

func NewLimiter(limit time.Duration) *Limiter {
	return &Limiter{limit: limit, every: min(limit/10, 10*time.Millisecond), open: make(map[*Call]struct{})}
}

// Call is the context of a request. It ends with the context of the caller, or at
// the limit; up to one look later, but sockets heed the deadline itself.
type Call struct {
	context.Context // of the caller
	deadline        time.Time
	done            chan struct{}
	err             error // when done is closed
}

// Begin returns the context of a request that is to be ended.
func (l *Limiter) Begin(ctx context.Context) *Call {
	r := &Call{Context: ctx, deadline: time.Now().Add(l.limit), done: make(chan struct{})}
	if d, ok := ctx.Deadline(); ok && d.Before(r.deadline) {
		r.deadline = d
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open[r] = struct{}{}
	if !l.looking {
		l.looking = true
		time.AfterFunc(l.every, l.look)
	}
	return r
}

// End says that a request is over, and returns what it failed with; if it took too
// long that says so.
func (l *Limiter) End(r *Call, err error) error {
	l.mu.Lock()
	delete(l.open, r)
	l.mu.Unlock()
	if err != nil && r.Context.Err() == nil && !time.Now().Before(r.deadline) {
		return fmt.Errorf("no answer within %s: %w: %w", l.limit, context.DeadlineExceeded, err)
	}
	return err
}

// look ends the requests whose time is up, and comes again if others are left.
func (l *Limiter) look() {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	for r := range l.open {
		if r.err = r.Context.Err(); r.err == nil && !now.Before(r.deadline) {
			r.err = context.DeadlineExceeded
		}
		if r.err != nil {
			close(r.done)
			delete(l.open, r)
		}
	}
	if l.looking = len(l.open) > 0; l.looking {
		time.AfterFunc(l.every, l.look)
	}
}

func (r *Call) Deadline() (time.Time, bool) { return r.deadline, true }
func (r *Call) Done() <-chan struct{}       { return r.done }

func (r *Call) Err() error {
	select {
	case <-r.done:
		return r.err
	default:
		return nil
	}
}
