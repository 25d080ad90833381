package redis_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/locker-go/locker"
	"github.com/locker-go/locker/internal/testbed"
	lockredis "github.com/locker-go/locker/redis"
)

// until waits for a condition, and fails the test if it does not come.
func until(t testing.TB, what string, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !condition(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain until %s", what)
		}
	}
}

// calls returns how often the server was sent the commands. Scripts' own calls
// count as well, but none calls those that are asked for here.
func calls(t testing.TB, c *redis.Client, commands ...string) int {
	t.Helper()
	info, err := c.Info(context.WithoutCancel(t.Context()), "commandstats").Result()
	if err != nil {
		t.Fatalf("info: %v", err)
	}
	total := 0
	for line := range strings.Lines(info) {
		for _, command := range commands {
			var n int
			if _, err := fmt.Sscanf(line, "cmdstat_"+command+":calls=%d", &n); err == nil {
				total += n
			}
		}
	}
	return total
}

// leftBehind returns the locks on a server.
func leftBehind(t testing.TB, c *redis.Client) []string {
	t.Helper()
	var locks []string
	names, err := c.Keys(context.WithoutCancel(t.Context()), "*").Result()
	if err != nil {
		t.Fatalf("keys: %v", err)
	}
	for _, name := range names {
		if !strings.Contains(name, "\x00") {
			locks = append(locks, name)
		}
	}
	return locks
}

// Each operation is one request, and an acquire that waits for nobody two with its
// release. A server that forgets the scripts costs one more, once.
func TestRequests(t *testing.T) {
	server := testbed.Redis(t)
	c := connect(t, server.Addr())
	l := on(t, c, nil)
	ctx := t.Context()
	warm := mustAcquire(t, l, "warm")
	for _, err := range []error{second(l.Renew(ctx, warm, testTTL)), l.Release(ctx, warm)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	proxy := testbed.NewProxy(t, server.Addr(), testbed.RESP)
	counted := on(t, connect(t, proxy.Addr()), nil)
	mustAcquire(t, counted, "connect")

	var lease locker.Lease
	steps := []struct {
		name string
		want []string
		call func() error
	}{
		{"acquire", []string{"evalsha"}, func() (err error) { lease, err = counted.Acquire(ctx, "k", testTTL); return err }},
		{"acquire of a held lock", []string{"evalsha"}, func() error {
			if _, err := counted.Acquire(ctx, "k", testTTL); !errors.Is(err, locker.ErrHeld) {
				return fmt.Errorf("%v, want ErrHeld", err)
			}
			return nil
		}},
		{"renew", []string{"evalsha"}, func() error { return second(counted.Renew(ctx, lease, testTTL)) }},
		{"fence", []string{"get"}, func() error { return second(counted.FenceToken(ctx, lease)) }},
		{"release", []string{"evalsha"}, func() error { return counted.Release(ctx, lease) }},
		{"wait for a free lock", []string{"evalsha"}, func() (err error) { lease, err = counted.AcquireWait(ctx, "k", testTTL); return err }},
		{"raise", []string{"evalsha", "eval"}, func() error { return counted.Raise(ctx, "k", lease.Token) }},
		{"invalid", nil, func() error {
			if _, err := counted.Acquire(ctx, "", testTTL); !errors.Is(err, locker.ErrInvalid) {
				return fmt.Errorf("%v, want ErrInvalid", err)
			}
			return nil
		}},
	}
	for _, step := range steps {
		before := len(proxy.Requests())
		if err := step.call(); err != nil {
			t.Errorf("%s: %v", step.name, err)
		}
		if got := proxy.Requests()[before:]; strings.Join(got, " ") != strings.Join(step.want, " ") {
			t.Errorf("%s sent %q, want %q", step.name, got, step.want)
		}
	}
	if err := c.ScriptFlush(ctx).Err(); err != nil {
		t.Fatal(err)
	}
	if _, err := counted.Renew(ctx, lease, testTTL); err != nil {
		t.Errorf("renew after SCRIPT FLUSH: %v", err)
	}
	if err := counted.Release(ctx, lease); err != nil {
		t.Errorf("release after SCRIPT FLUSH: %v", err)
	}
}

// rueidis#925: the reply of a successful acquire was lost, the client tried again,
// found its own key, and reported it as held by others. dynamolock#280: a renewal
// was applied, its reply lost, and the next compare failed.
func TestLostReplies(t *testing.T) {
	server := testbed.Redis(t)
	c := connect(t, server.Addr())
	proxy := testbed.NewProxy(t, server.Addr(), testbed.RESP)
	l := on(t, connect(t, proxy.Addr()), nil)
	ctx := t.Context()
	mustAcquire(t, l, "warm")

	proxy.LoseReply("evalsha")
	lease, err := l.Acquire(ctx, "k", testTTL)
	if err != nil {
		t.Fatalf("acquire with a lost reply: %v", err)
	}
	if got, err := l.FenceToken(ctx, lease); err != nil || got != lease.Token {
		t.Errorf("the lease after a lost reply has token %d, %v; want %d", got, err, lease.Token)
	}
	proxy.LoseReply("evalsha")
	if lease, err = l.Renew(ctx, lease, testTTL); err != nil {
		t.Errorf("renew with a lost reply: %v", err)
	}
	proxy.LoseReply("evalsha")
	if err := l.Release(ctx, lease); err != nil {
		t.Errorf("release with a lost reply: %v", err)
	}
	if err := l.Release(ctx, lease); !errors.Is(err, locker.ErrNotHeld) {
		t.Errorf("a second release = %v, want ErrNotHeld", err)
	}
	if got := leftBehind(t, c); len(got) != 1 {
		t.Errorf("the server has the locks %q, want only the first", got)
	}
}

// jepsen etcd lock.clj: an acquire that timed out completed later and jammed the
// lock. Here the request is held back in the network until the caller has given
// up and its clean-up has passed on another connection.
func TestLateRequest(t *testing.T) {
	t.Parallel()
	server := testbed.Redis(t)
	c := connect(t, server.Addr())
	proxy := testbed.NewProxy(t, server.Addr(), testbed.RESP)
	l := on(t, connect(t, proxy.Addr()), &lockredis.Options{RequestTimeout: 5 * time.Second})
	mustAcquire(t, l, "warm")

	deliver := proxy.HoldRequest("evalsha")
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err := l.Acquire(ctx, "k", testTTL)
	if !errors.Is(err, locker.ErrUnavailable) || !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("acquire = %v, want ErrUnavailable and DeadlineExceeded", err)
	}
	before := calls(t, c, "evalsha", "eval")
	deliver()
	until(t, "the late request arrives", func() bool { return calls(t, c, "evalsha", "eval") > before })
	if got := leftBehind(t, c); len(got) != 1 {
		t.Errorf("the late request took the lock: %q", got)
	}
	mustAcquire(t, l, "k")
}

