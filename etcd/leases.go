package etcd

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/locker-go/locker"
)

const (
	// maxIdle is how many leases without a key the pool keeps alive.
	maxIdle = 128

	// idleFor is for how long it does so.
	idleFor = 5 * time.Minute
)

// errLeaseGone says that the server does not have a lease, or no longer.
var errLeaseGone = rpctypes.ErrLeaseNotFound

// serverLease is a lease of etcd. A key is put under a lease that has no other key,
// and that nothing but this key's end revokes.
type serverLease struct {
	id      clientv3.LeaseID
	seconds int64 // for how long it lives without a keepalive
}

func (s serverLease) ttl() time.Duration { return time.Duration(s.seconds) * time.Second }

// pooled is a lease that this process granted: it waits for a key, or has one.
type pooled struct {
	serverLease
	asked int64          // the seconds that it was granted for, fewer than it has if below the server's floor
	alive locker.Instant // before it was granted, or kept alive last
	since time.Time      // when it began to wait, or was used last
	due   time.Time      // for its next keepalive, while it waits
}

// young says that so little of a lease's time has passed that it needs no keepalive to
// carry a lock: the lock's deadline counts from the last one. A keepalive beside each
// transaction would be what an acquire waits for, since servers confirm it by a read.
func (p pooled) young() bool { return p.alive.Elapsed() <= p.ttl()/10 }

// leases grants leases, and keeps those alive that have no key, so that an acquire
// need not wait for a grant.
type leases struct {
	remote pb.LeaseClient
	done   context.Context // ends with close, or with the client
	stop   context.CancelFunc
	limit  time.Duration
	keeper sync.WaitGroup

	wake chan struct{} // for the keeper

	mu      sync.Mutex
	idle    []pooled
	held    map[grant]pooled
	sweepAt int       // how many held ones there may be
	floor   int64     // the shortest that the server grants, as far as is known
	keeps   bool      // a keeper runs
	wakes   time.Time // when it does next by itself
	closed  bool
}

func newLeases(client *clientv3.Client, limit time.Duration) *leases {
	p := &leases{
		remote: clientv3.RetryLeaseClient(client),
		limit:  limit,
		held:   make(map[grant]pooled),
		wake:   make(chan struct{}, 1),
	}
	p.done, p.stop = context.WithCancel(client.Ctx())
	return p
}

// wholeSeconds rounds up to the unit in which etcd counts.
func wholeSeconds(ttl time.Duration) int64 { return int64((ttl + time.Second - 1) / time.Second) }

// take returns a lease for so many seconds, from the pool unless it must be new. One
// from the pool may be dead already, or about to be: it needs a keepalive unless young.
func (p *leases) take(ctx context.Context, seconds int64, fresh bool) (l pooled, used bool, err error) {
	p.mu.Lock()
	i := -1
	for j := len(p.idle) - 1; j >= 0 && i < 0 && !fresh; j-- {
		if p.idle[j].asked == seconds {
			i = j
		}
	}
	if i >= 0 {
		l = p.idle[i]
		p.idle = slices.Delete(p.idle, i, i+1)
		p.mu.Unlock()
		return l, true, nil
	}
	p.mu.Unlock()
	l, err = p.grant(ctx, seconds)
	return l, false, err
}

// grant makes a lease. Its id is chosen here, so that a request that the driver sends
// twice makes one lease.
func (p *leases) grant(ctx context.Context, seconds int64) (pooled, error) {
	id, now := rand.Int64N(1<<63-1)+1, locker.Now()
	resp, err := bounded(ctx, p.limit, func(ctx context.Context) (*pb.LeaseGrantResponse, error) {
		return p.remote.LeaseGrant(ctx, &pb.LeaseGrantRequest{TTL: seconds, ID: id})
	})
	if errors.Is(err, rpctypes.ErrLeaseExist) { // of the first request, whose reply was lost
		resp, err = &pb.LeaseGrantResponse{ID: id, TTL: seconds}, nil
	}
	if err != nil {
		return pooled{}, err // if it was granted all the same, it ends by itself
	}
	if resp.TTL > seconds {
		p.mu.Lock()
		p.floor = resp.TTL
		p.mu.Unlock()
	}
	return pooled{serverLease: serverLease{clientv3.LeaseID(resp.ID), resp.TTL}, asked: seconds, alive: now}, nil
}

