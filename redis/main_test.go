package redis_test

import (
	"context"
	"net/url"
	"testing"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/locker-go/locker"
	lockredis "github.com/locker-go/locker/redis"
)

func TestMain(m *testing.M) {
	redis.SetLogger(silent{}) // it tells of each server that a test broke
	goleak.VerifyTestMain(m)
}

type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}

// connect returns a client of the server at addr.
func connect(t testing.TB, addr string) *redis.Client {
	t.Helper()
	c := redis.NewClient(&redis.Options{Addr: addr, DisableIdentity: true})
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// open returns a Locker on the server that a URL names.
func open(t testing.TB, rawURL string) *lockredis.Locker {
	t.Helper()
	l, err := openURL(context.Background(), rawURL)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	t.Cleanup(func() { closeLocker(t, l) })
	return l
}

func openURL(ctx context.Context, rawURL string) (*lockredis.Locker, error) {
	u, err := url.Parse(rawURL)
	if err != nil {
		return nil, err
	}
	l, err := lockredis.Open(ctx, u)
	if err != nil {
		return nil, err
	}
	return l.(*lockredis.Locker), nil
}

// on returns a Locker on a client.
func on(t testing.TB, c redis.UniversalClient, opts *lockredis.Options) *lockredis.Locker {
	t.Helper()
	l, err := lockredis.New(c, opts)
	if err != nil {
		t.Fatalf("new: %v", err)
	}
	t.Cleanup(func() { closeLocker(t, l) })
	return l
}

func closeLocker(t testing.TB, l *lockredis.Locker) {
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
