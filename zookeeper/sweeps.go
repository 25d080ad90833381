package zookeeper

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"
)

// Whoever is alone in a queue deletes its directory. Some are left all the same: by who
// thought others to be behind that gave up in that moment, and by clients that died.

const (
	// sweepAfter is how long after it left somebody looks whether a directory is empty.
	sweepAfter = time.Second

	// sweepEvery is how often a client looks for empty directories that others left, of
	// which it takes sweepMost at random.
	sweepEvery = 10 * time.Minute
	sweepMost  = 1000
)

// sweeps are the directories that may have been left empty.
type sweeps struct {
	mu   sync.Mutex
	dirs map[string]struct{}
	wake chan struct{}
	once sync.Once
}

func (s *sweeps) init() {
	s.dirs = make(map[string]struct{})
	s.wake = make(chan struct{}, 1)
}

func (s *sweeps) add(dir string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dirs[dir] = struct{}{}
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

func (s *sweeps) take() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var dirs []string
	for dir := range s.dirs {
		dirs = append(dirs, dir)
	}
	clear(s.dirs)
	return dirs
}

// startSweeper starts the sweeper if it does not run.
func (l *Locker) startSweeper() {
	l.sweeps.once.Do(func() { l.tasks.start(l.sweep) })
}

// sweep deletes directories as long as the Locker is open.
func (l *Locker) sweep() {
	ctx := l.tasks.closing
	soon, all := time.NewTimer(sweepAfter), time.NewTimer(rand.N(sweepEvery))
	defer soon.Stop()
	defer all.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.sweeps.wake:
			soon.Reset(sweepAfter)
		case <-soon.C:
			l.sweepLeft(ctx)
		case <-all.C:
			l.sweepAll(ctx)
			all.Reset(sweepEvery/2 + rand.N(sweepEvery))
		}
	}
}

// sweepLeft deletes the directories that this client may have left empty.
func (l *Locker) sweepLeft(ctx context.Context) {
	for _, dir := range l.sweeps.take() {
		if err := l.removeEmpty(ctx, dir); err != nil && ctx.Err() == nil {
			l.sweeps.add(dir)
		}
	}
}

// sweepAll deletes directories that anybody left empty.
func (l *Locker) sweepAll(ctx context.Context) {
	codes, err := l.children(ctx, l.names.queues())
	if err != nil {
		return // there is another time
	}
	rand.Shuffle(len(codes), func(i, j int) { codes[i], codes[j] = codes[j], codes[i] })
	for _, code := range codes[:min(len(codes), sweepMost)] {
		if l.removeEmpty(ctx, l.names.queues()+"/"+code) != nil {
			return
		}
	}
}

// removeEmpty deletes a directory if it is empty. Who is about to use it makes it again.
func (l *Locker) removeEmpty(ctx context.Context, dir string) error {
	n, err := l.read(ctx, dir, false)
	if err == nil && n.stat.children == 0 {
		err = l.make(ctx, single(deleteOp(dir)))
	}
	if is(err, zk.ErrNoNode, zk.ErrNotEmpty) {
		return nil
	}
	return err
}
