package zookeeper

import (
	"sync"
	"time"

	"github.com/locker-go/locker"
)

// grant is what this client knows of a lock that it holds. An ephemeral node lives as
// long as the session, so the client itself has to end what is not renewed.
type grant struct {
	entry
	session int64

	// These are guarded by the mutex of grants.
	asked   moment // when it was granted or renewed last
	ttl     time.Duration
	over    bool
	unknown bool // a release was sent, and not answered
}

// left returns for how long the grant stands unless it is renewed.
func (g *grant) left(at moment) time.Duration { return g.ttl - at.since(g.asked) }

// grants are those that stand, by the names of their entries.
type grants struct {
	mu      sync.Mutex
	all     map[string]*grant
	keeping bool // the keeper runs
	wake    chan struct{}
	looks   moment // when the keeper looks by itself
}

func (m *grants) init() {
	m.all = make(map[string]*grant)
	m.wake = make(chan struct{}, 1)
}

func (m *grants) add(g *grant) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.all[g.spot.name] = g
	m.lookBy(g)
}

// of returns the grant that a lease is of, and whether its time is not over.
func (m *grants) of(lease locker.Lease) (g *grant, stands bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	g = m.all[lease.Handle]
	if g == nil || g.key != lease.Key || g.holder != lease.Holder || g.token() != lease.Token {
		return nil, false
	}
	return g, g.left(now()) > 0
}

// end takes a grant out.
func (m *grants) end(g *grant) {
	g.over = true
	delete(m.all, g.spot.name)
}

// forget forgets a grant of which the entry is gone.
func (l *Locker) forget(g *grant) {
	l.grants.mu.Lock()
	l.grants.end(g)
	l.grants.mu.Unlock()
	l.lines.gone(g.path(), "")
}

// renew has a grant stand for ttl from asked; false if it had ended before.
func (m *grants) renew(g *grant, asked moment, ttl time.Duration) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if g.over || g.left(now()) <= 0 {
		return false
	}
	g.asked, g.ttl = asked, ttl
	m.lookBy(g)
	return true
}

// lookBy has the keeper look when a grant ends.
func (m *grants) lookBy(g *grant) {
	if m.keeping && g.asked.add(g.ttl) >= m.looks {
		return
	}
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// doubt notes that a release was sent of which the outcome is not known.
func (m *grants) doubt(g *grant) {
	m.mu.Lock()
	defer m.mu.Unlock()
	g.unknown = true
}

// doubted says whether a release was sent before, and not answered.
func (m *grants) doubted(g *grant) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return g.unknown
}

// takeAll takes out all grants, and returns those of a session.
func (m *grants) takeAll(session int64) []*grant {
	m.mu.Lock()
	defer m.mu.Unlock()
	var taken []*grant
	for _, g := range m.all {
		if g.session == session {
			taken = append(taken, g)
		}
		m.end(g)
	}
	return taken
}

// takeExpired takes out the grants that were not renewed, and returns when to look again;
// 0 if there are no others, and then the keeper is to end.
func (m *grants) takeExpired() (expired []*grant, sleep time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	at, next := now(), time.Duration(0)
	for _, g := range m.all {
		left := g.left(at)
		if left <= 0 {
			m.end(g)
			expired = append(expired, g)
		} else if next == 0 || left < next {
			next = left
		}
	}
	m.keeping = next > 0
	sleep = min(next, maxSleep)
	m.looks = at.add(sleep)
	return expired, sleep
}

// maxSleep is how long the keeper sleeps at most: timers stand still in a suspend.
const maxSleep = time.Second

// startKeeper starts the keeper if it does not run.
func (l *Locker) startKeeper() {
	m := &l.grants
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.keeping {
		m.keeping = l.tasks.start(l.keep)
	}
}

// keep removes the entries of grants that were not renewed, as long as there are grants.
func (l *Locker) keep() {
	for {
		expired, sleep := l.grants.takeExpired()
		for _, g := range expired {
			l.tasks.start(func() { l.vanish(l.tasks.ending, g.entry, nil) })
		}
		if sleep == 0 {
			return
		}
		timer := time.NewTimer(sleep)
		select {
		case <-timer.C:
		case <-l.grants.wake:
		case <-l.tasks.closing.Done():
			timer.Stop()
			return
		}
		timer.Stop()
	}
}