// redsync: the clean-up ran on the caller's cancelled context, so that the key stayed
// for its whole TTL. redsync#164: the reason was lost.
func TestCancelled(t *testing.T) {
	t.Parallel()
	server := testbed.Redis(t)
	c := connect(t, server.Addr())
	proxy := testbed.NewProxy(t, server.Addr(), testbed.RESP)
	l := on(t, connect(t, proxy.Addr()), &lockredis.Options{RequestTimeout: 5 * time.Second})
	mustAcquire(t, l, "warm")
	proxy.Delay(100 * time.Millisecond)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := l.Acquire(ctx, "k", testTTL)
	if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, locker.ErrUnavailable) {
		t.Errorf("acquire = %v, want ErrUnavailable and DeadlineExceeded", err)
	}
	if got := leftBehind(t, c); len(got) != 1 {
		t.Errorf("left behind: %q", got[1:])
	}
}

// go-redis#2215: requests in flight do not heed their context.
func TestStalledServer(t *testing.T) {
	t.Parallel()
	server := testbed.Redis(t)
	const limit = 200 * time.Millisecond
	cluster := redis.NewClusterClient(&redis.ClusterOptions{
		Addrs:       []string{server.Addr()},
		ReadTimeout: 2 * time.Second,
		ClusterSlots: func(context.Context) ([]redis.ClusterSlot, error) {
			return []redis.ClusterSlot{{Start: 0, End: 16383, Nodes: []redis.ClusterNode{{Addr: server.Addr()}}}}, nil
		},
	})
	defer cluster.Close()
	for name, client := range map[string]redis.UniversalClient{"single": connect(t, server.Addr()), "cluster": cluster} {
		t.Run(name, func(t *testing.T) {
			l := on(t, client, &lockredis.Options{RequestTimeout: limit})
			lease := mustAcquire(t, l, name)
			server.Pause()
			defer server.Resume()
			for op, call := range map[string]func() error{
				"acquire": func() error { return second(l.Acquire(t.Context(), "other", testTTL)) },
				"renew":   func() error { return second(l.Renew(t.Context(), lease, testTTL)) },
				"release": func() error { return l.Release(t.Context(), lease) },
				"fence":   func() error { return second(l.FenceToken(t.Context(), lease)) },
				"inspect": func() error { return second(l.Inspect(t.Context(), name)) },
				"break":   func() error { return l.Break(t.Context(), lease.Holding()) },
				"raise":   func() error { return l.Raise(t.Context(), name, 1) },
			} {
				start := time.Now()
				err := call()
				if !errors.Is(err, locker.ErrUnavailable) || !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("%s = %v, want ErrUnavailable and DeadlineExceeded", op, err)
				}
				if took := time.Since(start); took > 10*limit {
					t.Errorf("%s took %s with a limit of %s a request", op, took, limit)
				}
			}
		})
	}
}

