package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/locker-go/locker"
	"github.com/locker-go/locker/internal/testbed"
)

// compareAndDelete is what plain locks are released by.
var compareAndDelete = redis.NewScript(`
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0`)

// rounds calls fns in turn, n times each, and returns the median time of each.
func rounds(n int, fns ...func()) []time.Duration {
	times := make([][]time.Duration, len(fns))
	for range n {
		for i, fn := range fns {
			start := time.Now()
			fn()
			times[i] = append(times[i], time.Since(start))
		}
	}
	medians := make([]time.Duration, len(fns))
	for i, t := range times {
		slices.Sort(t)
		medians[i] = t[len(t)/2]
	}
	return medians
}

// bareMajority is what any lock on a majority has to do: it asks all at once, and
// returns when most have answered.
type bareMajority []*redis.Client

func (b bareMajority) ask(request func(*redis.Client) error) error {
	errs := make(chan error, len(b))
	for _, c := range b {
		go func() { errs <- request(c) }()
	}
	good, bad := 0, 0
	for good <= len(b)/2 {
		if err := <-errs; err == nil {
			good++
		} else if bad++; bad > len(b)/2 {
			return err
		}
	}
	return nil
}

func (b bareMajority) pair(ctx context.Context, key string) error {
	value := locker.NewHolder()
	err := b.ask(func(c *redis.Client) error {
		ok, err := c.SetNX(ctx, key, value, 30*time.Second).Result()
		if err == nil && !ok {
			err = errors.New("held")
		}
		return err
	})
	if err != nil {
		return err
	}
	return b.ask(func(c *redis.Client) error { return compareAndDelete.Run(ctx, c, []string{key}, value).Err() })
}

// BenchmarkPair compares an acquire and a release, nobody else there, with the bare
// SET NX PX and compare-and-delete on a majority of the same five servers, in
// alternating rounds. x-bare is the ratio of the medians.
func BenchmarkPair(b *testing.B) {
	servers := testbed.Redises(b, 5)
	l := open(b, "redlock://"+testbed.Join(servers)+"?first_use=true")
	var bare bareMajority
	for _, s := range servers {
		c := redis.NewClient(&redis.Options{Addr: s.Addr(), DisableIdentity: true})
		defer c.Close()
		bare = append(bare, c)
	}
	ctx := b.Context()
	ours := func(key string) {
		lease, err := l.Acquire(ctx, key, 30*time.Second)
		if err == nil {
			err = l.Release(ctx, lease)
		}
		if err != nil {
			b.Error(err)
		}
	}
	plain := func(key string) {
		if err := bare.pair(ctx, key); err != nil {
			b.Error(err)
		}
	}
	for _, goroutines := range []int{1, 16} {
		b.Run(fmt.Sprintf("goroutines=%d", goroutines), func(b *testing.B) {
			// Enough keys that what is left to the background is over when a key comes again.
			const perRound, keys = 20, 40
			next := 0
			round := func(pair func(string), name string) func() {
				return func() {
					next++
					var wg sync.WaitGroup
					for g := range goroutines {
						wg.Go(func() {
							for i := range perRound {
								pair(fmt.Sprintf("%s-%d-%d", name, g, (next*perRound+i)%keys))
							}
						})
					}
					wg.Wait()
				}
			}
			rounds(4, round(ours, "ours"), round(plain, "bare"))
			m := rounds(max(b.N/perRound, 60), round(ours, "ours"), round(plain, "bare"))
			b.ReportMetric(float64(m[0])/float64(m[1]), "x-bare")
			b.ReportMetric(float64(m[0].Microseconds())/perRound, "us/pair")
		})
	}
}

// BenchmarkSlowNodes has one or two of five nodes that are late or silent: an acquire
// takes as long as the third-fastest. x-none is the ratio of the medians to those with
// all nodes well, in alternating rounds; release-ms is the longest release.
func BenchmarkSlowNodes(b *testing.B) {
	for _, tt := range []struct {
		name    string
		disturb func(c *nodes) (end func())
	}{
		{"two delayed by 200 ms", func(c *nodes) func() {
			c.proxies[0].Delay(200 * time.Millisecond)
			c.proxies[3].Delay(200 * time.Millisecond)
			return func() { c.delay(0) }
		}},
		{"one silent", func(c *nodes) func() { return c.proxies[1].Stall() }},
	} {
		b.Run(tt.name, func(b *testing.B) {
			c := five(b)
			l := open(b, c.url("first_use=true"))
			ctx := b.Context()
			n := 0
			var longest time.Duration
			acquire := func() (took time.Duration) {
				n++
				start := time.Now()
				lease, err := l.Acquire(ctx, fmt.Sprint("k", n), 30*time.Second)
				took = time.Since(start)
				start = time.Now()
				if err == nil {
					err = l.Release(ctx, lease)
				}
				longest = max(longest, time.Since(start))
				if err != nil {
					b.Error(err)
				}
				return took
			}
			for range 50 {
				acquire()
			}
			var well, ill []time.Duration
			for range 5 {
				for range max(b.N/5, 40) {
					well = append(well, acquire())
				}
				end := tt.disturb(c)
				for range max(b.N/5, 40) {
					ill = append(ill, acquire())
				}
				end()
			}
			slices.Sort(well)
			slices.Sort(ill)
			b.ReportMetric(float64(ill[len(ill)/2])/float64(well[len(well)/2]), "x-none")
			b.ReportMetric(float64(well[len(well)/2].Microseconds()), "us/acquire")
			b.ReportMetric(float64(longest.Milliseconds()), "release-ms")
		})
	}
}
