package zookeeper

import "sync"

// lines are the entries of this client, in whatever queues, each with the one of this
// client that waits for it. That one needs no watch: it is told by who removes the entry
// before.
type lines struct {
	mu   sync.Mutex
	mine map[string]*turn // by path
}

// turn is the wait for an entry to be gone.
type turn struct {
	path   string          // of the entry that waits
	over   <-chan struct{} // closed when the one before is gone, or has changed
	proven bool            // then: the one that waits was there, at the head
	end    func()
}

func (m *lines) add(path string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.mine == nil {
		m.mine = make(map[string]*turn)
	}
	m.mine[path] = nil
}

// wait returns the turn of an entry that waits for another one, or nil if that is not of
// this client.
func (m *lines) wait(ahead, path string) *turn {
	m.mu.Lock()
	defer m.mu.Unlock()
	t, ok := m.mine[ahead]
	if !ok {
		return nil
	}
	if t == nil || t.path != path {
		over := make(chan struct{})
		t = &turn{path: path, over: over, end: func() { close(over) }}
		m.mine[ahead] = t
	}
	return t
}

// next returns which entry of this client waits for another, or nothing.
func (m *lines) next(path string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if t := m.mine[path]; t != nil {
		return t.path
	}
	return ""
}

// leave ends a wait.
func (m *lines) leave(ahead, path string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if t := m.mine[ahead]; t != nil && t.path == path {
		m.mine[ahead] = nil
	}
}

// gone tells who waits for an entry that it is gone, and if that is the one which was
// proven to be there, that it is at the head.
func (m *lines) gone(path, proven string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if t := m.mine[path]; t != nil {
		t.proven = t.path == proven
		t.end()
	}
	delete(m.mine, path)
}
