package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/locker-go/locker"
	"github.com/locker-go/locker/redlock"
)

// ttl is longer than tests wait for anything: what is gone was given back.
const ttl = 50 * time.Second

// client returns a client of a server itself, past its proxy.
func (c *nodes) client(t testing.TB, i int) *redis.Client {
	t.Helper()
	client := redis.NewClient(&redis.Options{Addr: c.servers[i].Addr(), DisableIdentity: true})
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// locks returns the locks on a server.
func (c *nodes) locks(t testing.TB, i int) []string {
	t.Helper()
	names, err := c.client(t, i).Keys(context.WithoutCancel(t.Context()), "*").Result()
	if err != nil {
		t.Fatalf("keys of node %d: %v", i, err)
	}
	var locks []string
	for _, name := range names {
		if !strings.Contains(name, "\x00") {
			locks = append(locks, name)
		}
	}
	return locks
}

// empty waits until none of the servers has a lock.
func (c *nodes) empty(t testing.TB, servers ...int) {
	t.Helper()
	for _, i := range servers {
		until(t, fmt.Sprintf("node %d has no lock", i), func() bool { return len(c.locks(t, i)) == 0 })
	}
}

func mustAcquire(t testing.TB, l locker.Locker, key string) locker.Lease {
	t.Helper()
	lease, err := l.Acquire(t.Context(), key, ttl)
	if err != nil {
		t.Fatalf("acquire: %v", err)
	}
	return lease
}

func mustRelease(t testing.TB, l locker.Locker, lease locker.Lease) {
	t.Helper()
	if err := l.Release(t.Context(), lease); err != nil {
		t.Fatalf("release: %v", err)
	}
}

// disturbances are what can happen to a node. Each returns how it ends.
var disturbances = []struct {
	name    string
	disturb func(c *nodes, i int) (end func())
}{
	{"killed", func(c *nodes, i int) func() { c.servers[i].Kill(); return c.servers[i].StartAgain }},
	{"stopped", func(c *nodes, i int) func() { c.servers[i].Pause(); return c.servers[i].Resume }},
	{"silent", func(c *nodes, i int) func() { return c.proxies[i].Stall() }},
	{"delayed", func(c *nodes, i int) func() {
		c.proxies[i].Delay(300 * time.Millisecond)
		return func() { c.proxies[i].Delay(0) }
	}},
	{"cut off", func(c *nodes, i int) func() { c.proxies[i].Cut(); return c.proxies[i].Heal }},
	{"flushed", func(c *nodes, i int) func() {
		client := redis.NewClient(&redis.Options{Addr: c.servers[i].Addr()})
		defer client.Close()
		client.FlushAll(context.Background())
		return func() {}
	}},
	{"started again without data", func(c *nodes, i int) func() { c.servers[i].Restart(false); return func() {} }},
	{"started again with its data", func(c *nodes, i int) func() { c.servers[i].Restart(true); return func() {} }},
}

// Whatever happens to a minority, a holder keeps its lock, a rival is refused, the lock
// is given back and taken again with a higher token, and nobody waits for the limit.
func TestMinorityFails(t *testing.T) {
	t.Parallel()
	for _, d := range disturbances {
		for n := 1; n <= 2; n++ {
			t.Run(fmt.Sprintf("%d %s", n, d.name), func(t *testing.T) {
				t.Parallel()
				c := five(t)
				const limit = 5 * time.Second
				l := open(t, c.url("first_use=true&request_timeout=5s"))
				rival := open(t, c.url("request_timeout=5s"))
				ctx := t.Context()
				lease := mustAcquire(t, l, "k")
				if _, err := rival.FenceToken(ctx, lease); err != nil { // connects
					t.Fatal(err)
				}
				start := time.Now()
				var ends []func()
				for i := range n {
					ends = append(ends, d.disturb(c, 2*i))
				}
				lease, err := l.Renew(ctx, lease, ttl)
				if err != nil {
					t.Errorf("renew: %v", err)
				}
				if token, err := rival.FenceToken(ctx, lease); err != nil || token != lease.Token {
					t.Errorf("fence = %d, %v; want %d", token, err, lease.Token)
				}
				if _, err := rival.Acquire(ctx, "k", ttl); !errors.Is(err, locker.ErrHeld) {
					t.Errorf("a rival's acquire = %v, want ErrHeld", err)
				}
				if err := l.Release(ctx, lease); err != nil {
					t.Errorf("release: %v", err)
				}
				next, err := rival.Acquire(ctx, "k", ttl)
				if err != nil || next.Token <= lease.Token {
					t.Errorf("the rival's acquire after the release = token %d, %v; want one above %d", next.Token, err, lease.Token)
				}
				if err := rival.Release(ctx, next); err != nil {
					t.Errorf("its release: %v", err)
				}
				if took := time.Since(start); d.name != "started again with its data" && d.name != "started again without data" && took > limit {
					t.Errorf("all that took %s, longer than the limit of one request", took)
				}
				for _, end := range ends {
					end()
				}
				later := mustAcquire(t, l, "k")
				if later.Token <= next.Token {
					t.Errorf("the token after the end of it is %d, want one above %d", later.Token, next.Token)
				}
				mustRelease(t, l, later)
				c.empty(t, 1, 3)
			})
		}
	}
}

// Without a majority no call succeeds. Each ends in bounded time and names the nodes, and
// those that are left keep nothing.
func TestMajorityFails(t *testing.T) {
	t.Parallel()
	for _, d := range disturbances[:3] {
		t.Run("three "+d.name, func(t *testing.T) {
			t.Parallel()
			c := five(t)
			l := open(t, c.url("first_use=true&request_timeout=500ms"))
			ctx := t.Context()
			lease := mustAcquire(t, l, "held")
			for i := range 3 {
				defer d.disturb(c, i)()
			}
			calls := map[string]func() error{
				"acquire": func() error { _, err := l.Acquire(ctx, "k", ttl); return err },
				"renew":   func() error { _, err := l.Renew(ctx, lease, ttl); return err },
				"fence":   func() error { _, err := l.FenceToken(ctx, lease); return err },
				"release": func() error { return l.Release(ctx, lease) },
				"inspect": func() error { _, err := l.Inspect(ctx, "held"); return err },
				"raise":   func() error { return l.Raise(ctx, "k", lease.Token) },
				"mark":    func() error { _, err := l.HighWater(ctx); return err },
			}
			for name, call := range calls {
				start := time.Now()
				err := call()
				if !errors.Is(err, locker.ErrUnavailable) || errors.Is(err, locker.ErrNotHeld) || errors.Is(err, locker.ErrHeld) {
					t.Errorf("%s = %v, want ErrUnavailable and nothing else", name, err)
					continue
				}
				if took := time.Since(start); took > 10*time.Second {
					t.Errorf("%s took %s", name, took)
				}
				for i := range 3 {
					if !strings.Contains(err.Error(), c.proxies[i].Addr()) {
						t.Errorf("%s does not name the node %s: %v", name, c.proxies[i].Addr(), err)
					}
				}
			}
			c.empty(t, 3, 4)
			if d.name == "stopped" || d.name == "silent" {
				if _, err := l.Acquire(ctx, "k", ttl); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("acquire = %v; the cause of each node must be beneath it", err)
				}
			}
		})
	}
}

