package locker

import (
	"container/heap"
	"math/rand/v2"
	"sync"
	"time"
)

const (
	// maxRequests bounds how many renewals, and how many releases of Close, a
	// client has in flight.
	maxRequests = 8

	// maxLateRequests bounds the renewals in flight when others have to wait
	// for too long: a part of the backend that stalls must not take down the
	// holds on a part that answers.
	maxLateRequests = 256

	// maxSleep is how long a wait for a deadline lasts at most before it looks
	// at the clock: timers stand still in a suspend.
	maxSleep = time.Second
)

// renewals renews all holds of a client and ends those whose deadline passes. It
// is one goroutine with a heap of the moments at which something is due, and a few
// more while renewals are in flight. While nothing is held it has none.
type renewals struct {
	start Instant // moments are durations since then
	done  chan struct{}
	wake  chan struct{}
	wg    sync.WaitGroup

	mu      sync.Mutex
	stopped bool
	running bool
	next    time.Duration // when the scheduler looks again by itself
	heap    schedule
	ready   []*Hold // due for renewal, and waiting for a worker
	workers int
}

func (r *renewals) init() {
	r.start = Now()
	r.done = make(chan struct{})
	r.wake = make(chan struct{}, 1)
}

// add schedules a hold's first renewal.
func (r *renewals) add(h *Hold) {
	lease := h.Lease()
	left := lease.Remaining()
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.start.Elapsed()
	h.timing.deadline = now + left
	h.timing.due = now + untilRenewal(lease.TTL, left)
	heap.Push(&r.heap, h)
	if !r.running {
		r.running = true
		r.next = 0 // it is about to look
		r.wg.Go(r.run)
	}
	r.lookBy(h.timing.due)
}

// untilRenewal returns when to renew a lease that was just granted: at a third of
// its TTL, a little earlier each time so that many holds do not renew in step.
func untilRenewal(ttl, left time.Duration) time.Duration {
	third := ttl / 3
	return min(third-rand.N(third/10+1), left/2)
}

// untilRetry returns when to renew again after a failure: soon, and sooner as the
// deadline comes nearer.
func untilRetry(left time.Duration) time.Duration {
	d := min(max(left/8, 10*time.Millisecond), time.Second)
	return min(d/2+rand.N(d/2+1), left)
}

// remove takes a hold that has ended out of the schedule.
func (r *renewals) remove(h *Hold) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.heap.has(h) {
		heap.Remove(&r.heap, h.timing.index)
	}
}

// lookBy makes the scheduler look at the heap at that moment.
func (r *renewals) lookBy(moment time.Duration) {
	if moment >= r.next {
		return
	}
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// stop ends the scheduler and waits for it and for its workers. No hold must be
// left, and none be added.
func (r *renewals) stop() {
	r.mu.Lock()
	r.stopped = true
	r.mu.Unlock()
	close(r.done)
	r.wg.Wait()
}

func (r *renewals) run() {
	timer := time.NewTimer(maxSleep)
	defer timer.Stop()
	for {
		overdue, sleep := r.dispatch()
		r.lose(overdue)
		if sleep == 0 {
			return
		}
		timer.Reset(sleep)
		select {
		case <-r.done:
			return
		case <-r.wake:
		case <-timer.C:
		}
	}
}

// lose ends the holds whose deadline has passed, all before any is reported, and
// goes on while the event hook looks at them: other deadlines do not wait for it.
func (r *renewals) lose(overdue []*Hold) {
	var lost []*Hold
	for _, h := range overdue {
		if h.lose(h.overdue()) {
			lost = append(lost, h)
		}
	}
	if len(lost) == 0 {
		return
	}
	r.wg.Go(func() {
		for _, h := range lost {
			h.reportLoss()
		}
	})
}

// dispatch hands the holds that are due for renewal to workers. It returns those
// whose deadline has passed, and for how long nothing else is due; zero if
// nothing is held any more, and the scheduler ends.
func (r *renewals) dispatch() (overdue []*Hold, sleep time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.start.Elapsed()
	for len(r.heap) > 0 {
		h := r.heap[0]
		t := &h.timing
		switch {
		case t.due > now:
			sleep = min(t.due-now, maxSleep)
			r.next = now + sleep
			return overdue, sleep
		case t.deadline <= now:
			heap.Pop(&r.heap)
			overdue = append(overdue, h)
			continue
		case t.waiting: // for a worker, for too long
			t.due = t.deadline
			r.hire(maxLateRequests)
		default:
			t.waiting = true
			t.due = now + max((t.deadline-now)/4, time.Millisecond)
			r.ready = append(r.ready, h)
			r.hire(maxRequests)
		}
		heap.Fix(&r.heap, 0)
	}
	r.running = false
	return overdue, 0
}

// hire starts a worker if there are fewer than most.
func (r *renewals) hire(most int) {
	if r.workers < most {
		r.workers++
		r.wg.Go(r.work)
	}
}

// work renews until there is nothing to renew.
func (r *renewals) work() {
	for h := r.take(); h != nil; h = r.take() {
		renewed := h.renew()
		r.again(h, renewed)
	}
}

// take returns the next hold to renew, or nil when the worker is no longer needed.
func (r *renewals) take() *Hold {
	r.mu.Lock()
	defer r.mu.Unlock()
	for len(r.ready) > 0 && !r.stopped {
		h := r.ready[0]
		r.ready[0] = nil
		r.ready = r.ready[1:]
		if !r.heap.has(h) {
			continue // it ended while it waited
		}
		// The next thing to happen to it, whatever becomes of the renewal.
		h.timing.waiting = false
		h.timing.due = h.timing.deadline
		heap.Fix(&r.heap, h.timing.index)
		return h
	}
	r.workers--
	return nil
}

// again schedules what follows a renewal.
func (r *renewals) again(h *Hold, renewed bool) {
	lease := h.Lease()
	left := lease.Remaining()
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.heap.has(h) {
		return // it ended meanwhile
	}
	now := r.start.Elapsed()
	h.timing.deadline = now + left
	switch {
	case h.ctx.Err() != nil:
		h.timing.due = h.timing.deadline // no longer wanted, so no longer renewed
	case renewed:
		h.timing.due = now + untilRenewal(lease.TTL, left)
	default:
		h.timing.due = now + untilRetry(left)
	}
	heap.Fix(&r.heap, h.timing.index)
	r.lookBy(h.timing.due)
}
