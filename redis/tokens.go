package redis

import (
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/locker-go/locker"
	"github.com/locker-go/locker/internal/redisnode"
)

const (
	// lead is how far from the server's clock this process's may be before it is
	// corrected: the server takes no token that is further ahead.
	lead = 10 * time.Second

	// step is how far above a fence that is ahead of the clock a proposal goes.
	step = 1 << 20
)

// proposer chooses the tokens that attempts propose: the clock in microseconds, or
// more. The order of tokens does not depend on it, since the server refuses those
// that do not rise; with a good clock the first proposal is almost always taken.
type proposer struct {
	seen   atomic.Uint64 // the highest granted here, unless far ahead of the clock
	skew   atomic.Int64  // the server's clock less ours, in us, where they are far apart
	clock  func() time.Time
	jumped func(key string, err error)
}

func (p *proposer) now() locker.Token {
	return locker.Token(p.clock().UnixMicro() + p.skew.Load())
}

func (p *proposer) next() locker.Token {
	return max(p.now(), locker.Token(p.seen.Load())+1)
}

// saw remembers a token, so that what this process gets later is above it even if
// the server loses its data. One that is far ahead of the clock would get the
// proposals for all other keys refused.
func (p *proposer) saw(t locker.Token) {
	if t > p.now()+locker.Token(lead.Microseconds()) {
		return
	}
	for {
		old := p.seen.Load()
		if uint64(t) <= old || p.seen.CompareAndSwap(old, uint64(t)) {
			return
		}
	}
}

// after returns what to propose after an answer that the token was too low or too
// high. While the fence is ahead of the clock, proposals rise by random steps: if a
// failover forgets some, two clients do not count alike from there.
func (p *proposer) after(key string, a redisnode.Answer) locker.Token {
	apart := a.Time.Sub(p.clock())
	skew := apart.Microseconds()
	if apart.Abs() <= lead {
		skew = 0
	}
	if old := p.skew.Swap(skew); old != 0 || skew != 0 {
		if old == 0 {
			p.jumped(key, fmt.Errorf("the server's clock (%s) and this process's are %s apart; tokens follow the server's",
				a.Time.UTC().Format(time.RFC3339), apart.Abs().Round(time.Second)))
		}
		p.seen.Store(0) // it was counted by the wrong clock
	}
	if now := p.now(); a.Fence < now {
		return max(now, a.Fence+1)
	}
	if a.Status == redisnode.Stale && a.Fence > p.now()+locker.Token(lead.Microseconds()) {
		p.jumped(key, fmt.Errorf("the fence %d is ahead of the clock", a.Fence))
	}
	return a.Fence + 1 + rand.N(locker.Token(step))
}
