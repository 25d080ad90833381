package etcd_test

import (
	"context"
	"net/url"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/goleak"
	"go.uber.org/zap"

	"github.com/locker-go/locker"
	"github.com/locker-go/locker/etcd"
	"github.com/locker-go/locker/internal/testbed"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// testTTL is for leases that are not to expire.
const testTTL = 30 * time.Second

// connect returns a client of the members at addrs.
func connect(t testing.TB, addrs ...string) *clientv3.Client {
	t.Helper()
	c, err := clientv3.New(clientv3.Config{Endpoints: addrs, Logger: zap.NewNop(), DialTimeout: 5 * time.Second})
	if err != nil {
		t.Fatalf("connect: %v", err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// open returns a Locker on the cluster that a URL names.
func open(t testing.TB, rawURL string) *etcd.Locker {
	t.Helper()
	l, err := openURL(context.Background(), rawURL)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	t.Cleanup(func() { closeLocker(t, l) })
	return l
}

func openURL(ctx context.Context, rawURL string) (*etcd.Locker, error) {
	hosts, query, _ := strings.Cut(strings.TrimPrefix(rawURL, "etcd://"), "?")
	l, err := etcd.Open(ctx, &url.URL{Scheme: "etcd", Host: hosts, RawQuery: query}) // url.Parse takes no lists
	if err != nil {
		return nil, err
	}
	return l.(*etcd.Locker), nil
}

// on returns a Locker on a client.
func on(t testing.TB, c *clientv3.Client, opts *etcd.Options) *etcd.Locker {
	t.Helper()
	l, err := etcd.New(c, opts)
	if err != nil {
		t.Fatalf("new: %v", err)
	}
	t.Cleanup(func() { closeLocker(t, l) })
	return l
}

func closeLocker(t testing.TB, l *etcd.Locker) {
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
		if time.Since(began) > 20*time.Second {
			t.Fatalf("waited in vain until %s", what)
		}
	}
}

func join(proxies []*testbed.Proxy) string {
	addrs := make([]string, len(proxies))
	for i, p := range proxies {
		addrs[i] = p.Addr()
	}
	return strings.Join(addrs, ",")
}
