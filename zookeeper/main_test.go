package zookeeper_test

import (
	"context"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"go.uber.org/goleak"

	"github.com/locker-go/locker"
	"github.com/locker-go/locker/zookeeper"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// testTTL is for leases that are not to expire.
const testTTL = 30 * time.Second

// longSessions has servers grant sessions that promise such leases, and longer ones.
const longSessions = "maxSessionTimeout=60000"

func openURL(ctx context.Context, rawURL string) (*zookeeper.Locker, error) {
	rest, query, _ := strings.Cut(strings.TrimPrefix(rawURL, "zookeeper://"), "?")
	hosts, path, _ := strings.Cut(rest, "/")
	u := &url.URL{Scheme: "zookeeper", Host: hosts, RawQuery: query} // url.Parse takes no lists
	if path != "" {
		u.Path = "/" + path
	}
	if user, hosts, ok := strings.Cut(hosts, "@"); ok {
		name, password, _ := strings.Cut(user, ":")
		u.User, u.Host = url.UserPassword(name, password), hosts
	}
	l, err := zookeeper.Open(ctx, u)
	if err != nil {
		return nil, err
	}
	return l.(*zookeeper.Locker), nil
}

// open returns a Locker on the ensemble that a URL names.
func open(t testing.TB, rawURL string) *zookeeper.Locker {
	t.Helper()
	l, err := openURL(context.Background(), rawURL)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	t.Cleanup(func() { closeLocker(t, l) })
	return l
}

func closeLocker(t testing.TB, l *zookeeper.Locker) {
	if err := l.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
}

func mustAcquire(t testing.TB, l locker.Locker, key string) locker.Lease {
	t.Helper()
	lease, err := l.Acquire(t.Context(), key, testTTL)
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

// until polls a condition, and fails the test if it does not come.
func until(t testing.TB, what string, condition func() bool) {
	t.Helper()
	for began := time.Now(); !condition(); time.Sleep(5 * time.Millisecond) {
		if time.Since(began) > 30*time.Second {
			t.Fatalf("waited in vain until %s", what)
		}
	}
}

type mute struct{}

func (mute) Printf(string, ...any) {}

// driver returns a client of the driver, as it comes but for its dialer, if there is one.
func driver(t testing.TB, timeout time.Duration, dialer *zookeeper.Dialer, addrs ...string) *zk.Conn {
	t.Helper()
	if dialer == nil {
		dialer = new(zookeeper.Dialer)
	}
	c, events, err := zk.Connect(addrs, timeout, zk.WithLogger(mute{}), zk.WithLogInfo(false), zk.WithDialer(dialer.Dial))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Close()
		for range events { // until its goroutines have ended
		}
	})
	return c
}

// childrenOf returns the names of a node's children, or none if it is not there.
func childrenOf(t testing.TB, c *zk.Conn, path string) []string {
	t.Helper()
	if _, err := c.Sync(path); err != nil {
		t.Fatal(err)
	}
	names, _, err := c.Children(path)
	if err != nil && err != zk.ErrNoNode {
		t.Fatal(err)
	}
	return names
}

// queued waits until a queue has n nodes, and returns their names.
func queued(t testing.TB, c *zk.Conn, dir string, n int) []string {
	t.Helper()
	var names []string
	until(t, "the queue is as long as it should be", func() bool {
		names = childrenOf(t, c, dir)
		return len(names) == n
	})
	return names
}