// An acquire asks each node once, and so does each other call.
func TestRequests(t *testing.T) {
	t.Parallel()
	c := five(t)
	l := open(t, c.url("first_use=true&request_timeout=5s"))
	ctx := t.Context()
	// What is sent to connect depends on how many requests are under way at once.
	requests := func() []string {
		var all []string
		for _, p := range c.proxies {
			for _, name := range p.Requests() {
				if name != "hello" && name != "info" {
					all = append(all, name)
				}
			}
		}
		return all
	}
	c.warm(t, l)
	var lease locker.Lease
	for _, step := range []struct {
		name, want string
		call       func() error
	}{
		{"acquire", "evalsha", func() (err error) { lease, err = l.Acquire(ctx, "k", ttl); return err }},
		{"acquire of a held lock", "evalsha", func() error {
			if _, err := l.Acquire(ctx, "k", ttl); !errors.Is(err, locker.ErrHeld) {
				return fmt.Errorf("%v, want ErrHeld", err)
			}
			return nil
		}},
		{"renew", "evalsha", func() (err error) { lease, err = l.Renew(ctx, lease, ttl); return err }},
		{"fence", "get", func() error { _, err := l.FenceToken(ctx, lease); return err }},
		{"release", "evalsha", func() error { return l.Release(ctx, lease) }},
	} {
		count := func() (n int) {
			for _, name := range requests() {
				if name == step.want {
					n++
				}
			}
			return n
		}
		before, all := count(), len(requests())
		if err := step.call(); err != nil {
			t.Errorf("%s: %v", step.name, err)
		}
		until(t, step.name+" has asked all nodes", func() bool { return count() >= before+5 })
		// What is yet to come would be there with the next step's.
		if got := len(requests()) - all; got != 5 {
			for _, name := range requests()[all:] {
				t.Logf("%s sent %s", step.name, name)
			}
			t.Errorf("%s took %d requests, want one to each of the five nodes", step.name, got)
		}
	}
}

// calls returns how many scripts that it knew a server was asked for.
func (c *nodes) calls(t *testing.T, i int) int {
	t.Helper()
	n := 0
	for line := range strings.Lines(c.client(t, i).Info(t.Context(), "commandstats").Val()) {
		if _, err := fmt.Sscanf(line, "cmdstat_evalsha:calls=%d", &n); err == nil {
			break
		}
	}
	return n
}

