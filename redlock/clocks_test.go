package redlock_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/locker-go/locker"
	"github.com/locker-go/locker/internal/testbed"
	"github.com/locker-go/locker/redlock"
)

// One node's clock jumps by a minute or an hour, forward or back, while a lock is held
// and after: it counts as one that fails. No verdict changes, tokens rise, and they stay
// with the clocks of the others.
func TestClockOfANodeJumps(t *testing.T) {
	t.Parallel()
	for _, jump := range []time.Duration{time.Minute, -time.Hour, time.Hour} {
		t.Run(jump.String(), func(t *testing.T) {
			t.Parallel()
			c := new(nodes)
			s, set := testbed.RedisWithClock(t)
			c.servers = append(c.servers, s)
			c.servers = append(c.servers, testbed.Redises(t, 4)...)
			for _, s := range c.servers {
				c.proxies = append(c.proxies, testbed.NewProxy(t, s.Addr(), testbed.RESP))
			}
			var events int
			l := made(t, c.addrs(), &redlock.Options{RequestTimeout: 5 * time.Second, OnEvent: func(e locker.Event) {
				if e.Kind == locker.EventFenceJumped {
					events++
				}
			}})
			rival := made(t, c.addrs(), &redlock.Options{RequestTimeout: 5 * time.Second})
			ctx := t.Context()
			if err := l.FirstUse(ctx); err != nil {
				t.Fatal(err)
			}
			lease := mustAcquire(t, l, "k")
			set(jump)
			clock := func() time.Duration { return time.Until(c.client(t, 0).Time(ctx).Val()) }
			until(t, "the clock of the node has jumped", func() bool { return (clock() - jump).Abs() < 10*time.Second })
			if _, err := rival.Acquire(ctx, "k", ttl); !errors.Is(err, locker.ErrHeld) {
				t.Errorf("acquire of the held lock = %v, want ErrHeld", err)
			}
			lease, err := l.Renew(ctx, lease, ttl)
			if err != nil {
				t.Errorf("renew: %v", err)
			}
			mustRelease(t, l, lease)
			last := lease.Token
			for i := range 6 {
				if i == 3 {
					set(0)
					until(t, "the clock of the node is right again", func() bool { return clock().Abs() < 10*time.Second })
				}
				for _, key := range []string{"k", fmt.Sprint("new", i)} {
					next, err := rival.Acquire(ctx, key, ttl)
					if err != nil {
						t.Fatalf("acquire of %s: %v", key, err)
					}
					if key == "k" && next.Token <= last {
						t.Errorf("token %d after %d", next.Token, last)
					}
					if key == "k" {
						last = next.Token
					}
					if apart := time.Until(time.UnixMicro(int64(next.Token))); apart.Abs() > 10*time.Second {
						t.Errorf("the token of %s is %s from the clock", key, apart)
					}
					mustRelease(t, rival, next)
				}
			}
			if events > 0 {
				t.Errorf("%d events tell of this process's clock, which is right", events)
			}
			// With two others down its vote is needed: then there is no lock, or one with a
			// higher token.
			set(jump)
			until(t, "the clock of the node has jumped", func() bool { return (clock() - jump).Abs() < 10*time.Second })
			c.servers[4].Kill()
			c.servers[3].Kill()
			next, err := rival.Acquire(ctx, "k", ttl)
			if err == nil && next.Token <= last {
				t.Errorf("with the node's vote needed the token is %d after %d", next.Token, last)
			}
			if err != nil && !errors.Is(err, locker.ErrUnavailable) && !errors.Is(err, locker.ErrHeld) {
				t.Errorf("with the node's vote needed: %v", err)
			}
		})
	}
}
