package redlock

import (
	"context"
	"fmt"
	"hash/fnv"
	"sync/atomic"
	"time"

	"github.com/locker-go/locker"
	"github.com/locker-go/locker/internal/redisnode"
)

// reply is what a member replied to a request.
type reply[T any] struct {
	member *member
	value  T
	err    error
}

// ask sends a request to all members at once, and returns their replies as they come.
func ask[T any](l *Locker, ctx context.Context, request func(context.Context, *member) (T, error)) <-chan reply[T] {
	ctx = context.WithoutCancel(ctx) // each has a limit of its own
	replies := make(chan reply[T], len(l.members))
	for _, m := range l.members {
		l.crew.run(func() {
			v, err := request(ctx, m)
			m.failing.Store(err != nil)
			replies <- reply[T]{m, v, err}
		})
	}
	return replies
}

// gather sends a request to all members and returns the replies of at least so many.
func gather[T any](l *Locker, ctx context.Context, least int, request func(context.Context, *member) (T, error)) ([]reply[T], error) {
	replies := ask(l, ctx, request)
	var got []reply[T]
	errs := make(map[*member]error)
	for len(got) < least {
		select {
		case r := <-replies:
			if r.err == nil {
				got = append(got, r)
			} else if errs[r.member] = r.err; len(l.members)-len(errs) < least {
				return nil, fmt.Errorf("%w: %d of %d nodes must answer: %w", locker.ErrUnavailable, least, len(l.members), l.nodeErrors(errs))
			}
		case <-ctx.Done():
			return nil, redisnode.Unavailable(ctx, ctx.Err())
		}
	}
	return got, nil
}

// decide returns the replies that make it certain whether a majority says yes: nil if
// it does, ErrNotHeld if a majority does not, else why it cannot be known.
func decide[T any](l *Locker, ctx context.Context, replies <-chan reply[T], yes func(T) bool) ([]reply[T], error) {
	t := tally{n: len(l.members)}
	var got []reply[T]
	errs := make(map[*member]error)
	for t.open() {
		select {
		case r := <-replies:
			got = append(got, r)
			switch {
			case r.err != nil:
				errs[r.member] = r.err
				t.failed++
			case yes(r.value):
				t.yes++
			default:
				t.no++
			}
		case <-ctx.Done():
			return got, redisnode.Unavailable(ctx, ctx.Err())
		}
	}
	switch {
	case t.verdict() == won:
		return got, nil
	case t.denied() == won:
		return got, locker.ErrNotHeld
	default:
		return got, l.noMajority(errs)
	}
}

func grantOf(lease locker.Lease, keys redisnode.Keys) redisnode.Grant {
	return redisnode.Grant{Keys: keys, Holder: lease.Holder, Token: lease.Token}
}

// Renew asks all nodes at once, and succeeds when a majority has renewed the lease.
// One that failed may have been renewed, and for the TTL that was asked for: after a
// failure do not count on a longer one. Nodes that lost the lease get it again.
func (l *Locker) Renew(ctx context.Context, lease locker.Lease, ttl time.Duration) (locker.Lease, error) {
	if err := l.validateTTL(ttl); err != nil {
		return lease, fail("renew", lease.Key, err)
	}
	keys, err := l.begin(ctx, lease.Key)
	if err != nil {
		return lease, fail("renew", lease.Key, err)
	}
	defer l.calls.Done()
	ttl = wholeMillis(ttl)
	g := grantOf(lease, keys)
	asked := locker.Now()
	replies := ask(l, ctx, func(ctx context.Context, m *member) (redisnode.Answer, error) {
		return twice(ctx, func() (redisnode.Answer, error) { return m.Renew(ctx, g, ttl) })
	})
	got, err := decide(l, ctx, replies, func(a redisnode.Answer) bool { return a.Status == redisnode.Granted })
	if err != nil {
		return lease, fail("renew", lease.Key, err)
	}
	renewed := lease.Granted(asked, ttl, ttl)
	l.crew.run(func() { l.refill(context.WithoutCancel(ctx), g, renewed, got, replies) })
	return renewed, nil
}

// refill puts a renewed lease back on the nodes that lost it, since they were wiped or
// did not answer when it was granted, so that it outlives more failures. It takes the
// replies that came, and waits for the others.
func (l *Locker) refill(ctx context.Context, g redisnode.Grant, lease locker.Lease, got []reply[redisnode.Answer], replies <-chan reply[redisnode.Answer]) {
	for i := range l.members {
		var r reply[redisnode.Answer]
		if i < len(got) {
			r = got[i]
		} else {
			r = <-replies
		}
		if r.err != nil || r.value.Status != redisnode.Free {
			continue
		}
		until := r.value.Time.Add(lease.Remaining())
		// Whether it is put back or not, the lease stands: the next renewal tries again.
		l.crew.run(func() { _, _ = r.member.Fill(ctx, g, r.value, until) })
	}
}

// Release asks all nodes at once, but the one where those who wait listen, whose turn
// is when it completes a majority. It succeeds when a majority has given the lock back;
// the others are left to the background.
func (l *Locker) Release(ctx context.Context, lease locker.Lease) error {
	keys, err := l.begin(ctx, lease.Key)
	if err != nil {
		return fail("release", lease.Key, err)
	}
	defer l.calls.Done()
	g, herald := grantOf(lease, keys), l.herald(keys)
	var done atomic.Int32
	enough := make(chan struct{})
	replies := ask(l, ctx, func(ctx context.Context, m *member) (bool, error) {
		if m == herald {
			<-enough
		} else {
			defer func() {
				if int(done.Add(1)) == majority(len(l.members))-1 {
					close(enough)
				}
			}()
		}
		released, listeners, err := m.drop(ctx, g, m == herald)
		if released && m == herald && m.wakes != nil {
			m.wakes.Released(keys.Channel, lease.Token, listeners)
		}
		return released, err
	})
	if _, err := decide(l, ctx, replies, func(released bool) bool { return released }); err != nil {
		return fail("release", lease.Key, err)
	}
	l.tokens.Saw(lease.Token + 1) // the fences are there now
	return nil
}

// herald returns the node at which those who wait for a lock listen: the first from
// one that depends on the lock, that answered when it was last asked. Those who
// wait would come too early if others told them of a release that has not reached a majority.
func (l *Locker) herald(keys redisnode.Keys) *member {
	h := fnv.New32a()
	_, _ = h.Write([]byte(keys.Lock))
	first := int(h.Sum32() % uint32(len(l.members)))
	for i := range l.members {
		if m := l.members[(first+i)%len(l.members)]; !m.failing.Load() {
			return m
		}
	}
	return l.members[first]
}

// FenceToken asks all nodes at once.
func (l *Locker) FenceToken(ctx context.Context, lease locker.Lease) (locker.Token, error) {
	keys, err := l.begin(ctx, lease.Key)
	if err != nil {
		return 0, fail("fence", lease.Key, err)
	}
	defer l.calls.Done()
	g := grantOf(lease, keys)
	replies := ask(l, ctx, func(ctx context.Context, m *member) (bool, error) {
		return twice(ctx, func() (bool, error) { return m.Holds(ctx, g) })
	})
	if _, err := decide(l, ctx, replies, func(holds bool) bool { return holds }); err != nil {
		return 0, fail("fence", lease.Key, err)
	}
	return lease.Token, nil
}
