package zookeeper

import "context"

// Kept returns how many things l remembers of its requests and entries.
func Kept(l *Locker) int {
	n := 0
	if c := l.dialer.current().conn; c != nil {
		c.mu.Lock()
		n += len(c.watches) + len(c.calls)
		c.mu.Unlock()
	}
	l.lines.mu.Lock()
	n += len(l.lines.mine)
	l.lines.mu.Unlock()
	l.sweeps.mu.Lock()
	n += len(l.sweeps.dirs)
	l.sweeps.mu.Unlock()
	l.grants.mu.Lock()
	n += len(l.grants.all)
	l.grants.mu.Unlock()
	return n
}

// SweepAll does what each client does from time to time.
func SweepAll(ctx context.Context, l *Locker) { l.sweepAll(ctx) }
