package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"
)

// remove deletes an entry, and the directory of its queue with it unless others are in
// that, and reports whether the entry was there. It takes one write, unless it was wrong
// about the others.
func (l *Locker) remove(ctx context.Context, e entry) (bool, error) {
	removed, err := l.removeAny(ctx, e)
	if err == nil {
		l.lines.gone(e.path(), "")
	}
	return removed, err
}

func (l *Locker) removeAny(ctx context.Context, e entry) (bool, error) {
	if !l.crowds.recent(e.key) {
		err := l.make(ctx, multi(deleteOp(e.path()), deleteOp(e.dir)))
		switch {
		case err == nil:
			return true, nil
		case refused(err, 0, zk.ErrNoNode):
			return false, nil
		case !refused(err, 1, zk.ErrNotEmpty):
			return false, err
		}
		l.crowds.note(e.key)
	}
	err := l.make(ctx, single(deleteOp(e.path())))
	if errors.Is(err, zk.ErrNoNode) {
		return false, nil
	}
	if err == nil {
		l.sweeps.add(e.dir)
	}
	return err == nil, err
}

// pass removes the entry of a grant. If one of this client waits next, the same write
// proves that it is there, and so at the head.
func (l *Locker) pass(ctx context.Context, e entry) (bool, error) {
	next := l.lines.next(e.path())
	if next == "" {
		return l.remove(ctx, e)
	}
	err := l.make(ctx, multi(deleteOp(e.path()), checkOp(next, anyVersion)))
	if err == nil {
		l.lines.gone(e.path(), next)
		return true, nil
	}
	if _, ok := errors.AsType[*refusal](err); ok {
		return l.remove(ctx, e)
	}
	return false, err
}

// undo makes sure that an entry is not in its queue, and will not be: also one of which
// the creation, c, was not answered. It returns cause, itself if all is done. What takes
// too long goes on in the background, until it is done or the session is over.
func (l *Locker) undo(ctx context.Context, e entry, c *change, cause error) error {
	done := make(chan struct{})
	if !l.tasks.start(func() {
		defer close(done)
		l.vanish(l.tasks.ending, e, c)
	}) {
		return cause
	}
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), l.opts.RequestTimeout)
	defer cancel()
	select {
	case <-done:
		return cause
	case <-limited.Done():
		return fmt.Errorf("%w; what was begun is undone as soon as the ensemble answers, or when the session is over", cause)
	}
}

// vanish removes an entry however long it takes.
func (l *Locker) vanish(ctx context.Context, e entry, c *change) {
	if c != nil {
		results, _, err := l.result(ctx, c)
		if _, refused := errors.AsType[*refusal](err); refused || ctx.Err() != nil {
			return // all ends
		}
		if err == nil {
			e.spot, _ = e.made(results)
		}
		// Else the connection is lost, and what follows goes by another one. What was sent
		// by the lost one cannot come later than that: the servers refuse it once the
		// session has moved.
	}
	for ctx.Err() == nil {
		gone, err := l.vanishOnce(ctx, e)
		if gone {
			return
		}
		if err != nil {
			pause(ctx)
		}
	}
}

// vanishOnce removes an entry, which it finds by the beginning of its name if it has to.
func (l *Locker) vanishOnce(ctx context.Context, e entry) (gone bool, err error) {
	if e.spot.name == "" {
		if err := l.sync(ctx); err != nil {
			return false, err
		}
		names, err := l.children(ctx, e.dir)
		if err != nil {
			return errors.Is(err, zk.ErrNoNode), err
		}
		for _, name := range names {
			if strings.HasPrefix(name, e.id) {
				e.spot.name = name
			}
		}
		if e.spot.name == "" {
			return true, nil
		}
	}
	_, err = l.remove(ctx, e)
	return err == nil, err
}

// removeAll removes what this client holds.
func (l *Locker) removeAll(ctx context.Context) error {
	var (
		held  = l.grants.takeAll(l.dialer.current().id)
		errs  = make([]error, len(held))
		slots = make(chan struct{}, maxRemovals)
		wg    sync.WaitGroup
	)
	for i, g := range held {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			if _, err := l.remove(ctx, g.entry); err != nil {
				errs[i] = l.fail(ctx, "release", g.key, err)
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// maxRemovals bounds the requests in flight of removeAll.
const maxRemovals = 32

// pause lets a moment pass, another one for each who pauses.
func pause(ctx context.Context) {
	timer := time.NewTimer(50*time.Millisecond + rand.N(100*time.Millisecond))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
