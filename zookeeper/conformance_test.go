package zookeeper_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/locker-go/locker"
	"github.com/locker-go/locker/conformance"
	"github.com/locker-go/locker/internal/testbed"
)

// suite returns the ensemble of a URL as the suite takes it. Its sessions are long, since
// the suite wants leases that do not expire.
func suite(rawURL string) conformance.Backend {
	return conformance.Backend{
		Open: func(ctx context.Context) (locker.Locker, error) {
			return openURL(ctx, rawURL+"?session_timeout=60s&request_timeout=2s")
		},
		TTL:   300 * time.Millisecond,
		Grace: 2 * time.Second, // of a client that lives, and removes what it does not renew
		Local: true,
		Waive: map[string]string{
			"Acquire/held tells the time left": "the leader alone knows when a session expires, and tells nobody",
			"Inspect/time left":                "the leader alone knows when a session expires, and tells nobody",
		},
	}
}

// faults disturb the servers through the proxies before them.
func faults(proxies []*testbed.Proxy) conformance.Faults {
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
		LoseReply: func(context.Context) error {
			each(func(p *testbed.Proxy) { p.LoseReply("multi") })
			return nil
		},
		Requests: func(context.Context) (int64, error) {
			n := 0
			each(func(p *testbed.Proxy) {
				n += len(slices.DeleteFunc(p.Requests(), func(name string) bool { return name == "ping" }))
			})
			return int64(n), nil
		},
	}
}

// Both wait most of the time, so they run at the same time however few processors there
// are.
func TestConformance(t *testing.T) {
	t.Parallel()
	var wg sync.WaitGroup
	wg.Go(func() { t.Run("one server", conformanceOnOneServer) })
	wg.Go(func() { t.Run("three servers", conformanceOnThreeServers) })
	wg.Wait()
}

func conformanceOnOneServer(t *testing.T) {
	server := testbed.ZooKeeper(t, longSessions)
	proxy := testbed.NewProxy(t, server.Addr(), testbed.ZooKeeperWire)
	b := suite("zookeeper://" + proxy.Addr())
	b.Faults = faults([]*testbed.Proxy{proxy})
	b.Faults.Restart = func(context.Context) error { server.Restart(true); return nil }
	b.Faults.Wipe = func(context.Context) error { server.Restart(false); return nil }
	conformance.Run(t, b)
}

func conformanceOnThreeServers(t *testing.T) {
	servers := testbed.ZooKeeperCluster(t, 3, longSessions)
	var proxies []*testbed.Proxy
	var addrs []string
	for _, s := range servers.Servers {
		p := testbed.NewProxy(t, s.Addr(), testbed.ZooKeeperWire)
		proxies, addrs = append(proxies, p), append(addrs, p.Addr())
	}
	b := suite("zookeeper://" + strings.Join(addrs, ","))
	b.Faults = faults(proxies)
	b.Faults.Restart = func(context.Context) error { servers.Restart(true); return nil }
	// Of no use here: the elections that restarts bring make tokens run ahead of the clock,
	// so that they do not rise through a loss of all data.
	b.Faults.Wipe = nil
	conformance.Run(t, b)
	t.Run("tokens", func(t *testing.T) { testTokensThroughLossAndElection(t, servers) })
}
