package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/locker-go/locker"
	"github.com/locker-go/locker/internal/testbed"
	"github.com/locker-go/locker/redlock"
)

// What can be seen without asking a server is refused before one is asked.
func TestRefusedAtOnce(t *testing.T) {
	const never = "127.0.0.1:1"
	clients := func(addrs ...string) []*redis.Client {
		var list []*redis.Client
		for _, addr := range addrs {
			c := redis.NewClient(&redis.Options{Addr: addr})
			t.Cleanup(func() { _ = c.Close() })
			list = append(list, c)
		}
		return list
	}
	failover := redis.NewFailoverClient(&redis.FailoverOptions{MasterName: "m", SentinelAddrs: []string{never}})
	t.Cleanup(func() { _ = failover.Close() })
	for _, tt := range []struct {
		name    string
		clients []*redis.Client
		opts    redlock.Options
		text    string
	}{
		{"none", nil, redlock.Options{}, "odd number from 3 to 31"},
		{"one", clients(never), redlock.Options{}, "odd number"},
		{"two", clients("a:1", "b:1"), redlock.Options{}, "odd number"},
		{"four", clients("a:1", "b:1", "c:1", "d:1"), redlock.Options{}, "odd number"},
		{"33", clients(strings.Split(strings.TrimSpace(fmt.Sprintln(strings.Repeat("x ", 33))), " ")...), redlock.Options{}, "odd number"},
		{"one twice", clients("a:1", "b:1", "a:1"), redlock.Options{}, "a:1 is named twice"},
		{"a nil client", append(clients("a:1", "b:1"), nil), redlock.Options{}, "nil"},
		{"a failover client", append(clients("a:1", "b:1"), failover), redlock.Options{}, "failover"},
		{"too few members", clients("a:1", "b:1", "c:1"), redlock.Options{Members: []string{"a", "b"}}, "names 2 nodes"},
		{"a member twice", clients("a:1", "b:1", "c:1"), redlock.Options{Members: []string{"a", "b", "a"}}, "named twice"},
		{"a member without a name", clients("a:1", "b:1", "c:1"), redlock.Options{Members: []string{"a", "b", ""}}, "a name"},
		{"a long MaxTTL", clients("a:1", "b:1", "c:1"), redlock.Options{MaxTTL: 1 << 62}, "MaxTTL"},
		{"a negative limit", clients("a:1", "b:1", "c:1"), redlock.Options{RequestTimeout: -1}, "RequestTimeout is -1ns; it must be from 10ms to 1m0s"},
		{"a short retention", clients("a:1", "b:1", "c:1"), redlock.Options{FenceRetention: 1}, "FenceRetention"},
		{"raw keys in a namespace", clients("a:1", "b:1", "c:1"), redlock.Options{RawKeys: true, Namespace: "n"}, "RawKeys"},
	} {
		l, err := redlock.New(tt.clients, &tt.opts)
		if err == nil {
			_ = l.Close()
		}
		if !errors.Is(err, locker.ErrInvalid) || !strings.Contains(err.Error(), tt.text) {
			t.Errorf("%s: New = %v; want ErrInvalid with %q", tt.name, err, tt.text)
		}
	}
	for rawURL, text := range map[string]string{
		"redlock://a,b":                         "odd number",
		"redlock://a,b,c,d":                     "odd number",
		"redlock://a,b,a:6379":                  "named twice",
		"redlock://a,b,c?max_ttl=1ms":           "max_ttl",
		"redlock://a,b,c?request_timeout=1h":    "request_timeout",
		"redlock://a,b,c?fence_retention=1s":    "FenceRetention",
		"redlock://a,b,c?nodes=5":               "nodes",
		"redlock://a,b,c?first_use=perhaps":     "first_use",
		"redlock://a,b,c?members=x,y":           "names 2 nodes",
		"redlock://a,b,c/sixteen":               "database",
		"redlock://a,b,c?tls_ca_file=/dev/null": "TLS",
	} {
		u, err := url.Parse(rawURL)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := redlock.Open(t.Context(), u); !errors.Is(err, locker.ErrInvalid) || !strings.Contains(err.Error(), text) {
			t.Errorf("Open(%s) = %v; want ErrInvalid with %q", rawURL, err, text)
		}
	}
}

