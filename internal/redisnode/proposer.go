package redisnode

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/locker-go/locker"
)

const (
	// Lead is how far from the server's clock this process's may be before it is
	// corrected: the server takes no token that is further ahead.
	Lead = 10 * time.Second

	// Step is how far above a fence that is ahead of the clock a proposal goes.
	Step = 1 << 20
)

// Proposer chooses the tokens that attempts propose: the clock in microseconds, or
// more. The order of tokens does not depend on it, since the server refuses those
// that do not rise; with a good clock the first proposal is almost always taken.
type Proposer struct {
	seen   atomic.Uint64 // the highest granted here, unless far ahead of the clock
	skew   atomic.Int64  // the server's clock less ours, in us, where they are far apart
	Clock  func() time.Time
	Random func(below int64) int64
	Jumped func(key string, err error)
}

func (p *Proposer) now() locker.Token {
	return locker.Token(p.Clock().UnixMicro() + p.skew.Load())
}

// Limit returns how high a token may be, by this process's clock, that is not far
// ahead of it.
func (p *Proposer) Limit() locker.Token {
	return p.now() + locker.Token(Lead.Microseconds())
}

func (p *Proposer) Next() locker.Token {
	return max(p.now(), locker.Token(p.seen.Load())+1)
}

// Saw remembers a token, so that what this process gets later is above it even if
// the server loses its data. One that is far ahead of the clock would get the
// proposals for all other keys refused.
func (p *Proposer) Saw(t locker.Token) {
	if t > p.Limit() {
		return
	}
	for {
		old := p.seen.Load()
		if uint64(t) <= old || p.seen.CompareAndSwap(old, uint64(t)) {
			return
		}
	}
}

// After returns what to propose after an answer that the token was too low or too
// high. While the fence is ahead of the clock, proposals rise by random steps: if a
// failover forgets some, two clients do not count alike from there.
func (p *Proposer) After(key string, a Answer) locker.Token {
	apart := a.Time.Sub(p.Clock())
	skew := apart.Microseconds()
	if apart.Abs() <= Lead {
		skew = 0
	}
	if old := p.skew.Swap(skew); old != 0 || skew != 0 {
		if old == 0 {
			p.Jumped(key, fmt.Errorf("the server's clock (%s) and this process's are %s apart; tokens follow the server's",
				a.Time.UTC().Format(time.RFC3339), apart.Abs().Round(time.Second)))
		}
		p.seen.Store(0) // it was counted by the wrong clock
	}
	if now := p.now(); a.Fence < now {
		return max(now, a.Fence+1)
	}
	if a.Status == Stale && a.Fence > p.Limit() {
		p.Jumped(key, fmt.Errorf("the fence %d is ahead of the clock", a.Fence))
	}
	return a.Fence + 1 + locker.Token(p.Random(Step))
}
