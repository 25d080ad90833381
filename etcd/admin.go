package etcd

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/locker-go/locker"
)

// pageSize is how many entries Holdings reads at once.
const pageSize = 500

// head reads the first entry of a queue, or says ErrNotHeld.
func (l *Locker) head(ctx context.Context, key string) (*mvccpb.KeyValue, error) {
	if err := check(ctx, key); err != nil {
		return nil, err
	}
	resp, err := l.read(ctx, clientv3.OpGet(l.names.queue(key), clientv3.WithFirstCreate()...))
	if err != nil {
		return nil, err
	}
	head := first(resp, 0)
	if head == nil {
		return nil, locker.ErrNotHeld
	}
	return head, nil
}

// Inspect takes two requests.
func (l *Locker) Inspect(ctx context.Context, key string) (locker.Holding, error) {
	head, err := l.head(ctx, key)
	if err != nil {
		return locker.Holding{}, l.fail(ctx, "inspect", key, err)
	}
	h := readEntry(head).holding(key)
	if h.Remaining, err = l.timeLeft(ctx, head); err != nil {
		return locker.Holding{}, l.fail(ctx, "inspect", key, err)
	}
	return h, nil
}

// Break takes two requests.
func (l *Locker) Break(ctx context.Context, h locker.Holding) error {
	head, err := l.head(ctx, h.Key)
	if err != nil {
		return l.fail(ctx, "break", h.Key, err)
	}
	e := readEntry(head)
	if seen := e.holding(h.Key); seen.Token != h.Token || seen.Holder != h.Holder {
		return l.fail(ctx, "break", h.Key, locker.ErrNotHeld)
	}
	resp, err := l.commit(ctx,
		[]clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(e.name), "=", e.rev)},
		[]clientv3.Op{clientv3.OpDelete(e.name)}, nil)
	if err == nil && !resp.Succeeded {
		err = locker.ErrNotHeld
	}
	if err != nil {
		return l.fail(ctx, "break", h.Key, err)
	}
	return nil
}

// Raise lifts the tokens of all keys of the namespace.
func (l *Locker) Raise(ctx context.Context, key string, floor locker.Token) error {
	if err := check(ctx, key); err != nil {
		return l.fail(ctx, "raise", key, err)
	}
	if floor > locker.MaxToken {
		return l.fail(ctx, "raise", key, locker.ValidateFloor(floor, 0, time.Now()))
	}
	if err := l.raise(ctx, key, floor); err != nil {
		return l.fail(ctx, "raise", key, err)
	}
	return nil
}

func (l *Locker) raise(ctx context.Context, key string, floor locker.Token) error {
	for range maxMoves {
		resp, err := l.read(ctx,
			clientv3.OpGet(l.names.base()),
			clientv3.OpGet(l.names.queue(key), clientv3.WithFirstCreate()...))
		if err != nil {
			return err
		}
		b, err := readBase(first(resp, 0))
		if err != nil {
			return err
		}
		rev := resp.Header.Revision
		if err := locker.ValidateFloor(floor, locker.Token(b.value+rev), time.Now()); err != nil {
			return err
		}
		// Who waits has an older revision than a grant made later, and reads the base
		// at the head of the queue: its token must be above the floor too. What is at
		// the head now may be about to.
		oldest := rev + 1
		if head := first(resp, 1); head != nil {
			oldest = head.CreateRevision
		}
		value := max(b.forRevision(rev, time.Now()), int64(floor)+1-oldest)
		if value <= b.value {
			return nil
		}
		moved, err := l.commit(ctx, l.unmoved(b), []clientv3.Op{l.putBase(value)}, nil)
		if err != nil {
			return err
		}
		if moved.Succeeded {
			l.known.saw(base{value, moved.Header.Revision}, moved.Header.Revision)
			return nil
		}
	}
	return fmt.Errorf("others moved the base of the tokens %d times", maxMoves)
}

// HighWater takes one request.
func (l *Locker) HighWater(ctx context.Context) (locker.Token, error) {
	resp, err := l.read(ctx, clientv3.OpGet(l.names.base()))
	if err != nil {
		return 0, l.fail(ctx, "high-water", "", err)
	}
	b, err := readBase(first(resp, 0))
	if err != nil {
		return 0, l.fail(ctx, "high-water", "", err)
	}
	// Tokens of a time before the cluster lost its data are below the clock.
	return locker.Token(max(b.value+resp.Header.Revision, time.Now().UnixMicro())), nil
}

// Holdings reads some hundred entries at a time, all as of the same moment, and asks
// for the time left of each lock that it yields.
func (l *Locker) Holdings(ctx context.Context, prefix string) iter.Seq2[locker.Holding, error] {
	return func(yield func(locker.Holding, error) bool) {
		if ctx.Err() != nil {
			yield(locker.Holding{}, l.fail(ctx, "list", prefix, ctx.Err()))
			return
		}
		err := l.heads(ctx, prefix, func(key string, head *mvccpb.KeyValue) error {
			h := readEntry(head).holding(key)
			var err error
			if h.Remaining, err = l.timeLeft(ctx, head); err != nil {
				return err
			}
			if !yield(h, nil) {
				return errStopped
			}
			return nil
		})
		if err != nil && !errors.Is(err, errStopped) {
			yield(locker.Holding{}, l.fail(ctx, "list", prefix, err))
		}
	}
}

// errStopped ends a listing that nobody reads on.
var errStopped = errors.New("stopped")

// heads calls fn for the first entry of each queue of a key that begins with prefix.
// The entries of one queue follow each other.
func (l *Locker) heads(ctx context.Context, prefix string, fn func(key string, head *mvccpb.KeyValue) error) error {
	var (
		from    = l.names.queues(prefix)
		end     = clientv3.GetPrefixRangeEnd(from)
		key     string
		head    *mvccpb.KeyValue
		options = []clientv3.OpOption{clientv3.WithRange(end), clientv3.WithLimit(pageSize)}
	)
	for {
		resp, err := bounded(ctx, l.opts.RequestTimeout, func(ctx context.Context) (*clientv3.GetResponse, error) {
			return l.client.Get(ctx, from, options...)
		})
		if err != nil {
			return err
		}
		for _, kv := range resp.Kvs {
			k, ok := l.names.key(string(kv.Key))
			switch {
			case !ok || locker.ValidateKey(k) != nil: // something else put it there
			case head != nil && k == key:
				if kv.CreateRevision < head.CreateRevision {
					head = kv
				}
			default:
				if head != nil {
					if err := fn(key, head); err != nil {
						return err
					}
				}
				key, head = k, kv
			}
		}
		if !resp.More {
			break
		}
		from = string(resp.Kvs[len(resp.Kvs)-1].Key) + "\x00"
		options = append(options[:2:2], clientv3.WithRev(resp.Header.Revision))
	}
	if head == nil {
		return nil
	}
	return fn(key, head)
}