// warm has all nodes know all scripts, and returns when nothing is under way.
func (c *nodes) warm(t *testing.T, l *redlock.Locker) {
	t.Helper()
	for i, s := range c.servers {
		calls := func() int { return c.calls(t, i) }
		until(t, s.String()+" was asked for all", func() bool {
			lease := mustAcquire(t, l, "warm")
			if _, err := l.Renew(t.Context(), lease, ttl); err != nil {
				t.Fatal(err)
			}
			mustRelease(t, l, lease)
			n, same := calls(), 0
			until(t, "nothing is under way", func() bool {
				now := calls()
				if same++; now != n {
					n, same = now, 0
				}
				return same == 25
			})
			return n >= 8 // marked, and voted, renewed and released twice
		})
	}
}

// redsync#169: a script failed to load on one node, and the lock stayed.
func TestScriptFlush(t *testing.T) {
	t.Parallel()
	c := five(t)
	l := open(t, c.url("first_use=true&request_timeout=5s"))
	ctx := t.Context()
	flush := func() {
		t.Helper()
		for i := range c.servers {
			if err := c.client(t, i).ScriptFlush(ctx).Err(); err != nil {
				t.Fatal(err)
			}
		}
	}
	flush()
	lease := mustAcquire(t, l, "k")
	flush()
	if _, err := l.Renew(ctx, lease, ttl); err != nil {
		t.Errorf("renew: %v", err)
	}
	flush()
	if err := l.Raise(ctx, "k", lease.Token); err != nil {
		t.Errorf("raise: %v", err)
	}
	flush()
	mustRelease(t, l, lease)
	c.empty(t, 0, 1, 2, 3, 4)
}

// redsync#149, redsync#186: a node that was started again was never filled, so that
// majorities eroded.
func TestRenewalFillsNodes(t *testing.T) {
	t.Parallel()
	c := five(t)
	l := open(t, c.url("first_use=true&request_timeout=5s"))
	ctx := t.Context()
	lease := mustAcquire(t, l, "k")
	name := c.locks(t, 0)[0]
	held := func(i int) string { return c.client(t, i).Get(ctx, name).Val() }
	for i := range c.servers {
		until(t, "all nodes have the lock", func() bool { return held(i) != "" })
	}
	value := held(0)
	c.servers[0].Restart(false)
	c.client(t, 1).FlushAll(ctx)
	for i := range 2 {
		// Each renewal brings it back; the connections to a node that was started
		// again may take one.
		until(t, fmt.Sprintf("node %d has the lock again", i), func() bool {
			var err error
			if lease, err = l.Renew(ctx, lease, ttl); err != nil {
				t.Fatalf("renew: %v", err)
			}
			return held(i) == value
		})
		if left := c.client(t, i).PTTL(ctx, name).Val(); left > ttl {
			t.Errorf("node %d keeps the lock for %s, longer than the others", i, left)
		}
	}
	// With those two the lock outlives the others.
	c.servers[2].Kill()
	c.servers[3].Kill()
	if _, err := l.Renew(ctx, lease, ttl); err != nil {
		t.Errorf("renew with the nodes that were filled: %v", err)
	}
	mustRelease(t, l, lease)
	c.empty(t, 0, 1, 4)
}

// A lock that others wait for costs no requests beyond their looking now and then.
func TestWaitersAreQuiet(t *testing.T) {
	t.Parallel()
	c := five(t)
	holder := open(t, c.url("first_use=true&request_timeout=5s"))
	lease, err := holder.Acquire(t.Context(), "k", time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	const waiters = 4
	got := make(chan error, waiters)
	for range waiters {
		l := open(t, c.url("request_timeout=5s"))
		go func() {
			lease, err := l.AcquireWait(t.Context(), "k", time.Minute)
			if err == nil {
				err = l.Release(t.Context(), lease)
			}
			got <- err
		}()
	}
	subscribed := func() int {
		n := 0
		for i := range c.servers {
			for _, channel := range c.client(t, i).PubSubChannels(t.Context(), "*").Val() {
				n += int(c.client(t, i).PubSubNumSub(t.Context(), channel).Val()[channel])
			}
		}
		return n
	}
	until(t, "all wait", func() bool { return subscribed() == waiters })
	requests := func() (n int) {
		for _, p := range c.proxies {
			n += len(p.Requests())
		}
		return n
	}
	// What they asked before they were subscribed may still be under way.
	until(t, "they are quiet", func() bool {
		before := requests()
		time.Sleep(300 * time.Millisecond)
		return requests() == before
	})
	before := requests()
	mustRelease(t, holder, lease)
	for range waiters {
		if err := <-got; err != nil {
			t.Errorf("a waiter: %v", err)
		}
	}
	// Some 15 when nothing else runs. Whose turn it is goes by time where messages are late.
	if perGrant := float64(requests()-before) / waiters; perGrant > 100 {
		t.Errorf("a hand-off took %.0f requests to five nodes, want at most 100", perGrant)
	}
}
