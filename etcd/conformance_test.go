package etcd_test

import (
	"context"
	"testing"
	"time"

	"github.com/locker-go/locker"
	"github.com/locker-go/locker/conformance"
	"github.com/locker-go/locker/internal/testbed"
)

// suite returns the cluster of a URL as the suite takes it.
func suite(rawURL string) conformance.Backend {
	return conformance.Backend{
		Open: func(ctx context.Context) (locker.Locker, error) {
			return openURL(ctx, rawURL)
		},
		TTL:   time.Second,
		Grace: 3 * time.Second,
		Waive: map[string]string{
			"Renew/shorter frees sooner": "an etcd lease cannot be shortened; the holder's deadline is earlier, its key stays for the longer TTL",
		},
	}
}

// faults disturb the members through the proxies before them.
func faults(t testing.TB, proxies []*testbed.Proxy, servers []*testbed.Server) conformance.Faults {
	each := func(fn func(*testbed.Proxy)) {
		for _, p := range proxies {
			fn(p)
		}
	}
	return conformance.Faults{
		Cut: func(context.Context) (func() error, error) {
			each((*testbed.Proxy).Cut)
			return func() error { each((*testbed.Proxy).Heal); return nil }, nil
		},
		Delay: func(_ context.Context, d time.Duration) (func() error, error) {
			each(func(p *testbed.Proxy) { p.Delay(d) })
			return func() error { each(func(p *testbed.Proxy) { p.Delay(0) }); return nil }, nil
		},
		LoseReply: func(context.Context) error { each(func(p *testbed.Proxy) { p.LoseReply("") }); return nil },
		Requests: func(context.Context) (int64, error) {
			total := int64(0)
			for _, s := range servers {
				total += count(t, s, "grpc_server_msg_received_total")
			}
			return total, nil
		},
	}
}

func TestConformanceOnOneMember(t *testing.T) { t.Parallel(); runSuite(t, 1) }

func TestConformanceOnThreeMembers(t *testing.T) { t.Parallel(); runSuite(t, 3) }

func runSuite(t *testing.T, members int) {
	c := startCluster(t, members, fast...)
	var proxies []*testbed.Proxy
	for _, m := range c.members {
		proxies = append(proxies, testbed.NewProxy(t, m.Addr(), testbed.Bytes))
	}
	b := suite("etcd://" + join(proxies) + "?request_timeout=5s")
	b.Faults = faults(t, proxies, c.members)
	b.Faults.Restart = func(context.Context) error { c.restart(true); return nil }
	b.Faults.Wipe = func(context.Context) error { c.restart(false); return nil }
	conformance.Run(t, b)
}
