package conformance

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/locker-go/locker"
)

// Op is a call that a [History] has events of.
type Op string

const (
	OpAcquire Op = "acquire" // also AcquireWait
	OpRenew   Op = "renew"
	OpRelease Op = "release"
	OpFence   Op = "fence"
)

// Event is one call that has returned.
type Event struct {
	Op       Op           `json:"op"`
	Key      string       `json:"key"`
	Token    locker.Token `json:"token"` // as granted, or of the lease that the call was made with
	Asked    time.Time    `json:"asked"`
	Answered time.Time    `json:"answered"`
	OK       bool         `json:"ok"`                // no error
	Deadline time.Time    `json:"deadline,omitzero"` // of a lease granted or renewed
}

func (e Event) String() string {
	s := fmt.Sprintf("%s with token %d, asked at %s, answered at %s",
		e.Op, e.Token, e.Asked.Format(clock), e.Answered.Format(clock))
	if !e.Deadline.IsZero() {
		s += ", deadline " + e.Deadline.Format(clock)
	}
	return s
}

const clock = "15:04:05.000000"

// History is a record of what clients did with locks, which [History.Check] judges.
// Its zero value is empty. It may be used concurrently. Events of several processes
// of one machine may be brought together in one, since the machine's clock orders
// them; a grant that an operator ended with Break must not be in it, since its holder
// learns of that only later.
type History struct {
	mu     sync.Mutex
	events []Event
}

// Add adds events.
func (h *History) Add(events ...Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.events = append(h.events, events...)
}

// Events returns all events, in the order in which they were added.
func (h *History) Events() []Event {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.events)
}

// Record returns a Locker that passes each call on to l and records it.
func (h *History) Record(l locker.Locker) locker.Locker { return &recorder{l, h} }

type recorder struct {
	locker.Locker
	history *History
}

func (r *recorder) Unwrap() locker.Locker { return r.Locker }

func (r *recorder) add(op Op, lease locker.Lease, asked time.Time, err error) {
	e := Event{Op: op, Key: lease.Key, Token: lease.Token, Asked: asked, Answered: time.Now(), OK: err == nil}
	if e.OK && (op == OpAcquire || op == OpRenew) {
		e.Deadline = lease.Deadline
	}
	r.history.Add(e)
}

func (r *recorder) Acquire(ctx context.Context, key string, ttl time.Duration) (locker.Lease, error) {
	asked := time.Now()
	lease, err := r.Locker.Acquire(ctx, key, ttl)
	r.acquired(key, lease, asked, err)
	return lease, err
}

func (r *recorder) AcquireWait(ctx context.Context, key string, ttl time.Duration) (locker.Lease, error) {
	asked := time.Now()
	lease, err := locker.AcquireWait(ctx, r.Locker, key, ttl)
	r.acquired(key, lease, asked, err)
	return lease, err
}

func (r *recorder) acquired(key string, lease locker.Lease, asked time.Time, err error) {
	if err != nil {
		lease = locker.Lease{Key: key}
	}
	r.add(OpAcquire, lease, asked, err)
}

func (r *recorder) Renew(ctx context.Context, lease locker.Lease, ttl time.Duration) (locker.Lease, error) {
	asked := time.Now()
	renewed, err := r.Locker.Renew(ctx, lease, ttl)
	r.add(OpRenew, renewed, asked, err)
	return renewed, err
}

func (r *recorder) Release(ctx context.Context, lease locker.Lease) error {
	asked := time.Now()
	err := r.Locker.Release(ctx, lease)
	r.add(OpRelease, lease, asked, err)
	return err
}

func (r *recorder) FenceToken(ctx context.Context, lease locker.Lease) (locker.Token, error) {
	asked := time.Now()
	token, err := r.Locker.FenceToken(ctx, lease)
	used := lease
	if err == nil {
		used.Token = token
	}
	r.add(OpFence, used, asked, err)
	return token, err
}

// Check returns an error that explains the first violation, by any key, of these
// rules, or nil:
//
//   - no two grants have the same token;
//   - a grant that returned before another was asked for has the smaller token;
//   - no renew, release or fence of a grant succeeds if it was asked for after a grant
//     with a higher token had returned;
//   - the intervals in which holders count on their leases are disjoint: each begins
//     when the grant returned, and ends at the deadline as last renewed or when the
//     release was asked for.
func (h *History) Check() error {
	byKey := make(map[string][]Event)
	for _, e := range h.Events() {
		byKey[e.Key] = append(byKey[e.Key], e)
	}
	for key, events := range byKey {
		if err := checkKey(events); err != nil {
			return fmt.Errorf("%q: %w", key, err)
		}
	}
	return nil
}

func checkKey(events []Event) error {
	slices.SortStableFunc(events, func(a, b Event) int { return a.Asked.Compare(b.Asked) })
	grants := succeeded(events, OpAcquire)
	byAnswer := slices.Clone(grants)
	slices.SortStableFunc(byAnswer, func(a, b Event) int { return a.Answered.Compare(b.Answered) })

	tokens := make(map[locker.Token]Event)
	for _, g := range grants {
		if other, ok := tokens[g.Token]; ok {
			return fmt.Errorf("two grants have one token: %s; %s", other, g)
		}
		tokens[g.Token] = g
	}
	// The events in the order in which they were asked for; highest is that of the
	// grants that had returned before.
	var highest Event
	for _, e := range events {
		for len(byAnswer) > 0 && byAnswer[0].Answered.Before(e.Asked) {
			if byAnswer[0].Token > highest.Token {
				highest = byAnswer[0]
			}
			byAnswer = byAnswer[1:]
		}
		switch {
		case !e.OK || e.Token > highest.Token:
		case e.Op == OpAcquire:
			return fmt.Errorf("tokens do not rise: %s; and later %s", highest, e)
		case e.Token < highest.Token:
			return fmt.Errorf("a grant outlived its successor: %s; and later %s", highest, e)
		}
	}
	return disjoint(grants, events)
}

func succeeded(events []Event, op Op) []Event {
	var all []Event
	for _, e := range events {
		if e.OK && e.Op == op {
			all = append(all, e)
		}
	}
	return all
}

// disjoint checks the intervals in which holders count on their leases.
func disjoint(grants, events []Event) error {
	type interval struct {
		Event
		end, renewed time.Time
	}
	held := make(map[locker.Token]*interval, len(grants))
	for _, g := range grants {
		held[g.Token] = &interval{g, g.Deadline, g.Answered}
	}
	for _, r := range succeeded(events, OpRenew) {
		if i := held[r.Token]; i != nil && r.Answered.After(i.renewed) {
			i.end, i.renewed = r.Deadline, r.Answered
		}
	}
	for _, r := range events { // also a release that failed: its caller is done
		if i := held[r.Token]; i != nil && r.Op == OpRelease && r.Asked.Before(i.end) {
			i.end = r.Asked
		}
	}
	inTurn := make([]*interval, 0, len(held))
	for _, i := range held {
		inTurn = append(inTurn, i)
	}
	slices.SortFunc(inTurn, func(a, b *interval) int {
		return cmp.Or(a.Answered.Compare(b.Answered), cmp.Compare(a.Token, b.Token))
	})
	var last *interval
	for _, i := range inTurn {
		if last != nil && i.Answered.Before(last.end) && i.Answered.Before(i.end) {
			return fmt.Errorf("two held the lock from %s to %s: %s; %s", i.Answered.Format(clock), last.end.Format(clock), last.Event, i.Event)
		}
		if last == nil || i.end.After(last.end) {
			last = i
		}
	}
	return nil
}
