package locker

import (
	"container/list"
	"context"
	"sync"
)

// queues lines up the callers of one process, first come first served, so that a
// process sends one attempt per key to the backend however many goroutines want
// the lock.
type queues struct {
	mu    sync.Mutex
	lines map[string]*line
}

type line struct {
	hold    *Hold     // what the one whose turn it is holds; nil while it still tries
	waiting list.List // of chan struct{}, closed when its owner's turn has come
}

// enter waits for its turn at key. Whoever returns without an error must call leave.
func (q *queues) enter(ctx context.Context, key string) error {
	q.mu.Lock()
	l := q.lines[key]
	if l == nil {
		q.begin(key)
		q.mu.Unlock()
		return nil
	}
	turn := make(chan struct{})
	place := l.waiting.PushBack(turn)
	q.mu.Unlock()

	select {
	case <-turn:
	case <-ctx.Done():
	}
	if ctx.Err() == nil {
		return nil
	}
	q.mu.Lock()
	select {
	case <-turn: // it has come all the same
		q.mu.Unlock()
		q.leave(key)
	default:
		l.waiting.Remove(place)
		q.mu.Unlock()
	}
	return Ended(ctx)
}

// tryEnter enters if nobody else is at key.
func (q *queues) tryEnter(key string) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.lines[key] != nil {
		return false
	}
	q.begin(key)
	return true
}

func (q *queues) begin(key string) {
	if q.lines == nil {
		q.lines = make(map[string]*line)
	}
	q.lines[key] = new(line)
}

// holds records what the one whose turn it is holds.
func (q *queues) holds(key string, h *Hold) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.lines[key].hold = h
}

// held describes, for those behind it, the one whose turn it is.
func (q *queues) held(key string) *HeldError {
	q.mu.Lock()
	var hold *Hold
	if l := q.lines[key]; l != nil {
		hold = l.hold
	}
	q.mu.Unlock()
	if hold == nil {
		return &HeldError{Holding{Key: key}} // somebody here waits for it already
	}
	return &HeldError{hold.Lease().Holding()}
}

// leave ends the caller's turn.
func (q *queues) leave(key string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	l := q.lines[key]
	l.hold = nil
	first := l.waiting.Front()
	if first == nil {
		delete(q.lines, key)
		return
	}
	close(l.waiting.Remove(first).(chan struct{}))
}
