package redlock

import (
	"context"
	"slices"
	"time"

	"github.com/locker-go/locker"
	"github.com/locker-go/locker/internal/redisnode"
)

// ballot is one attempt: a proposal that all members vote on.
type ballot struct {
	grant   redisnode.Grant
	votes   chan vote
	cleared chan clearance
	decided chan struct{} // closed when the attempt was won or given up
	won     bool          // as decided
}

// vote is what a member answered.
type vote struct {
	member *member
	answer redisnode.Answer
	err    error
}

// granted says whether it is a vote for the grant.
func (v vote) granted() bool { return v.err == nil && v.answer.Status == redisnode.Granted }

// unknown says whether the grant may stand at the member, or come to.
func (v vote) unknown() bool { return v.err != nil && !definite(v.err) }

// clearance says that an attempt holds nothing at a member and never will, or why
// that is not sure.
type clearance struct {
	member *member
	err    error
}

// propose asks all members to vote, and returns when the outcome is certain, or ctx
// has ended, with the votes until then. Unless the attempt is won, it then holds
// nothing and never will, but on a minority that does not answer: what that does is
// left to the background.
func (l *Locker) propose(ctx context.Context, g redisnode.Grant, key string, ttl time.Duration) outcome {
	n := len(l.members)
	b := &ballot{
		grant:   g,
		votes:   make(chan vote, n),
		cleared: make(chan clearance, n),
		decided: make(chan struct{}),
	}
	asked := locker.Now()
	background := context.WithoutCancel(ctx)
	for _, m := range l.members {
		l.crew.run(func() { l.poll(background, b, m, ttl) })
	}
	o := outcome{tally: tally{n: n}}
	for ctx.Err() == nil && o.tally.verdict() == pending {
		select {
		case v := <-b.votes:
			o.add(v)
		case <-ctx.Done():
		}
	}
	if o.tally.verdict() == won && ctx.Err() == nil {
		o.lease = locker.Lease{Key: key, Holder: g.Holder, Token: g.Token}.Granted(asked, ttl, o.kept())
		// Remaining, which also knows of a suspend, is dear: the caller sees that one.
		o.won = time.Now().Before(o.lease.Deadline)
	}
	b.won = o.won
	close(b.decided)
	if !o.won {
		o.uncleared = l.clear(b, o.votes)
	}
	return o
}

// poll takes a member's vote and, if the attempt is given up, sees to it that nothing is
// left of it. A vote of which nothing is known stays if the attempt is won: undoing
// it could overtake a renewal that counted it.
func (l *Locker) poll(ctx context.Context, b *ballot, m *member, ttl time.Duration) {
	answer, err := m.vote(ctx, b.grant, ttl)
	m.failing.Store(err != nil)
	v := vote{m, answer, err}
	b.votes <- v
	if !v.granted() && !v.unknown() {
		b.cleared <- clearance{m, nil}
		return
	}
	<-b.decided
	switch {
	case !b.won:
		b.cleared <- clearance{m, m.undo(ctx, b.grant)}
	case v.unknown():
		// The grant may stand here. What must not be is that the request comes when it is
		// over: if this fails too, it may, and takes the lock on this node for its TTL.
		_ = m.outdate(ctx, b.grant)
	}
}

// clear waits until an attempt that was given up stands in nobody's way: it holds
// nothing at those whose votes came, nor at a majority. It returns the members where
// that cannot be said.
func (l *Locker) clear(b *ballot, votes []vote) (uncleared []clearance) {
	waiting := make(map[*member]bool)
	for _, v := range votes {
		waiting[v.member] = true
	}
	sure := 0
	for range l.members {
		if len(waiting) == 0 && sure >= majority(len(l.members)) {
			break
		}
		c := <-b.cleared
		delete(waiting, c.member)
		if c.err == nil {
			sure++
		} else {
			uncleared = append(uncleared, c)
		}
	}
	return uncleared
}

// outcome is how a ballot ended.
type outcome struct {
	tally     tally
	votes     []vote
	won       bool
	lease     locker.Lease // if won, or if it would have been in time
	uncleared []clearance
}

func (o *outcome) add(v vote) {
	o.votes = append(o.votes, v)
	switch {
	case v.granted():
		o.tally.yes++
	case v.err != nil:
		o.tally.failed++
	default:
		o.tally.no++
	}
}

// kept returns for how long all who voted for the grant keep it.
func (o *outcome) kept() time.Duration {
	kept := locker.Forever
	for _, v := range o.votes {
		if v.granted() {
			kept = min(kept, v.answer.Kept)
		}
	}
	return kept
}

// holder returns who holds the lock at most members, and at how many.
func (o *outcome) holder() (locker.Holding, int) {
	var most locker.Holding
	counts := make(map[string]int)
	for _, v := range o.votes {
		if v.err == nil && v.answer.Status == redisnode.Held {
			h := v.answer.Holder
			if counts[h.Handle]++; counts[h.Handle] > counts[most.Handle] {
				most = h
			}
		}
	}
	return most, counts[most.Handle]
}

// refusal returns what stands against the token on the whole: the fence that a
// proposal has to be above for a majority to accept it, and the time that most members
// agree on. A few nodes whose clocks are wrong do not decide it. It is false if none
// was refused for its token.
func (o *outcome) refusal(token, limit locker.Token) (redisnode.Answer, bool) {
	a := redisnode.Answer{Status: redisnode.Ahead}
	var (
		fences []locker.Token
		times  []time.Time
	)
	for _, v := range o.votes {
		switch {
		case v.granted():
			fences = append(fences, token)
		case v.err == nil && (v.answer.Status == redisnode.Stale || v.answer.Status == redisnode.Ahead):
			fences = append(fences, v.answer.Fence)
			times = append(times, v.answer.Time)
			if v.answer.Status == redisnode.Stale {
				a.Status = redisnode.Stale
			}
		}
	}
	if len(times) == 0 {
		return a, false
	}
	slices.Sort(fences)
	slices.SortFunc(times, time.Time.Compare)
	a.Time = times[(len(times)-1)/2]
	a.Fence = fences[min(majority(o.tally.n), len(fences))-1]
	for _, f := range fences {
		if f <= limit {
			a.Fence = max(a.Fence, f)
		}
	}
	return a, true
}
