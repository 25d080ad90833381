package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/locker-go/locker"
	"github.com/locker-go/locker/internal/redisnode"
)

// rueidis#925, dynamolock#280: the reply of a request that was carried out was lost, and
// the caller became its own rival. With replies of a minority lost every call
// succeeds; with all of them lost it does, or says that it does not know.
func TestLostReplies(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 2, 5} {
		t.Run(fmt.Sprintf("of %d", n), func(t *testing.T) {
			t.Parallel()
			c := five(t)
			l := open(t, c.url("first_use=true&request_timeout=5s"))
			ctx := t.Context()
			c.warm(t, l)
			lose := func() {
				for _, p := range c.proxies[:n] {
					p.LoseReply("evalsha", "get")
				}
			}
			// fine says whether a call did what it should, and the lost replies were lost.
			fine := func(name string, err error) bool {
				t.Helper()
				if err == nil || n == 5 && errors.Is(err, locker.ErrUnavailable) {
					return err == nil
				}
				t.Errorf("%s: %v", name, err)
				return false
			}
			for range 3 {
				lose()
				lease, err := l.Acquire(ctx, "k", ttl)
				if !fine("acquire", err) {
					c.empty(t, 0, 1, 2, 3, 4)
					lease = mustAcquire(t, l, "k")
				}
				lose()
				if renewed, err := l.Renew(ctx, lease, ttl); fine("renew", err) {
					lease = renewed
				}
				lose()
				token, err := l.FenceToken(ctx, lease)
				if fine("fence", err) && token != lease.Token {
					t.Errorf("fence = %d, want %d", token, lease.Token)
				}
				lose()
				fine("release", l.Release(ctx, lease))
				c.empty(t, 0, 1, 2, 3, 4)
			}
		})
	}
}

// jepsen etcd lock.clj: a request that had timed out was carried out later. Here one node's
// vote is still on its way when the lock is given back, and arrives after that.
func TestVoteAfterRelease(t *testing.T) {
	t.Parallel()
	c := five(t)
	l := open(t, c.url("first_use=true&request_timeout=300ms"))
	ctx := t.Context()
	c.warm(t, l)
	deliver := c.proxies[2].HoldRequest("evalsha")
	lease := mustAcquire(t, l, "k")
	mustRelease(t, l, lease)
	// The vote counts as lost after the limit, and is undone on another connection.
	fence := func() string {
		return c.client(t, 2).Get(ctx, redisnode.KeysOf("locker", "k").Fence).Val()
	}
	until(t, "the fence of the late node is above the token", func() bool { return fence() > fmt.Sprint(lease.Token) })
	before := c.calls(t, 2)
	deliver()
	until(t, "the late vote arrives", func() bool { return c.calls(t, 2) > before })
	if locks := c.locks(t, 2); len(locks) != 0 {
		t.Errorf("the late vote took the lock: %q", locks)
	}
	next := mustAcquire(t, l, "k")
	if next.Token <= lease.Token {
		t.Errorf("the next token is %d, after %d", next.Token, lease.Token)
	}
	mustRelease(t, l, next)
}

// A vote whose reply was lost stays if the attempt was won. It was undone: then a renewal
// could count on it, and lose it to the undoing, which was still under way.
func TestUnknownVotesStay(t *testing.T) {
	t.Parallel()
	c := five(t)
	l := open(t, c.url("first_use=true&request_timeout=5s"))
	c.warm(t, l)
	for _, p := range c.proxies[:2] {
		p.LoseReply("evalsha")
	}
	mustAcquire(t, l, "k")
	if err := l.Close(); err != nil { // waits for what is left to the background
		t.Fatal(err)
	}
	for i := range c.servers {
		if locks := c.locks(t, i); len(locks) != 1 {
			t.Errorf("node %d has the locks %q, want the one that was granted", i, locks)
		}
	}
}

