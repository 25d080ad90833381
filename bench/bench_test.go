package bench

import (
	"context"
	"fmt"
	"io"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/locker-go/locker/internal/testbed"
)

// open returns a client that has been used once.
func open(b *testing.B, p *peer, addr string) client {
	b.Helper()
	c, err := p.open(addr)
	if err != nil {
		b.Fatalf("%s: open: %v", p.name, err)
	}
	b.Cleanup(func() {
		if err := c.close(); err != nil {
			b.Errorf("%s: close: %v", p.name, err)
		}
	})
	if err := warmUp(b.Context(), c, "warm-"+p.name); err != nil {
		b.Fatalf("%s: %v", p.name, err)
	}
	return c
}

// report shows figures, and no absolute time, as the result of a peer.
func report(b *testing.B, name string, figures map[string]float64) {
	b.Run(name, func(b *testing.B) {
		b.ReportMetric(0, "ns/op")
		for unit, n := range figures {
			b.ReportMetric(n, unit)
		}
	})
}

func median[T float64 | time.Duration](values []T) float64 {
	slices.Sort(values)
	return float64(values[len(values)/2])
}

// BenchmarkPair times a lock and its unlock where nobody else wants it, by one
// goroutine and by 64 with a key each. x-bare is the median time as a multiple of
// that of SET NX PX and compare-and-delete on the same driver, x-locker as a multiple
// of locker's.
func BenchmarkPair(b *testing.B) {
	server := testbed.Redis(b)
	measured := append([]*peer{oursBackend}, peers...)
	all := append([]*peer{bareGoRedis, bareRueidis}, measured...)
	clients := make(map[*peer]client)
	for _, p := range all {
		clients[p] = open(b, p, server.Addr())
	}
	for _, load := range []struct{ goroutines, pairs, rounds int }{{1, 20, 100}, {64, 5, 50}} {
		times := make(map[*peer][]time.Duration)
		for range load.rounds {
			for _, p := range all {
				times[p] = append(times[p], timePairs(b, p.name, clients[p], load.goroutines, load.pairs))
			}
		}
		b.Run(fmt.Sprintf("goroutines=%d", load.goroutines), func(b *testing.B) {
			for _, p := range measured {
				report(b, p.name, map[string]float64{
					"x-bare":   median(times[p]) / median(times[p.bare]),
					"x-locker": median(times[p]) / median(times[ours]),
				})
			}
		})
	}
}

// timePairs times goroutines that each lock and unlock a key of their own.
func timePairs(b *testing.B, name string, c client, goroutines, pairs int) time.Duration {
	ctx, cancel := context.WithTimeout(b.Context(), limit)
	defer cancel()
	var wg sync.WaitGroup
	start := time.Now()
	for g := range goroutines {
		key := fmt.Sprint(name, g)
		wg.Go(func() {
			for range pairs {
				unlock, err := c.lock(ctx, key)
				if err == nil {
					err = unlock()
				}
				if err != nil {
					b.Errorf("%s: %v", name, err)
					return
				}
			}
		})
	}
	wg.Wait()
	return time.Since(start)
}

// BenchmarkHandOff has 16 goroutines of one process want one key, for two seconds in
// all. A hand-off is a change of the holder; pings/hand-off is its median time in
// PINGs of the same run.
func BenchmarkHandOff(b *testing.B) {
	const (
		goroutines = 16
		rounds     = 5
		slot       = 400 * time.Millisecond
	)
	server := testbed.Redis(b)
	pinger := goRedis(server.Addr())
	b.Cleanup(func() { _ = pinger.Close() })
	clients := make(map[*peer]client)
	for _, p := range peers {
		clients[p] = open(b, p, server.Addr())
	}
	var pings []time.Duration
	perHandOff := make(map[*peer][]float64) // ns
	grants := make(map[*peer][]grant)
	for round := range rounds {
		for _, p := range peers {
			pings = append(pings, timePing(b, pinger))
			ctx, cancel := context.WithTimeout(b.Context(), slot)
			// A key of the round's own: what redsync was cancelled in may stay behind.
			got, err := contend(ctx, clients[p], fmt.Sprint(p.name, round), goroutines)
			cancel()
			if err != nil {
				b.Fatalf("%s: %v", p.name, err)
			}
			perHandOff[p] = append(perHandOff[p], float64(slot)/float64(handOffs(got)))
			grants[p] = append(grants[p], got...)
		}
	}
	for _, p := range peers {
		report(b, p.name, map[string]float64{
			"pings/hand-off": median(perHandOff[p]) / median(pings),
			"jain":           jain(grants[p], goroutines),
		})
	}
}

// timePing returns the time of a PING, of many in a row.
func timePing(b *testing.B, c *redis.Client) time.Duration {
	const n = 100
	start := time.Now()
	for range n {
		if err := c.Ping(b.Context()).Err(); err != nil {
			b.Fatalf("ping: %v", err)
		}
	}
	return time.Since(start) / n
}

// BenchmarkProcesses has four processes with four goroutines each want one key, for
// two seconds in all. Requests are counted on the wire, without those that only set
// up a connection. A library that mostly hands the lock back to whoever had it makes
// few hand-offs of many grants.
func BenchmarkProcesses(b *testing.B) {
	const (
		processes  = 4
		goroutines = 4
		rounds     = 2
		slot       = time.Second
	)
	server := testbed.Redis(b)
	proxy := testbed.NewProxy(b, server.Addr(), testbed.RESP)
	type tally struct {
		requests, handOffs int
		grants             []grant
	}
	tallies := make(map[*peer]*tally)
	for _, p := range peers {
		tallies[p] = &tally{}
	}
	for round := range rounds {
		for _, p := range peers {
			order := fmt.Sprintf(orderFormat, p.name, proxy.Addr(), fmt.Sprint(p.name, round), goroutines, slot)
			grants, requests := contendInProcesses(b, proxy, order, processes)
			t := tallies[p]
			t.requests += requests
			t.handOffs += handOffs(grants)
			t.grants = append(t.grants, grants...)
		}
	}
	for _, p := range peers {
		t := tallies[p]
		report(b, p.name, map[string]float64{
			"requests/hand-off": float64(t.requests) / float64(t.handOffs),
			"requests/grant":    float64(t.requests) / float64(len(t.grants)),
			"jain":              jain(t.grants, processes*goroutines),
		})
	}
}

// contendInProcesses returns what n processes were granted that obey the order, and
// how many requests they sent.
func contendInProcesses(b *testing.B, proxy *testbed.Proxy, order string, n int) ([]grant, int) {
	b.Helper()
	started := make([]*process, n)
	for i := range started {
		started[i] = startProcess(b, order)
	}
	before := len(proxy.Requests())
	for _, p := range started {
		if _, err := io.WriteString(p.begin, "begin\n"); err != nil {
			b.Fatalf("begin: %v", err)
		}
	}
	var all []grant
	for i, p := range started {
		grants, err := p.wait(i)
		if err != nil {
			b.Fatalf("%s: process %d: %v", order, i, err)
		}
		all = append(all, grants...)
	}
	requests := 0
	for _, name := range proxy.Requests()[before:] {
		if name != "hello" && name != "client" {
			requests++
		}
	}
	return all, requests
}
