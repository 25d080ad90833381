package migrate

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/locker-go/locker"
)

const (
	// presencePrefix begins the keys of the locks by which processes show their
	// phases, in both stores: the prefix, the phase, a slash and a name.
	presencePrefix = "\x01migrate/"

	// presenceTTL is how long a process that was killed is taken to live.
	presenceTTL = 15 * time.Second
)

func isPresence(key string) bool { return strings.HasPrefix(key, presencePrefix) }

// presenceOf returns the phase that a key shows.
func presenceOf(key string) (Phase, bool) {
	rest, ok := strings.CutPrefix(key, presencePrefix)
	if !ok {
		return "", false
	}
	name, _, _ := strings.Cut(rest, "/")
	p, err := ParsePhase(name)
	return p, err == nil
}

// presence shows the phases that a process is in, by a lock in each store for each of
// them, and sees those of others.
type presence struct {
	l       *Locker
	name    string
	clients [2]*locker.Client

	mu    sync.Mutex
	shown map[Phase]context.CancelFunc
	lost  [2]bool // it is not shown in that store at present
	wg    sync.WaitGroup
}

// reaches says whether a store could be reached when it was last tried.
func (p *presence) reaches(s side) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.lost[s]
}

func (p *presence) setLost(s side, lost bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lost[s] = lost
}

func newPresence(l *Locker) *presence {
	p := &presence{l: l, name: rand.Text(), shown: make(map[Phase]context.CancelFunc)}
	for s := range p.clients {
		p.clients[s] = locker.New(l.stores[s].Locker, &locker.Options{TTL: presenceTTL})
	}
	return p
}

func (p *presence) key(ph Phase) string { return presencePrefix + string(ph) + "/" + p.name }

// enter shows a phase, and then fails if another process shows one that is two steps
// away. Of two that do so at once at least one sees the other.
func (p *presence) enter(ctx context.Context, ph Phase) error {
	if err := p.show(ctx, ph); err != nil {
		return err
	}
	if err := p.conflict(ctx, ph); err != nil {
		p.leave(ph)
		return err
	}
	return nil
}

// conflict returns which processes are two phases away.
func (p *presence) conflict(ctx context.Context, ph Phase) error {
	names := make(map[string]bool)
	for _, s := range []side{from, to} {
		for h, err := range p.l.stores[s].Holdings(ctx, presencePrefix) {
			if err != nil {
				return s.in(err)
			}
			if shown, ok := presenceOf(h.Key); ok && shown.distance(ph) > 1 && !strings.HasSuffix(h.Key, "/"+p.name) {
				names[fmt.Sprintf("%s (%s)", h.Holder, shown)] = true
			}
		}
	}
	if len(names) == 0 {
		return nil
	}
	var list []string
	for name := range names {
		list = append(list, name)
	}
	return fmt.Errorf("%w: the phase %s is two steps from that of %s: all processes must have been in %s at one time; one that was killed counts for another %s",
		locker.ErrInvalid, ph, strings.Join(list, ", "), PhaseBoth, presenceTTL)
}

// show takes the locks that show a phase, and keeps them.
func (p *presence) show(ctx context.Context, ph Phase) error {
	keep, cancel := context.WithCancel(p.l.ctx)
	var holds []*locker.Hold
	for s, c := range p.clients {
		hold, err := c.TryLock(context.WithoutCancel(ctx), p.key(ph))
		if err != nil {
			cancel()
			for _, h := range holds {
				_ = h.Unlock()
			}
			return fmt.Errorf("show the phase: %w", side(s).in(err))
		}
		holds = append(holds, hold)
	}
	p.mu.Lock()
	p.shown[ph] = cancel
	p.mu.Unlock()
	for s, hold := range holds {
		p.wg.Go(func() { p.keep(keep, side(s), ph, hold) })
	}
	return nil
}

// keep takes the lock that shows a phase again when it is lost, as in an outage, until
// ctx ends.
func (p *presence) keep(ctx context.Context, s side, ph Phase, hold *locker.Hold) {
	for {
		select {
		case <-ctx.Done():
			_ = hold.Unlock() // or it ends by itself
			return
		case <-hold.Lost():
		}
		p.setLost(s, true)
		next, err := p.clients[s].Lock(ctx, p.key(ph))
		for err != nil && ctx.Err() == nil {
			select {
			case <-ctx.Done():
			case <-time.After(presenceTTL / 10):
				next, err = p.clients[s].Lock(ctx, p.key(ph))
			}
		}
		if err != nil {
			return
		}
		hold = next
		p.setLost(s, false)
		if err := p.conflict(ctx, ph); errors.Is(err, locker.ErrInvalid) {
			p.l.report(locker.Event{Kind: locker.EventRenewFailed, Holding: locker.Holding{Key: p.key(ph)}, Err: err})
		}
	}
}

// leave no longer shows a phase.
func (p *presence) leave(ph Phase) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if cancel := p.shown[ph]; cancel != nil {
		cancel()
		delete(p.shown, ph)
	}
}

func (p *presence) close() error {
	p.mu.Lock()
	for _, cancel := range p.shown {
		cancel()
	}
	p.mu.Unlock()
	p.wg.Wait()
	return errors.Join(p.clients[from].Close(), p.clients[to].Close())
}