// redsync: the clean-up of a failed attempt ran on the caller's cancelled context, and
// the key stayed for its whole TTL. Two of three nodes are held by a stranger, and the third
// is late.
func TestCancelledWhileHeld(t *testing.T) {
	t.Parallel()
	c := start(t, 3)
	l := open(t, c.url("first_use=true&request_timeout=5s"))
	c.warm(t, l)
	for i := range 2 {
		if err := c.client(t, i).Set(t.Context(), "locker:k", "a stranger's", 0).Err(); err != nil {
			t.Fatal(err)
		}
	}
	c.proxies[2].Delay(100 * time.Millisecond)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := l.Acquire(ctx, "k", ttl)
	if !errors.Is(err, locker.ErrHeld) && !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("acquire = %v, want ErrHeld or the context's error", err)
	}
	c.empty(t, 2)
}

// An acquire that is cancelled, whenever that is, has the lock or leaves none anywhere.
// redsync#164, redislock#79: and it says that it was cancelled.
func TestCancelledAtEachStep(t *testing.T) {
	t.Parallel()
	c := five(t)
	l := open(t, c.url("first_use=true&request_timeout=5s"))
	c.warm(t, l)
	c.delay(10 * time.Millisecond)
	for after := time.Duration(0); after < 30*time.Millisecond; after += 3 * time.Millisecond {
		key := fmt.Sprint("k", after)
		ctx, cancel := context.WithTimeout(t.Context(), after)
		lease, err := l.Acquire(ctx, key, ttl)
		cancel()
		if err == nil {
			mustRelease(t, l, lease)
		} else if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, locker.ErrUnavailable) {
			t.Errorf("acquire that is cancelled after %s = %v; want ErrUnavailable and the context's error", after, err)
		}
		// At once, since a cancelled attempt is undone before the call returns.
		other, err := l.Acquire(t.Context(), key, ttl)
		if err != nil {
			t.Errorf("acquire after one that was cancelled after %s: %v", after, err)
			continue
		}
		ctx, cancel = context.WithTimeout(t.Context(), after)
		if _, err := l.Renew(ctx, other, ttl); err != nil && !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("renewal that is cancelled after %s = %v", after, err)
		}
		if _, err := l.FenceToken(ctx, other); err != nil && !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("fence that is cancelled after %s = %v", after, err)
		}
		if err := l.Release(ctx, other); err != nil && !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("release that is cancelled after %s = %v", after, err)
		} else if err != nil && errors.Is(err, locker.ErrNotHeld) {
			t.Errorf("release that is cancelled after %s says that the lock was not held: %v", after, err)
		}
		cancel()
		if err := l.Release(t.Context(), other); err != nil && !errors.Is(err, locker.ErrNotHeld) {
			t.Errorf("release: %v", err)
		}
	}
	c.delay(0)
	c.empty(t, 0, 1, 2, 3, 4)
}

// node-redlock#296: acquiring took longer than the TTL, and the lock was returned.
func TestSlowerThanItsTTL(t *testing.T) {
	t.Parallel()
	c := five(t)
	l := open(t, c.url("first_use=true&request_timeout=5s"))
	c.warm(t, l)
	c.delay(150 * time.Millisecond)
	lease, err := l.Acquire(t.Context(), "k", 100*time.Millisecond)
	if !errors.Is(err, locker.ErrUnavailable) || !strings.Contains(err.Error(), "longer TTL") {
		t.Errorf("acquire = %v, %v; want ErrUnavailable that says to use a longer TTL", lease, err)
	}
	c.delay(0)
	c.empty(t, 0, 1, 2, 3, 4)
}

// redlock-py#3: the drift had the wrong sign. The validity is what is left of the TTL since
// before the requests were sent, less 1 % and 2 ms.
func TestValidity(t *testing.T) {
	t.Parallel()
	c := five(t)
	l := open(t, c.url("first_use=true&request_timeout=5s"))
	c.warm(t, l)
	const delay = 50 * time.Millisecond
	c.delay(delay)
	lease := mustAcquire(t, l, "k")
	if left := lease.Remaining(); left > ttl-delay-ttl/100-2*time.Millisecond {
		t.Errorf("the lease has %s left after an acquire that took %s and more", left, delay)
	}
	c.delay(0)
	mustRelease(t, l, lease)
}
