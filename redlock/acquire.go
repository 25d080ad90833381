package redlock

import (
	"context"
	"fmt"
	"time"

	"github.com/locker-go/locker"
	"github.com/locker-go/locker/internal/redisnode"
)

const (
	// maxAttempts bounds the proposals of one Acquire on a lock that nobody holds.
	maxAttempts = 8

	// apart is how long rivals that split the votes of all members leave each other,
	// at most, at first; later for longer.
	apart    = 2 * time.Millisecond
	maxApart = 50 * time.Millisecond
)

// Acquire asks all nodes at once, and returns when a majority has voted for it or none
// can any more. Where several ask for a free lock at once none may get a majority;
// they try again after random delays.
func (l *Locker) Acquire(ctx context.Context, key string, ttl time.Duration) (locker.Lease, error) {
	if err := l.validateTTL(ttl); err != nil {
		return locker.Lease{}, fail("acquire", key, err)
	}
	keys, err := l.begin(ctx, key)
	if err != nil {
		return locker.Lease{}, fail("acquire", key, err)
	}
	defer l.calls.Done()
	lease, err := l.acquire(ctx, key, keys, wholeMillis(ttl))
	if err != nil {
		return locker.Lease{}, fail("acquire", key, err)
	}
	return lease, nil
}

func (l *Locker) acquire(ctx context.Context, key string, keys redisnode.Keys, ttl time.Duration) (locker.Lease, error) {
	lease, sure, err := l.attempts(ctx, key, keys, ttl)
	if err != nil && !sure {
		err = fmt.Errorf("%w; the lock may have been taken all the same, and then frees itself after %s", err, ttl)
	}
	return lease, err
}

// attempts makes proposals until one is won, or none can be. It is sure that those it
// gave up stand nowhere, unless it could not tell a majority of the members.
func (l *Locker) attempts(ctx context.Context, key string, keys redisnode.Keys, ttl time.Duration) (lease locker.Lease, sure bool, err error) {
	token := l.tokens.Next()
	var last outcome
	spread := apart
	sure = true
	for range maxAttempts {
		g := redisnode.Grant{Keys: keys, Holder: locker.NewHolder(), Token: token}
		o := l.propose(ctx, g, key, ttl)
		sure = sure && o.cleared()
		switch {
		case o.won:
			l.tokens.Saw(token)
			return o.lease, true, nil
		case ctx.Err() != nil:
			return lease, sure, redisnode.Unavailable(ctx, ctx.Err())
		case o.tally.verdict() == won:
			return lease, sure, fmt.Errorf("%w: the answers took longer than the lease: use a longer TTL", locker.ErrUnavailable)
		case o.unavailable():
			return lease, sure, l.noMajority(o.errors())
		}
		last = o
		holder, votes := o.holder()
		if votes >= majority(len(l.members)) {
			break
		}
		refusal, refused := o.refusal(token, l.tokens.Limit())
		if refused {
			token = l.tokens.After(key, refusal)
		} else {
			token = max(l.tokens.Next(), token+1)
		}
		if token > locker.MaxToken {
			return lease, sure, fmt.Errorf("%w: the fence %d, beyond which there are no tokens, is damaged on most nodes: delete its records %q",
				locker.ErrUnavailable, refusal.Fence, keys.Fence)
		}
		if holder.Handle != "" { // rivals have split the votes
			if err := sleep(ctx, time.Duration(l.random(int64(spread)))); err != nil {
				return lease, sure, err
			}
			spread = min(2*spread, maxApart)
		}
	}
	if holder, votes := last.holder(); votes > 0 {
		holder.Key = key
		return lease, sure, &locker.HeldError{Holding: holder}
	}
	return lease, sure, fmt.Errorf("%w: others took and gave back the lock during each of %d attempts", locker.ErrHeld, maxAttempts)
}

// unavailable says whether too few members answered for anybody to be granted.
func (o *outcome) unavailable() bool { return o.tally.n-o.tally.failed < majority(o.tally.n) }

// cleared says whether a majority of the members could be told that the attempt was
// given up, so that it does not stand.
func (o *outcome) cleared() bool { return o.tally.n-len(o.uncleared) >= majority(o.tally.n) }

func (o *outcome) errors() map[*member]error {
	errs := make(map[*member]error)
	for _, v := range o.votes {
		if v.err != nil {
			errs[v.member] = v.err
		}
	}
	return errs
}

// sleep waits for d.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return redisnode.Unavailable(ctx, ctx.Err())
	}
}
