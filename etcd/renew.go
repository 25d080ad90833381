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

// Renew takes no consensus write (one with a user and password, by which the driver logs
// in for each keepalive): a keepalive, and beside it a read that proves the lock. Only for a longer TTL than before it puts the key under a new lease, by two
// writes. A shorter one makes the deadline earlier; of a holder that dies, the key is
// free only after the longer time.
func (l *Locker) Renew(ctx context.Context, lease locker.Lease, ttl time.Duration) (locker.Lease, error) {
	if err := locker.ValidateTTL(ttl); err != nil {
		return lease, l.fail(ctx, "renew", lease.Key, err)
	}
	if err := check(ctx, lease.Key); err != nil {
		return lease, l.fail(ctx, "renew", lease.Key, err)
	}
	e, ok := l.names.entryOf(lease)
	if !ok {
		return lease, l.fail(ctx, "renew", lease.Key, locker.ErrNotHeld)
	}
	renewed, err := l.renew(ctx, lease, e, wholeSeconds(ttl))
	if err != nil {
		return lease, l.fail(ctx, "renew", lease.Key, err)
	}
	return renewed, nil
}

func (l *Locker) renew(ctx context.Context, lease locker.Lease, e entry, want int64) (locker.Lease, error) {
	own, known := l.leases.of(e.grant())
	if known {
		e.lease = own.id // it may have been renewed since, as an older copy of it
	}
	var (
		alive    sync.WaitGroup
		seconds  int64
		aliveErr error
		asked    = locker.Now()
	)
	alive.Go(func() { seconds, aliveErr = l.leases.extend(ctx, e.lease) })
	resp, err := l.read(ctx, clientv3.OpGet(e.name))
	alive.Wait()
	if err != nil {
		return lease, err
	}
	kv := first(resp, 0)
	if !e.is(kv) {
		return lease, l.lost(e)
	}
	if id := clientv3.LeaseID(kv.Lease); id != e.lease {
		e.lease, asked = id, locker.Now()
		seconds, aliveErr = l.leases.extend(ctx, id)
	}
	if errors.Is(aliveErr, errLeaseGone) {
		return lease, l.lost(e)
	}
	if aliveErr != nil {
		return lease, aliveErr
	}
	granted := l.leases.granted(want)
	// If it is not where it was last put, that request may be under way still, to a lease
	// that nobody keeps alive. Putting it elsewhere makes sure that it changes nothing.
	strayed := known && own.id != e.lease
	if seconds < granted || strayed {
		return l.prolong(ctx, lease, e, kv, max(want, seconds)) // not less, or it might end before the deadline so far
	}
	ttl := time.Duration(granted) * time.Second
	return lease.Granted(asked, ttl, ttl), nil
}

// lost forgets a grant that is over.
func (l *Locker) lost(e entry) error {
	l.leases.drop(e.grant()) // what was under it ends by itself
	return locker.ErrNotHeld
}

// prolong puts the entry kv under a new lease, with a longer TTL. Its create revision,
// and so its place, stays. If the outcome is unknown the new lease is left to end by
// itself, since the entry may be under it: that is later than the deadline before. The
// next renewal finds out.
func (l *Locker) prolong(ctx context.Context, lease locker.Lease, e entry, kv *mvccpb.KeyValue, want int64) (locker.Lease, error) {
	asked := locker.Now()
	longer, _, err := l.leases.take(ctx, want, true)
	if err != nil {
		return lease, err
	}
	resp, err := l.commit(ctx,
		append(e.stands(), clientv3.Compare(clientv3.LeaseValue(e.name), "=", kv.Lease)), // a late copy changes nothing
		[]clientv3.Op{clientv3.OpPut(e.name, e.value(), clientv3.WithLease(longer.id))},
		[]clientv3.Op{clientv3.OpGet(e.name)})
	if err != nil {
		l.leases.hold(e.grant(), longer)
		return lease, err
	}
	if !resp.Succeeded {
		l.leases.put(longer)
		if !e.is(first(resp, 0)) {
			return lease, l.lost(e)
		}
		return lease, fmt.Errorf("%w: another renewal of this lease was faster", locker.ErrUnavailable)
	}
	l.leases.swap(e.grant(), longer)
	// The lease before goes, since the entry has its name, which must not be used again.
	_ = l.leases.revoke(context.WithoutCancel(ctx), e.lease) // else it ends by itself
	return lease.Granted(asked, longer.ttl(), longer.ttl()), nil
}