// What only the servers can tell is refused when they are opened, and by a Locker that
// was not opened, but made, when they are asked to vote.
func TestMisfits(t *testing.T) {
	t.Parallel()
	servers := testbed.Redises(t, 5)
	addrs := func(list ...*testbed.Server) []string {
		var a []string
		for _, s := range list {
			a = append(a, s.Addr())
		}
		return a
	}
	sure := redlock.Options{Namespace: "sure", MaxTTL: time.Second}
	first := made(t, addrs(servers...), &sure)
	if err := first.FirstUse(t.Context()); err != nil {
		t.Fatal(err)
	}
	twin := fmt.Sprintf("localhost:%d", servers[0].Port())
	replica := testbed.RedisReplica(t, servers[4])
	other := sure
	other.MaxTTL = 2 * time.Second
	for _, tt := range []struct {
		name  string
		addrs []string
		opts  redlock.Options
		text  string
	}{
		{"two names of one server", append(addrs(servers[:2]...), twin), redlock.Options{Namespace: "twins"}, "same server"},
		{"a replica", append(addrs(servers[:2]...), replica.Addr()), redlock.Options{Namespace: "replicas"}, "replica"},
		{"fewer nodes", addrs(servers[:3]...), sure, "membership"},
		{"another MaxTTL", addrs(servers...), other, "MaxTTL"},
	} {
		u := &url.URL{Scheme: "redlock", Host: strings.Join(tt.addrs, ","), RawQuery: "max_ttl=" + orMinute(tt.opts.MaxTTL).String()}
		u.RawQuery += "&namespace=" + tt.opts.Namespace
		if _, err := redlock.Open(t.Context(), u); !errors.Is(err, locker.ErrInvalid) || !strings.Contains(err.Error(), tt.text) {
			t.Errorf("%s: open = %v; want ErrInvalid with %q", tt.name, err, tt.text)
		}
		l := made(t, tt.addrs, &tt.opts)
		if err := l.FirstUse(t.Context()); tt.opts.Namespace != "sure" && err == nil {
			t.Errorf("%s: its first use was taken for one", tt.name)
		}
		if _, err := l.Acquire(t.Context(), "k", time.Second); err == nil {
			t.Errorf("%s: a lock was granted", tt.name)
		}
	}
	// The same nodes by other names, which are called the same, are the same.
	names := addrs(servers...)
	byOther := append([]string{twin}, names[1:]...)
	same := sure
	same.Members = names
	l := made(t, byOther, &same)
	lease, err := l.Acquire(t.Context(), "k", time.Second)
	if err != nil {
		t.Fatalf("the members by other addresses: %v", err)
	}
	mustRelease(t, l, lease)
}

func orMinute(d time.Duration) time.Duration {
	if d == 0 {
		return time.Minute
	}
	return d
}

// made returns a Locker on clients of the addresses.
func made(t *testing.T, addrs []string, opts *redlock.Options) *redlock.Locker {
	t.Helper()
	var clients []*redis.Client
	for _, addr := range addrs {
		c := redis.NewClient(&redis.Options{Addr: addr, DisableIdentity: true})
		defer c.Close() // its options are what counts
		clients = append(clients, c)
	}
	l, err := redlock.New(clients, opts)
	if err != nil {
		t.Fatalf("new: %v", err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return l
}

// A TTL that the quarantine of a node does not cover is refused before anything is sent.
func TestMaxTTL(t *testing.T) {
	l := made(t, []string{"127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3"}, &redlock.Options{MaxTTL: time.Second})
	ctx := t.Context()
	lease := locker.Lease{Key: "k", Holder: locker.NewHolder(), Token: 1}
	for name, call := range map[string]func() error{
		"acquire": func() error { _, err := l.Acquire(ctx, "k", time.Second+1); return err },
		"wait":    func() error { _, err := l.AcquireWait(ctx, "k", time.Second+1); return err },
		"renew":   func() error { _, err := l.Renew(ctx, lease, time.Minute); return err },
	} {
		if err := call(); !errors.Is(err, locker.ErrInvalid) || !strings.Contains(err.Error(), "at most 1s") {
			t.Errorf("%s = %v; want ErrInvalid that names the limit", name, err)
		}
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if _, err := l.Acquire(context.Background(), "k", time.Second); !errors.Is(err, locker.ErrUnavailable) {
		t.Errorf("acquire when it is closed = %v, want ErrUnavailable", err)
	}
}
