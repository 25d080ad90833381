package redis

import (
	"context"
	"sync"
	"time"
)

// limiter ends requests that take too long. It looks at all that are open with one
// timer, now and then: a context with a timer for each would take as long to make as
// the server takes for three commands.
type limiter struct {
	limit time.Duration
	every time.Duration // from one look to the next

	mu      sync.Mutex
	open    map[*request]struct{}
	looking bool
}

func newLimiter(limit time.Duration) *limiter {
	return &limiter{limit: limit, every: min(limit/10, 10*time.Millisecond), open: make(map[*request]struct{})}
}

// request is the context of a request. It ends with the context of the caller, or at
// the limit; up to one look later, but sockets heed the deadline itself.
type request struct {
	context.Context // of the caller
	deadline        time.Time
	done            chan struct{}
	err             error // when done is closed
}

// begin returns the context of a request that is to be ended.
func (l *limiter) begin(ctx context.Context) *request {
	r := &request{Context: ctx, deadline: time.Now().Add(l.limit), done: make(chan struct{})}
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

func (l *limiter) end(r *request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.open, r)
}

// look ends the requests whose time is up, and comes again if others are left.
func (l *limiter) look() {
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

func (r *request) Deadline() (time.Time, bool) { return r.deadline, true }
func (r *request) Done() <-chan struct{}       { return r.done }

func (r *request) Err() error {
	select {
	case <-r.done:
		return r.err
	default:
		return nil
	}
}