// granted returns for how long the server grants a lease of so many seconds.
func (p *leases) granted(seconds int64) int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return max(seconds, p.floor)
}

// put gives a lease back that has no key, and that no request is under way for.
func (p *leases) put(l pooled) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || len(p.idle) >= maxIdle {
		return // it ends by itself
	}
	now := time.Now()
	l.since, l.due = now, now.Add(l.ttl()/3)
	p.idle = append(p.idle, l)
	switch {
	case !p.keeps:
		p.keeps, p.wakes = true, l.due
		p.keeper.Go(p.keep)
	case l.due.Before(p.wakes):
		select {
		case p.wake <- struct{}{}:
		default:
		}
	}
}

// forget leaves all leases that have no key to end by themselves: in a restored backup
// they may have keys that were released since.
func (p *leases) forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.idle = nil
}

// hold remembers under which lease a grant is: put back once that is released.
func (p *leases) hold(g grant, l pooled) {
	p.mu.Lock()
	defer p.mu.Unlock()
	l.since = time.Now()
	p.held[g] = l
	if len(p.held) < p.sweepAt {
		return
	}
	// Some were released by another process, which nothing tells, or left to expire.
	for g, l := range p.held {
		if time.Since(l.since) > 2*l.ttl() {
			delete(p.held, g)
		}
	}
	p.sweepAt = 2*len(p.held) + maxIdle
}

// of returns the lease that a grant is under, if this process put it there.
func (p *leases) of(g grant) (pooled, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	l, ok := p.held[g]
	if ok {
		l.since = time.Now()
		p.held[g] = l
	}
	return l, ok
}

// drop forgets the lease of a grant, for whoever calls first.
func (p *leases) drop(g grant) (pooled, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	l, ok := p.held[g]
	delete(p.held, g)
	return l, ok
}

// swap replaces the lease of a grant, unless that was given back meanwhile.
func (p *leases) swap(g grant, l pooled) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, ok := p.held[g]; ok {
		l.since = time.Now()
		p.held[g] = l
	}
}

// keepAlive extends leases to their full time from a moment during the call, and
// returns that time in seconds for each, 0 for one that is gone.
func (p *leases) keepAlive(ctx context.Context, ids ...clientv3.LeaseID) (map[clientv3.LeaseID]int64, error) {
	ctx, cancel := context.WithCancel(ctx) // which ends the stream
	defer cancel()
	stream, err := p.remote.LeaseKeepAlive(ctx)
	if err != nil {
		return nil, err
	}
	seconds := make(map[clientv3.LeaseID]int64, len(ids))
	for _, id := range ids {
		if err := stream.Send(&pb.LeaseKeepAliveRequest{ID: int64(id)}); err != nil && !errors.Is(err, io.EOF) {
			return nil, err // after EOF, Recv tells why
		}
		resp, err := stream.Recv()
		if err != nil {
			return nil, err
		}
		seconds[id] = max(resp.TTL, 0)
	}
	return seconds, nil
}

// extend keeps one lease alive, also if its first request falls victim to a member
// or a connection that fails.
func (p *leases) extend(ctx context.Context, id clientv3.LeaseID) (seconds int64, err error) {
	return bounded(ctx, p.limit, func(ctx context.Context) (int64, error) {
		all, err := p.keepAlive(ctx, id)
		if err != nil && ctx.Err() == nil {
			all, err = p.keepAlive(ctx, id)
		}
		if err == nil && all[id] == 0 {
			err = errLeaseGone
		}
		return all[id], err
	})
}

