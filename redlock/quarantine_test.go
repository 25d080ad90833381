package redlock_test

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/locker-go/locker"
	"github.com/locker-go/locker/redlock"
)

// wipe has a server forget everything, one way or another.
var wipes = map[string]func(t *testing.T, c *nodes, i int){
	"flushed":                     func(t *testing.T, c *nodes, i int) { c.client(t, i).FlushAll(t.Context()) },
	"started again without data":  func(t *testing.T, c *nodes, i int) { c.servers[i].Restart(false) },
	"started again with old data": func(t *testing.T, c *nodes, i int) { c.servers[i].Restart(true) },
}

// A node that may have forgotten its vote gives none to anybody else until the lease is
// over, whoever asks, with connections of before or new ones. It says why and for how
// long, and still renews and releases.
func TestForgetfulNodesDoNotVote(t *testing.T) {
	t.Parallel()
	for name, wipe := range wipes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const maxTTL = 3 * time.Second
			// A snapshot has the marker, and not the locks that came after it.
			c := start(t, 5, "--appendonly", "no")
			params := "max_ttl=3s&request_timeout=5s"
			holder := open(t, c.url("first_use=true&"+params))
			var mu sync.Mutex
			var events []locker.Event
			rival := made(t, c.addrs(), &redlock.Options{
				MaxTTL: maxTTL, RequestTimeout: 5 * time.Second,
				OnEvent: func(e locker.Event) { mu.Lock(); defer mu.Unlock(); events = append(events, e) },
			})
			if _, err := rival.Acquire(t.Context(), "other", maxTTL); err != nil { // has connections
				t.Fatal(err)
			}
			for i := range c.servers {
				if name == "started again with old data" {
					c.client(t, i).Save(t.Context())
				}
			}
			// The lock has the votes of 0, 1 and 2, and those forget it, one or all.
			for i := 3; i < 5; i++ {
				if err := c.client(t, i).Set(t.Context(), "locker:k", "a stranger's", 0).Err(); err != nil {
					t.Fatal(err)
				}
			}
			lease, err := holder.Acquire(t.Context(), "k", maxTTL)
			if err != nil {
				t.Fatal(err)
			}
			for i := 3; i < 5; i++ {
				c.client(t, i).Del(t.Context(), "locker:k")
			}
			for i := range 3 {
				wipe(t, c, i)
			}
			for who, l := range map[string]*redlock.Locker{"a client of before": rival, "a new client": made(t, c.addrs(), &redlock.Options{MaxTTL: maxTTL, RequestTimeout: 5 * time.Second})} {
				_, err := l.Acquire(t.Context(), "k", maxTTL)
				q, ok := errors.AsType[*redlock.QuarantineError](err)
				if !errors.Is(err, locker.ErrUnavailable) || !ok {
					t.Fatalf("%s: acquire = %v; want ErrUnavailable with a QuarantineError", who, err)
				}
				if q.Remaining <= 0 || q.Remaining > maxTTL+2*time.Second || q.Reason == "" || !strings.Contains(err.Error(), q.Addr) {
					t.Errorf("%s: the error is %v, of %+v; want the reason, and the time that is left", who, err, q)
				}
			}
			mu.Lock()
			quarantined := 0
			for _, e := range events {
				if e.Kind == locker.EventNodeQuarantined {
					quarantined++
				}
			}
			mu.Unlock()
			if quarantined < 3 {
				t.Errorf("%d events tell of nodes that give no votes, want one for each of three: %v", quarantined, events)
			}
			// When somebody else gets the lock, the lease is over, and its token lower.
			var next locker.Lease
			until(t, "somebody else gets the lock", func() bool {
				next, err = rival.Acquire(t.Context(), "k", maxTTL)
				return err == nil
			})
			if left := lease.Remaining(); left > 0 {
				t.Errorf("somebody else got the lock %s before the lease was over", left)
			}
			if next.Token <= lease.Token {
				t.Errorf("the next token is %d, after %d", next.Token, lease.Token)
			}
			mustRelease(t, rival, next)
		})
	}
}

func (c *nodes) addrs() []string {
	var list []string
	for _, p := range c.proxies {
		list = append(list, p.Addr())
	}
	return list
}