func TestUnusableServers(t *testing.T) {
	t.Parallel()
	down, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = down.Close()
	master := testbed.Redis(t)
	locked := testbed.Redis(t, "--requirepass", "right")
	full := testbed.Redis(t, "--maxmemory-policy", "noeviction")
	tests := []struct {
		name string
		addr string
		pass string
		says string
		set  func(*redis.Client)
	}{
		{name: "down", addr: down.Addr().String(), says: "refused"},
		{name: "no password", addr: locked.Addr(), says: "wants a password"},
		{name: "wrong password", addr: locked.Addr(), pass: "canary", says: "password is wrong"},
		{name: "replica", addr: testbed.RedisReplica(t, master).Addr(), says: "is a replica"},
		{name: "out of memory", addr: full.Addr(), says: "out of memory", set: func(c *redis.Client) { c.ConfigSet(t.Context(), "maxmemory", "1") }},
		{name: "another type", addr: master.Addr(), says: "another type", set: func(c *redis.Client) { c.LPush(t.Context(), "locker:k", "x") }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := redis.NewClient(&redis.Options{Addr: tt.addr, Password: tt.pass, DialerRetries: 1})
			defer c.Close()
			if tt.set != nil {
				tt.set(c)
			}
			l := on(t, c, nil)
			start := time.Now()
			_, err := l.Acquire(t.Context(), "k", testTTL)
			if !errors.Is(err, locker.ErrUnavailable) || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("acquire = %v; want ErrUnavailable that says %q", err, tt.says)
			}
			if strings.Contains(fmt.Sprint(err), "canary") {
				t.Errorf("%v shows the password", err)
			}
			if took := time.Since(start); took > 10*time.Second {
				t.Errorf("it took %s", took)
			}
		})
	}
}

// A server without room refuses new locks, but those that stand can be renewed and
// released.
func TestOutOfMemory(t *testing.T) {
	t.Parallel()
	server := testbed.Redis(t, "--maxmemory-policy", "noeviction")
	c := connect(t, server.Addr())
	l := on(t, c, nil)
	ctx := t.Context()
	lease := mustAcquire(t, l, "k")
	if err := c.ConfigSet(ctx, "maxmemory", "1").Err(); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Renew(ctx, lease, testTTL); err != nil {
		t.Errorf("renew: %v", err)
	}
	if _, err := l.FenceToken(ctx, lease); err != nil {
		t.Errorf("fence: %v", err)
	}
	if err := l.Release(ctx, lease); err != nil {
		t.Errorf("release: %v", err)
	}
	if got := leftBehind(t, c); len(got) != 0 {
		t.Errorf("left behind: %q", got)
	}
}

// A server that loses its data, or its scripts, while clients hold and wait: tokens
// still rise, the holder learns of the loss, the waiters go on, and nobody asks in
// a busy loop.
func TestDataLoss(t *testing.T) {
	for name, lose := range map[string]func(*testing.T, *testbed.Server, *redis.Client){
		"FLUSHALL":     func(t *testing.T, _ *testbed.Server, c *redis.Client) { c.FlushAll(t.Context()) },
		"SCRIPT FLUSH": func(t *testing.T, _ *testbed.Server, c *redis.Client) { c.ScriptFlush(t.Context()) },
		"restart":      func(t *testing.T, s *testbed.Server, _ *redis.Client) { s.Restart(false) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := testbed.Redis(t)
			c := connect(t, server.Addr())
			holder := on(t, connect(t, server.Addr()), nil)
			lease := mustAcquire(t, holder, "k")
			const waiters = 3
			tokens := make(chan locker.Token, waiters)
			var wg sync.WaitGroup
			for range waiters {
				l := on(t, connect(t, server.Addr()), nil)
				wg.Go(func() {
					next, err := l.AcquireWait(t.Context(), "k", testTTL)
					if err != nil {
						t.Errorf("wait: %v", err)
						return
					}
					tokens <- next.Token
					if err := l.Release(t.Context(), next); err != nil {
						t.Errorf("release: %v", err)
					}
				})
			}
			until(t, "all wait", func() bool { return listening(t, c, "locker:k") == waiters })
			lose(t, server, c)
			if name == "SCRIPT FLUSH" {
				if err := holder.Release(t.Context(), lease); err != nil {
					t.Errorf("release: %v", err)
				}
			} else if _, err := holder.Renew(t.Context(), lease, testTTL); !errors.Is(err, locker.ErrNotHeld) {
				t.Errorf("renew after the loss = %v, want ErrNotHeld", err)
			}
			wg.Wait()
			close(tokens)
			last := lease.Token
			for token := range tokens {
				if token <= last {
					t.Errorf("token %d after %d", token, last)
				}
				last = token
			}
			// Each of a few waiters asks at most every 125 ms when it hears nothing.
			if n := calls(t, c, "evalsha", "eval"); n > 400 {
				t.Errorf("%d requests to hand the lock to %d waiters", n, waiters)
			}
		})
	}
}

// listening returns how many clients listen for the end of a lock.
func listening(t testing.TB, c *redis.Client, lock string) int {
	t.Helper()
	channel := lock + "\x00released"
	n, err := c.PubSubNumSub(context.WithoutCancel(t.Context()), channel).Result()
	if err != nil {
		return 0 // the server is restarting
	}
	return int(n[channel])
}
