package redis_test

import (
	"context"
	"fmt"
	"net/url"
	"testing"
	"time"

	"github.com/locker-go/locker"
	"github.com/locker-go/locker/conformance"
	"github.com/locker-go/locker/internal/testbed"
	lockredis "github.com/locker-go/locker/redis"
)

// suite returns the server of a URL as the suite takes it, with the shortest TTL
// that the cases use.
func suite(rawURL string, ttl time.Duration) conformance.Backend {
	return conformance.Backend{
		Open: func(ctx context.Context) (locker.Locker, error) {
			u, err := url.Parse(rawURL)
			if err != nil {
				return nil, err
			}
			return lockredis.Open(ctx, u)
		},
		TTL:   ttl,
		Grace: time.Second,
	}
}

func TestConformance(t *testing.T) {
	t.Parallel()
	server := testbed.Redis(t, "--appendonly", "yes", "--appendfsync", "always")
	proxy := testbed.NewProxy(t, server.Addr(), testbed.RESP)
	b := suite("redis://"+proxy.Addr(), 300*time.Millisecond)
	b.Faults = conformance.Faults{
		Cut: func(context.Context) (func() error, error) {
			proxy.Cut()
			return func() error { proxy.Heal(); return nil }, nil
		},
		Delay: func(_ context.Context, d time.Duration) (func() error, error) {
			proxy.Delay(d)
			return func() error { proxy.Delay(0); return nil }, nil
		},
		LoseReply: func(context.Context) error { proxy.LoseReply("evalsha", "eval", "get"); return nil },
		Restart:   func(context.Context) error { server.Restart(true); return nil },
		Wipe:      func(context.Context) error { server.Restart(false); return nil },
		Requests:  func(context.Context) (int64, error) { return int64(len(proxy.Requests())), nil },
	}
	conformance.Run(t, b)
}

// In a cluster the lock and its fence must lie in one slot whatever braces the key has.
func TestConformanceOnCluster(t *testing.T) {
	t.Parallel()
	conformance.Run(t, suite("redis+cluster://"+testbed.Join(testbed.RedisCluster(t))+"?namespace=c", time.Second))
}

func TestConformanceWithSentinel(t *testing.T) {
	t.Parallel()
	g := testbed.RedisSentinel(t)
	conformance.Run(t, suite(fmt.Sprintf("redis+sentinel://%s/%s?min_replicas=1", testbed.Join(g.Sentinels), g.Name), time.Second))
}
