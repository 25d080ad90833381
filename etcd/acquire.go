package etcd

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/locker-go/locker"
)

// errPlaceLost says that an entry that was made is no longer there.
var errPlaceLost = errors.New("the place in the queue is lost: its lease expired, or somebody removed it")

// errWentBack says that the cluster has an older state than this process saw: a backup
// was restored, or it was wiped.
var errWentBack = errors.New("the cluster lost what it had confirmed")

// place is an entry that was just made, or looked at.
type place struct {
	entry
	lease pooled
	base  base   // as of when it was looked at
	ahead string // the entry before it; empty at the head of the queue
	head  *mvccpb.KeyValue
}

// Acquire takes one consensus write if the lock is free, and none if it is held. A
// new lease is another one, if none is left over from an earlier lock.
func (l *Locker) Acquire(ctx context.Context, key string, ttl time.Duration) (locker.Lease, error) {
	if err := locker.ValidateTTL(ttl); err != nil {
		return locker.Lease{}, l.fail(ctx, "acquire", key, err)
	}
	if err := check(ctx, key); err != nil {
		return locker.Lease{}, l.fail(ctx, "acquire", key, err)
	}
	lease, err := l.acquire(ctx, key, wholeSeconds(ttl))
	if err != nil {
		return locker.Lease{}, l.fail(ctx, "acquire", key, err)
	}
	return lease, nil
}

func (l *Locker) acquire(ctx context.Context, key string, seconds int64) (locker.Lease, error) {
	// An attempt that fails writes nothing, but the members agree on it all the same.
	// Whoever asks again and again had better read.
	if l.losses.recent(key) {
		resp, err := l.read(ctx, clientv3.OpGet(l.names.queue(key), clientv3.WithFirstCreate()...))
		if err != nil {
			return locker.Lease{}, err
		}
		if head := first(resp, 0); head != nil {
			return locker.Lease{}, l.held(ctx, key, head)
		}
	}
	p, err := l.enter(ctx, key, seconds, false)
	if err != nil {
		return locker.Lease{}, err
	}
	if p.head != nil {
		l.losses.add(key)
		return locker.Lease{}, l.held(ctx, key, p.head)
	}
	return l.granted(ctx, key, p)
}

// enter makes an entry in the queue of key: at its head or not at all, unless it is
// to wait. If it returns an error there is none, and none will be.
func (l *Locker) enter(ctx context.Context, key string, seconds int64, wait bool) (place, error) {
	if err := l.lookAtBase(ctx); err != nil {
		return place{}, err
	}
	for fresh := false; ; fresh = true {
		lease, used, err := l.leases.take(ctx, seconds, fresh)
		if err != nil {
			return place{}, err
		}
		var (
			alive    sync.WaitGroup
			extended = lease
			aliveErr error
		)
		if used && !lease.young() {
			extended.alive = locker.Now()
			alive.Go(func() { extended.seconds, aliveErr = l.leases.extend(ctx, lease.id) })
		}
		p, entered, err := l.put(ctx, key, lease.id, wait)
		alive.Wait()
		if err == nil && !entered {
			if aliveErr == nil {
				l.leases.put(extended)
			}
			return p, nil
		}
		if err == nil {
			err = aliveErr
		}
		if err == nil {
			p.lease = extended
			return p, nil
		}
		wentBack := errors.Is(err, errWentBack)
		if wentBack {
			l.leases.forget()
		}
		if (wentBack || used && errors.Is(err, errLeaseGone)) && l.leases.revoke(context.WithoutCancel(ctx), lease.id) == nil {
			continue // it died in the pool, or has a lock of the past
		}
		return place{}, l.undo(ctx, lease, err)
	}
}

