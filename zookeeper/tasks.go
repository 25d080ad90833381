package zookeeper

import (
	"context"
	"sync"
)

// tasks are what runs for a Locker: calls of its methods, and goroutines of its own.
type tasks struct {
	closing context.Context // ends when Close is called
	close   context.CancelFunc
	ending  context.Context // ends when Close has done all that it could
	stop    context.CancelFunc

	mu         sync.Mutex
	closed     bool // for calls
	stopped    bool // for goroutines
	calls      sync.WaitGroup
	goroutines sync.WaitGroup
}

func (t *tasks) init() {
	t.closing, t.close = context.WithCancel(context.Background())
	t.ending, t.stop = context.WithCancel(context.Background())
}

// begin counts a call, which ends with calls.Done; false if the Locker is closed.
func (t *tasks) begin() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return false
	}
	t.calls.Add(1)
	return true
}

// start runs fn in the background, unless all has ended.
func (t *tasks) start(fn func()) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.stopped {
		return false
	}
	t.goroutines.Go(fn)
	return true
}

// endCalls ends all calls and waits for them; false if that was done before. A call takes
// at most as long as its request, and what undoes it.
func (t *tasks) endCalls() bool {
	t.mu.Lock()
	was := t.closed
	t.closed = true
	t.mu.Unlock()
	if was {
		return false
	}
	t.close()
	t.calls.Wait()
	return true
}

// endGoroutines waits until all goroutines have ended by themselves, or ctx has, and
// stops those that are left.
func (t *tasks) endGoroutines(ctx context.Context) {
	t.mu.Lock()
	t.stopped = true
	t.mu.Unlock()
	stop := context.AfterFunc(ctx, t.stop)
	t.goroutines.Wait()
	stop()
	t.stop()
}