// One node that forgot everything neither votes nor stands in the way of a renewal and a
// release, and has its part in both.
func TestForgetfulNodeRenewsAndReleases(t *testing.T) {
	t.Parallel()
	c := five(t)
	l := open(t, c.url("first_use=true&request_timeout=5s"))
	ctx := t.Context()
	lease := mustAcquire(t, l, "k")
	c.servers[0].Restart(false)
	c.servers[1].Restart(false)
	until(t, "both have the lock again", func() bool {
		var err error
		if lease, err = l.Renew(ctx, lease, ttl); err != nil {
			t.Fatalf("renew: %v", err)
		}
		return len(c.locks(t, 0)) == 1 && len(c.locks(t, 1)) == 1
	})
	// Now their answers decide.
	c.servers[3].Kill()
	c.servers[4].Kill()
	if _, err := l.Renew(ctx, lease, ttl); err != nil {
		t.Errorf("renew: %v", err)
	}
	mustRelease(t, l, lease)
	if _, err := l.Acquire(ctx, "k", ttl); !errors.Is(err, locker.ErrUnavailable) {
		t.Errorf("acquire with one vote of three = %v, want ErrUnavailable", err)
	}
}

// A node that has on its disk all that it answered for goes on voting.
func TestDurableNodesVoteAtOnce(t *testing.T) {
	t.Parallel()
	c := five(t)
	l := open(t, c.url("first_use=true&request_timeout=5s"))
	lease := mustAcquire(t, l, "k")
	c.restart(true)
	if _, err := l.Acquire(t.Context(), "k", ttl); !errors.Is(err, locker.ErrHeld) {
		t.Errorf("acquire of the held lock = %v, want ErrHeld", err)
	}
	next := mustAcquire(t, l, "other")
	mustRelease(t, l, next)
	mustRelease(t, l, lease)
}

// Five nodes that lost everything look like five new ones. They wait until all that they
// may have granted is over, unless it is declared that there was nothing; and that is
// believed only if all of them answer, and none was ever used.
func TestFirstUse(t *testing.T) {
	t.Parallel()
	const maxTTL = 2 * time.Second
	params := "max_ttl=2s&request_timeout=5s"
	c := five(t)
	ctx := t.Context()
	first := open(t, c.url("first_use=true&"+params))
	lease, err := first.Acquire(ctx, "k", maxTTL)
	if err != nil {
		t.Fatalf("acquire on new nodes, which were declared so: %v", err)
	}
	c.restart(false) // all of them at once
	second := open(t, c.url(params))
	if _, err := second.Acquire(ctx, "k", maxTTL); !errors.Is(err, locker.ErrUnavailable) || lease.Remaining() == 0 {
		t.Fatalf("acquire on wiped nodes, while a lease has %s left = %v; want ErrUnavailable", lease.Remaining(), err)
	}
	// They are marked by now: it is too late to declare anything.
	third := open(t, c.url("first_use=true&"+params))
	if _, err := third.Acquire(ctx, "k", maxTTL); !errors.Is(err, locker.ErrUnavailable) {
		t.Errorf("acquire on wiped nodes, which were declared new = %v; want ErrUnavailable", err)
	}
	var next locker.Lease
	until(t, "the nodes vote", func() bool { next, err = second.Acquire(ctx, "k", maxTTL); return err == nil })
	if left := lease.Remaining(); left > 0 || next.Token <= lease.Token {
		t.Errorf("token %d was granted %s before the end of the lease with token %d", next.Token, left, lease.Token)
	}

	// One that does not answer may be the one that knows.
	d := five(t)
	d.servers[2].Pause()
	l := made(t, d.addrs(), &redlock.Options{MaxTTL: maxTTL, RequestTimeout: 300 * time.Millisecond})
	if err := l.FirstUse(ctx); !errors.Is(err, locker.ErrUnavailable) || !strings.Contains(err.Error(), d.proxies[2].Addr()) {
		t.Errorf("first use with a silent node = %v; want ErrUnavailable that names it", err)
	}
	d.servers[2].Resume()
}

// What was never written to has forgotten nothing since it was started: so new nodes
// need no declaration once they have run for as long as a lease can last.
func TestUnusedNodesVote(t *testing.T) {
	t.Parallel()
	c := five(t)
	l := made(t, c.addrs(), &redlock.Options{MaxTTL: time.Second, RequestTimeout: 5 * time.Second})
	started := time.Now()
	until(t, "they vote", func() bool {
		lease, err := l.Acquire(t.Context(), "k", time.Second)
		if err == nil {
			mustRelease(t, l, lease)
		}
		return err == nil
	})
	if took := time.Since(started); took > 10*time.Second {
		t.Errorf("that took %s", took)
	}
}
