package locker

import (
	"container/heap"
	"context"
	"math/rand/v2"
	"sync"
	"time"
)

const (
	// maxRequests bounds how many renewals, and how many releases of Close, a
	// client has in flight.
	maxRequests = 8

	// maxSleep is how long a wait for a deadline lasts at most before it looks
	// at the clock: timers stand still in a suspend.
	maxSleep = time.Second
)

// renewals renews all holds of a client and ends those whose deadline passes. It
// is one goroutine with a heap of the moments at which something is due, and a few
// more while renewals are in flight.
type renewals struct {
	start Instant // moments are durations since then
	ctx   context.Context
	done  context.CancelFunc
	wake  chan struct{}
	wg    sync.WaitGroup

	mu      sync.Mutex
	running bool
	heap    schedule
	ready   []*Hold // due for renewal, and waiting for a worker
	workers int
}

// timing is a hold's place in the schedule.
type timing struct {
	due      time.Duration // when to look at the hold: to renew it, or at its deadline
	deadline time.Duration
	index    int // in the heap; -1 when not in it
}

func (r *renewals) init(c *Client) {
	r.start = Now()
	r.ctx, r.done = context.WithCancel(context.WithoutCancel(c.closing))
	r.wake = make(chan struct{}, 1)
}

// add schedules a hold's first renewal.
func (r *renewals) add(h *Hold) {
	left := h.Lease().Remaining()
	r.mu.Lock()
	defer r.mu.Unlock()
	if h.timing.index < 0 || r.ctx.Err() != nil {
		return // it ended before it was added
	}
	now := r.start.Elapsed()
	h.timing.deadline = now + left
	h.timing.due = now + untilRenewal(h.Lease().TTL, left)
	heap.Push(&r.heap, h)
	if !r.running {
		r.running = true
		r.wg.Go(r.run)
	}
	r.signal(h)
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
	return d/2 + rand.N(d/2+1)
}

// remove takes a hold that has ended out of the schedule.
func (r *renewals) remove(h *Hold) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if h.timing.index >= 0 && h.timing.index < len(r.heap) && r.heap[h.timing.index] == h {
		heap.Remove(&r.heap, h.timing.index)
	}
	h.timing.index = -1
}

// signal wakes the scheduler if h is what it must look at next.
func (r *renewals) signal(h *Hold) {
	if h.timing.index != 0 {
		return
	}
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// stop ends the scheduler and waits for it and for its workers.
func (r *renewals) stop() {
	r.done()
	r.wg.Wait()
}

func (r *renewals) run() {
	for {
		overdue, sleep := r.dispatch()
		for _, h := range overdue {
			h.lose(h.overdue())
		}
		timer := time.NewTimer(sleep)
		select {
		case <-r.ctx.Done():
			timer.Stop()
			return
		case <-r.wake:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// dispatch hands the holds that are due for renewal to workers. It returns those
// whose deadline has passed, and how long nothing else is due.
func (r *renewals) dispatch() (overdue []*Hold, sleep time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for len(r.heap) > 0 {
		h, now := r.heap[0], r.start.Elapsed()
		switch {
		case h.timing.due > now:
			return overdue, min(h.timing.due-now, maxSleep)
		case h.timing.deadline <= now:
			heap.Pop(&r.heap)
			overdue = append(overdue, h)
		default:
			// The next thing to happen to it, whatever becomes of the renewal.
			h.timing.due = h.timing.deadline
			heap.Fix(&r.heap, 0)
			r.ready = append(r.ready, h)
			if r.workers < maxRequests {
				r.workers++
				r.wg.Go(r.work)
			}
		}
	}
	return overdue, maxSleep
}

// work renews until there is nothing to renew.
func (r *renewals) work() {
	for {
		r.mu.Lock()
		if len(r.ready) == 0 || r.ctx.Err() != nil {
			r.workers--
			r.mu.Unlock()
			return
		}
		h := r.ready[0]
		r.ready[0] = nil
		r.ready = r.ready[1:]
		r.mu.Unlock()
		before := h.Lease()
		h.renew()
		r.again(h, before)
	}
}

// again schedules what follows a renewal.
func (r *renewals) again(h *Hold, before Lease) {
	lease := h.Lease()
	left := lease.Remaining()
	r.mu.Lock()
	defer r.mu.Unlock()
	if h.timing.index < 0 {
		return // it has ended meanwhile
	}
	now := r.start.Elapsed()
	h.timing.deadline = now + left
	switch {
	case h.ctx.Err() != nil:
		h.timing.due = h.timing.deadline // no longer wanted, so no longer renewed
	case lease == before:
		h.timing.due = now + min(untilRetry(left), left)
	default:
		h.timing.due = now + untilRenewal(lease.TTL, left)
	}
	heap.Fix(&r.heap, h.timing.index)
	r.signal(h)
}

// schedule is a heap of holds by when they are due.
type schedule []*Hold

func (s schedule) Len() int           { return len(s) }
func (s schedule) Less(i, j int) bool { return s[i].timing.due < s[j].timing.due }
func (s schedule) Swap(i, j int) {
	s[i], s[j] = s[j], s[i]
	s[i].timing.index, s[j].timing.index = i, j
}

func (s *schedule) Push(x any) {
	h := x.(*Hold)
	h.timing.index = len(*s)
	*s = append(*s, h)
}

func (s *schedule) Pop() any {
	old := *s
	h := old[len(old)-1]
	old[len(old)-1] = nil
	*s = old[:len(old)-1]
	h.timing.index = -1
	return h
}
