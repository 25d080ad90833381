package redlock_test

import (
	"context"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/locker-go/locker"
	"github.com/locker-go/locker/internal/testbed"
	"github.com/locker-go/locker/redlock"
)

func TestMain(m *testing.M) {
	redis.SetLogger(silent{}) // it tells of each server that a test broke
	goleak.VerifyTestMain(m)
}

type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}

// nodes are servers, each behind a proxy.
type nodes struct {
	servers []*testbed.Server
	proxies []*testbed.Proxy
}

// five starts five servers that keep all that they answered for.
func five(t testing.TB, args ...string) *nodes { t.Helper(); return start(t, 5, args...) }

func start(t testing.TB, n int, args ...string) *nodes {
	t.Helper()
	c := new(nodes)
	for range n {
		s := testbed.Redis(t, append([]string{"--appendonly", "yes", "--appendfsync", "always"}, args...)...)
		c.servers = append(c.servers, s)
		c.proxies = append(c.proxies, testbed.NewProxy(t, s.Addr(), testbed.RESP))
	}
	return c
}

// url returns the URL of the nodes with parameters.
func (c *nodes) url(params string) string {
	addrs := make([]string, len(c.proxies))
	for i, p := range c.proxies {
		addrs[i] = p.Addr()
	}
	return "redlock://" + strings.Join(addrs, ",") + "?" + params
}

func openURL(ctx context.Context, rawURL string) (locker.Locker, error) {
	u, err := url.Parse(rawURL)
	if err != nil {
		return nil, err
	}
	return redlock.Open(ctx, u)
}

// open returns a Locker on the nodes that a URL names.
func open(t testing.TB, rawURL string) *redlock.Locker {
	t.Helper()
	l, err := openURL(context.Background(), rawURL)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	t.Cleanup(func() {
		if err := l.(*redlock.Locker).Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return l.(*redlock.Locker)
}

// until waits for a condition, and fails the test if it does not come.
func until(t testing.TB, what string, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !condition(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain until %s", what)
		}
	}
}