// revoke ends a lease, and with it the key under it.
func (p *leases) revoke(ctx context.Context, id clientv3.LeaseID) error {
	_, err := bounded(ctx, p.limit, func(ctx context.Context) (*pb.LeaseRevokeResponse, error) {
		return p.remote.LeaseRevoke(ctx, &pb.LeaseRevokeRequest{ID: int64(id)})
	})
	if errors.Is(err, errLeaseGone) {
		return nil
	}
	return err
}

// remaining returns for how long the server will keep a lease at most, 0 if that is
// not known.
func (p *leases) remaining(ctx context.Context, id clientv3.LeaseID) (time.Duration, error) {
	resp, err := bounded(ctx, p.limit, func(ctx context.Context) (*pb.LeaseTimeToLiveResponse, error) {
		return p.remote.LeaseTimeToLive(ctx, &pb.LeaseTimeToLiveRequest{ID: int64(id)})
	})
	if err != nil || resp.TTL < 0 {
		return 0, err
	}
	return time.Duration(resp.TTL+1) * time.Second, nil // the server rounds down
}

// keep keeps the pool alive until it is empty or closed.
func (p *leases) keep() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-p.wake:
		case <-p.done.Done():
			return
		}
		due, old := p.dueNow()
		if len(due) > 0 {
			asked := locker.Now()
			alive, err := bounded(p.done, p.limit, func(ctx context.Context) (map[clientv3.LeaseID]int64, error) {
				return p.keepAlive(ctx, due...)
			})
			p.kept(due, asked, alive, err)
		}
		for _, l := range old {
			_ = p.revoke(p.done, l.id) // else it ends by itself
		}
		next, ok := p.nextDue()
		if !ok {
			return
		}
		timer.Reset(time.Until(next))
	}
}

// dueNow returns the leases that need a keepalive, and takes those out that were idle
// for too long.
func (p *leases) dueNow() (due []clientv3.LeaseID, old []pooled) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	p.idle = slices.DeleteFunc(p.idle, func(l pooled) bool {
		if now.Sub(l.since) < idleFor {
			return false
		}
		old = append(old, l)
		return true
	})
	for _, l := range p.idle {
		if !l.due.After(now) {
			due = append(due, l.id)
		}
	}
	return due, old
}

// kept notes what keepalives brought: leases that are dead go, the others have time.
// After a failure they are tried again soon, and one that died by then is found out
// by whoever takes it.
func (p *leases) kept(due []clientv3.LeaseID, asked locker.Instant, alive map[clientv3.LeaseID]int64, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	p.idle = slices.DeleteFunc(p.idle, func(l pooled) bool {
		seconds, answered := alive[l.id]
		return answered && seconds == 0
	})
	for i, l := range p.idle {
		switch {
		case !slices.Contains(due, l.id):
		case err != nil:
			p.idle[i].due = now.Add(l.ttl() / 6)
		default:
			p.idle[i].alive, p.idle[i].due = asked, now.Add(l.ttl()/3)
		}
	}
}

// nextDue returns when the next keepalive is due. If there is none it ends the keeper.
func (p *leases) nextDue() (time.Time, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.idle) == 0 {
		p.keeps = false
		return time.Time{}, false
	}
	next := p.idle[0].due
	for _, l := range p.idle {
		if l.due.Before(next) {
			next = l.due
		}
	}
	p.wakes = next
	return next, true
}

// close revokes the leases that have no key. One that it cannot revoke ends by itself.
func (p *leases) close(ctx context.Context) {
	p.mu.Lock()
	idle := p.idle
	p.idle, p.closed = nil, true
	p.mu.Unlock()
	p.stop()
	p.keeper.Wait()
	ctx, cancel := context.WithTimeout(ctx, p.limit)
	defer cancel()
	var wg sync.WaitGroup
	for _, l := range idle {
		wg.Go(func() { _ = p.revoke(ctx, l.id) })
	}
	wg.Wait()
}
