package zookeeper

import (
	"sync"
	"time"
)

// safety remembers until when the ensemble surely keeps the session: its timeout after
// the last touch that the leader was sure to know of when it last confirmed a change. Any
// change of the session will do, since all its entries live as long as it does.
type safety struct {
	mu      sync.Mutex
	session int64
	touched moment
}

// note notes that a change was confirmed when the leader knew of that touch.
func (s *safety) note(session int64, touched moment) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if session != s.session || touched > s.touched {
		s.session, s.touched = session, touched
	}
}

// kept returns for how long after asked the session is surely kept.
func (s *safety) kept(of session, asked moment) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.session != of.id {
		return 0
	}
	return of.timeout - of.timeout/100 - asked.since(s.touched) // the drift is that of the whole timeout
}

// longest returns the longest TTL that a session can promise: a client touches it each
// third of its timeout, and half a tick may pass until the leader knows.
func (l *Locker) longest(s session) time.Duration {
	return max(s.timeout-s.timeout/100-s.timeout/3-l.tick(s)/2, 0)
}
