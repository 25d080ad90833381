package zookeeper

import (
	"context"
	"errors"
	"iter"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/locker-go/locker"
)

// head is what is at the head of a queue.
type head struct {
	locker.Holding
	spot
	zxid int64 // of its creation
}

// firstOf returns what is at the head of the queue of key, or nil if that is empty.
func (l *Locker) firstOf(ctx context.Context, key string) (*head, error) {
	dir := l.names.queue(key)
	for range maxTries {
		names, err := l.children(ctx, dir)
		if errors.Is(err, zk.ErrNoNode) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		first, ok := earliest(names)
		if !ok {
			return nil, nil
		}
		n, err := l.read(ctx, dir+"/"+first.name, false)
		if errors.Is(err, zk.ErrNoNode) {
			continue // it has just gone
		}
		if err != nil {
			return nil, err
		}
		return &head{holding(key, n), first, n.stat.czxid}, nil
	}
	return nil, l.outrun("the head of the queue changed")
}

// earliest returns the entry that was made first, of the names in a queue's directory.
func earliest(names []string) (first spot, ok bool) {
	for _, name := range names {
		if s, is := spotOf(name); is && (!ok || s.before(first)) {
			first, ok = s, true
		}
	}
	return first, ok
}

// current is firstOf, of what a majority has confirmed by now, or ErrNotHeld.
func (l *Locker) current(ctx context.Context, key string) (*head, error) {
	if err := l.sync(ctx); err != nil {
		return nil, err
	}
	h, err := l.firstOf(ctx, key)
	if err == nil && h == nil {
		err = locker.ErrNotHeld
	}
	return h, err
}

// Inspect takes three requests. It cannot tell for how long the lock will be kept: that
// is known to the leader alone.
func (l *Locker) Inspect(ctx context.Context, key string) (locker.Holding, error) {
	if err := l.begin(ctx, key); err != nil {
		return locker.Holding{}, l.fail(ctx, "inspect", key, err)
	}
	defer l.tasks.calls.Done()
	h, err := l.current(ctx, key)
	if err != nil {
		return locker.Holding{}, l.fail(ctx, "inspect", key, err)
	}
	return h.Holding, nil
}

// Break takes four requests.
func (l *Locker) Break(ctx context.Context, h locker.Holding) error {
	if err := l.begin(ctx, h.Key); err != nil {
		return l.fail(ctx, "break", h.Key, err)
	}
	defer l.tasks.calls.Done()
	at, err := l.current(ctx, h.Key)
	if err == nil && (at.Token != h.Token || at.Holder != h.Holder) {
		err = locker.ErrNotHeld
	}
	if err == nil {
		var removed bool
		removed, err = l.remove(ctx, entry{key: h.Key, dir: l.names.queue(h.Key), spot: at.spot})
		if err == nil && !removed {
			err = locker.ErrNotHeld
		}
	}
	if err != nil {
		return l.fail(ctx, "break", h.Key, err)
	}
	return nil
}

// Raise lifts the tokens of all keys of the namespace.
func (l *Locker) Raise(ctx context.Context, key string, floor locker.Token) error {
	if err := l.begin(ctx, key); err != nil {
		return l.fail(ctx, "raise", key, err)
	}
	defer l.tasks.calls.Done()
	err := error(nil)
	if floor > locker.MaxToken {
		err = locker.ValidateFloor(floor, 0, time.Now())
	} else {
		err = l.raise(ctx, key, floor)
	}
	if err != nil {
		return l.fail(ctx, "raise", key, err)
	}
	return nil
}

func (l *Locker) raise(ctx context.Context, key string, floor locker.Token) error {
	for range maxTries {
		if err := l.sync(ctx); err != nil && !errors.Is(err, zk.ErrNoNode) {
			return err
		}
		b, err := l.currentBase(ctx)
		if err != nil {
			return err
		}
		first, err := l.firstOf(ctx, key)
		if err != nil {
			return err
		}
		zxid := l.dialer.seen()
		if err := locker.ValidateFloor(floor, locker.Token(b.value+zxid), time.Now()); err != nil {
			return err
		}
		// Who waits has an older zxid than a grant made later, and reads the base at the
		// head of the queue: its token must be above the floor too. What is at the head
		// now may be about to.
		oldest := zxid + 1
		if first != nil {
			oldest = first.zxid
		}
		value := max(b.forZxid(zxid, time.Now()), int64(floor)+1-oldest)
		if value <= b.value {
			return nil
		}
		if err = l.moveBase(ctx, b, value); !errors.Is(err, zk.ErrBadVersion) {
			return err
		}
	}
	return l.outrun("others moved the base of the tokens")
}

// HighWater takes two requests.
func (l *Locker) HighWater(ctx context.Context) (locker.Token, error) {
	high, err := l.highWater(ctx)
	if err != nil {
		return 0, l.fail(ctx, "high-water", "", err)
	}
	return high, nil
}

func (l *Locker) highWater(ctx context.Context) (locker.Token, error) {
	if ctx.Err() != nil {
		return 0, ctx.Err()
	}
	if !l.tasks.begin() {
		return 0, errClosed
	}
	defer l.tasks.calls.Done()
	// The answer to the read has the server's zxid, which is that of the leader or above.
	if err := l.sync(ctx); err != nil {
		return 0, err
	}
	n, err := l.read(ctx, l.names.base(), false)
	if err != nil && !errors.Is(err, zk.ErrNoNode) {
		return 0, err
	}
	high := time.Now().UnixMicro() // tokens of before the ensemble lost its data are below
	if err == nil {
		b, err := l.readBase(n)
		if err != nil {
			return 0, err
		}
		high = max(high, b.value+l.dialer.seen())
	}
	return locker.Token(high), nil
}

// Holdings reads the names of all keys at once, and three times for each that it yields.
func (l *Locker) Holdings(ctx context.Context, prefix string) iter.Seq2[locker.Holding, error] {
	return func(yield func(locker.Holding, error) bool) {
		keys, err := l.keys(ctx, prefix)
		for _, key := range keys {
			var h *head
			if h, err = l.firstOf(ctx, key); err != nil {
				break
			}
			if h != nil && !yield(h.Holding, nil) {
				return
			}
		}
		if err != nil {
			yield(locker.Holding{}, l.fail(ctx, "list", prefix, err))
		}
	}
}

// keys returns those with the prefix that have a queue.
func (l *Locker) keys(ctx context.Context, prefix string) ([]string, error) {
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err := l.sync(ctx); err != nil {
		return nil, err
	}
	codes, err := l.children(ctx, l.names.queues())
	if err != nil && !errors.Is(err, zk.ErrNoNode) {
		return nil, err
	}
	var keys []string
	for _, code := range codes {
		// Others are of something else that put them there.
		if key, ok := decode(code); ok && strings.HasPrefix(key, prefix) && locker.ValidateKey(key) == nil {
			keys = append(keys, key)
		}
	}
	return keys, nil
}
