package etcd

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/locker-go/locker"
)

// A token is the base plus the create revision of the grant's entry. Revisions order
// the grants, and the base lifts them to the number space of all backends. It only
// rises, and each grant reads it once it is at the head of its queue.

// maxLag is how far tokens may lag the clock: beyond, the base is moved. That keeps
// writes of it rare, and finds out a cluster that lost its data.
const maxLag = 10 * time.Second

// maxMoves bounds how often one grant begins again because others moved the base.
const maxMoves = 16

// base is what is stored as a namespace's base.
type base struct {
	value int64 // 0 if there is none
	mod   int64 // its modification revision; 0 if there is none
}

func readBase(kv *mvccpb.KeyValue) (base, error) {
	if kv == nil {
		return base{}, nil
	}
	value, err := strconv.ParseInt(string(kv.Value), 10, 64)
	if err != nil || value <= 0 {
		return base{}, fmt.Errorf("%w: %s is not a base of tokens: remove it, and tokens go by the clock", locker.ErrUnavailable, kv.Key)
	}
	return base{value, kv.ModRevision}, nil
}

// forRevision returns the base that a token of that revision should have: another one
// if it would lag the clock.
func (b base) forRevision(rev int64, now time.Time) int64 {
	micros := now.UnixMicro()
	if b.value+rev >= micros-maxLag.Microseconds() || micros > int64(locker.MaxToken) {
		return b.value
	}
	return micros - rev
}

// known is what this process last saw of the base.
type known struct {
	mu   sync.Mutex
	base base
	rev  int64 // of the store
}

// saw notes what an answer says. The answers may come in another order than they were
// given: then the next entry is written twice.
func (k *known) saw(b base, rev int64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.base, k.rev = b, rev
}

func (k *known) get() (base, int64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.base, k.rev
}

// guess returns the base that an entry written now will have, and the operation that
// moves the base there if it has to move and still is as it was seen last.
func (l *Locker) guess() (int64, []clientv3.Op) {
	b, rev := l.known.get()
	if rev == 0 {
		return 0, nil
	}
	value := b.forRevision(rev+1, time.Now())
	if value == b.value {
		return value, nil
	}
	return value, []clientv3.Op{clientv3.OpTxn(l.unmoved(b), []clientv3.Op{l.putBase(value)}, nil)}
}

func (l *Locker) unmoved(b base) []clientv3.Cmp {
	return []clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(l.names.base()), "=", b.mod)}
}

func (l *Locker) putBase(value int64) clientv3.Op {
	return clientv3.OpPut(l.names.base(), strconv.FormatInt(value, 10))
}

// settle gives an entry at the head of its queue its token: by the base b, read when
// it was there, unless that has to move. It writes if the entry was put with another
// base. An error means that the outcome is unknown, or that the entry is gone.
func (l *Locker) settle(ctx context.Context, e entry, b base) (entry, error) {
	for range maxMoves {
		want := b.forRevision(e.rev, time.Now())
		if want == e.base && want == b.value {
			return e, nil
		}
		settled := e
		settled.base = want
		ops := []clientv3.Op{clientv3.OpPut(e.name, settled.value(), clientv3.WithLease(e.lease))}
		if want != b.value {
			ops = append(ops, l.putBase(want))
		}
		resp, err := l.commit(ctx,
			append(l.unmoved(b), clientv3.Compare(clientv3.CreateRevision(e.name), "=", e.rev)),
			ops, []clientv3.Op{clientv3.OpGet(e.name), clientv3.OpGet(l.names.base())})
		if err != nil {
			return e, err
		}
		if resp.Succeeded {
			if want != b.value {
				b.mod = resp.Header.Revision
			}
			l.known.saw(base{want, b.mod}, resp.Header.Revision)
			return settled, nil
		}
		if first(resp, 0) == nil {
			return e, errPlaceLost
		}
		if b, err = readBase(first(resp, 1)); err != nil {
			return e, err
		}
		l.known.saw(b, resp.Header.Revision)
	}
	return e, fmt.Errorf("others moved the base of the tokens %d times", maxMoves)
}

// lookAtBase reads the base if this process has not seen it yet, so that its first
// entry need not be written twice.
func (l *Locker) lookAtBase(ctx context.Context) error {
	if _, rev := l.known.get(); rev != 0 {
		return nil
	}
	resp, err := l.read(ctx, clientv3.OpGet(l.names.base()))
	if err != nil {
		return err
	}
	b, err := readBase(first(resp, 0))
	if err != nil {
		return err
	}
	l.known.saw(b, resp.Header.Revision)
	return nil
}

// tellAhead reports a token that is ahead of this process's clock.
func (l *Locker) tellAhead(key string, token locker.Token) {
	ahead := time.Duration(int64(token)-time.Now().UnixMicro()) * time.Microsecond
	if ahead > maxLag && l.opts.OnEvent != nil {
		l.opts.OnEvent(locker.Event{
			Kind:    locker.EventFenceJumped,
			Holding: locker.Holding{Key: key, Token: token},
			Err:     fmt.Errorf("tokens are %s ahead of this clock: it is slow, or that of another client was fast", ahead.Round(time.Second)),
		})
	}
}