// put makes the entry in one transaction, which also tells who is before it and reads
// the base, and moves that if it has to move.
func (l *Locker) put(ctx context.Context, key string, lease clientv3.LeaseID, wait bool) (p place, entered bool, err error) {
	queue := l.names.queue(key)
	e := entry{holder: locker.NewHolder(), lease: lease}
	e.name = l.names.entry(key, lease)
	_, seen := l.known.get()
	value, move := l.guess()
	e.base = value

	head := clientv3.OpGet(queue, clientv3.WithFirstCreate()...)
	var (
		empty []clientv3.Cmp
		ops   []clientv3.Op
	)
	if wait { // the last one before the entry is there is the one ahead of it
		ops = append(ops, head, clientv3.OpGet(queue, clientv3.WithLastCreate()...))
	} else {
		empty = append(empty, clientv3.Compare(clientv3.CreateRevision(queue).WithPrefix(), "=", 0))
	}
	ops = append(ops, move...)
	ops = append(ops, clientv3.OpPut(e.name, e.value(), clientv3.WithLease(lease)), clientv3.OpGet(l.names.base()))
	resp, err := l.commit(ctx, empty, ops, []clientv3.Op{head})
	if err != nil {
		return place{}, false, err
	}
	if resp.Header.Revision < seen {
		l.known.saw(base{}, resp.Header.Revision)
		return place{}, false, errWentBack
	}
	if !resp.Succeeded {
		return place{head: first(resp, 0)}, false, nil
	}
	e.rev = resp.Header.Revision
	b, err := readBase(first(resp, len(ops)-1))
	if err != nil {
		return place{}, false, err
	}
	l.known.saw(b, e.rev)
	p = place{entry: e, base: b}
	if wait {
		p.head = first(resp, 0)
		if ahead := first(resp, 1); ahead != nil {
			p.ahead = string(ahead.Key)
		}
	}
	return p, true, nil
}

// granted makes the lease of an entry that is at the head of its queue.
func (l *Locker) granted(ctx context.Context, key string, p place) (locker.Lease, error) {
	e, err := l.settle(ctx, p.entry, p.base)
	if err != nil {
		return locker.Lease{}, l.undo(ctx, p.lease, err)
	}
	lease := locker.Lease{Key: key, Holder: e.holder, Token: e.token(), Handle: e.handle()}.Granted(p.lease.alive, p.lease.ttl(), p.lease.ttl())
	if lease.Remaining() == 0 {
		return locker.Lease{}, l.undo(ctx, p.lease, errors.New("the answer took longer than the lease: use a longer TTL"))
	}
	l.leases.hold(e.grant(), p.lease)
	l.tellAhead(key, lease.Token)
	return lease, nil
}

// undo makes sure that an attempt of which the outcome is unknown takes nothing, by
// ending its lease: a put that arrives late fails on a lease that is gone. It returns
// cause.
func (l *Locker) undo(ctx context.Context, lease pooled, cause error) error {
	if err := l.leases.revoke(context.WithoutCancel(ctx), lease.id); err != nil { // which has a limit of its own
		return fmt.Errorf("%w; the lock may have been taken all the same, and then frees itself after %s, since undoing failed too: %w", cause, lease.ttl(), err)
	}
	return cause
}

// held returns the error of an attempt at a lock that is held.
func (l *Locker) held(ctx context.Context, key string, head *mvccpb.KeyValue) error {
	h := readEntry(head).holding(key)
	remaining, err := l.timeLeft(ctx, head)
	if err != nil && ctx.Err() != nil {
		return fmt.Errorf("%w; %w", &locker.HeldError{Holding: h}, locker.Ended(ctx))
	}
	h.Remaining = remaining // else it is not known
	return &locker.HeldError{Holding: h}
}

// timeLeft returns for how long the store will keep an entry if nobody renews it.
func (l *Locker) timeLeft(ctx context.Context, kv *mvccpb.KeyValue) (time.Duration, error) {
	if kv.Lease == 0 {
		return locker.Forever, nil
	}
	return l.leases.remaining(ctx, clientv3.LeaseID(kv.Lease))
}

// losses remember of which keys an attempt failed a moment ago.
type losses struct {
	mu   sync.Mutex
	when map[string]time.Time
}

const (
	lossFor   = time.Second
	maxLosses = 1000
)

func (m *losses) add(key string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.when == nil || len(m.when) >= maxLosses {
		m.when = make(map[string]time.Time)
	}
	m.when[key] = time.Now()
}

func (m *losses) recent(key string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	when, ok := m.when[key]
	if ok && time.Since(when) > lossFor {
		delete(m.when, key)
		return false
	}
	return ok
}
