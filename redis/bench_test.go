package redis_test

import (
	"context"
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

// BenchmarkPair compares an acquire and a release, nobody else there, with the bare
// SET NX PX and compare-and-delete on the same client, in alternating rounds, by one
// goroutine and by 64. x-bare is the ratio of the medians.
func BenchmarkPair(b *testing.B) {
	server := testbed.Redis(b)
	client := redis.NewClient(&redis.Options{Addr: server.Addr(), DisableIdentity: true, PoolSize: 64})
	defer client.Close()
	l := on(b, client, nil)
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
	bare := func(key string) {
		value := locker.NewHolder()
		ok, err := client.SetNX(ctx, key, value, 30*time.Second).Result()
		if err == nil && ok {
			err = compareAndDelete.Run(ctx, client, []string{key}, value).Err()
		}
		if err != nil || !ok {
			b.Error(ok, err)
		}
	}
	ours("warm")
	bare("warm")
	for _, goroutines := range []int{1, 64} {
		b.Run(fmt.Sprintf("goroutines=%d", goroutines), func(b *testing.B) {
			round := func(pair func(string), name string) func() {
				return func() {
					var wg sync.WaitGroup
					for g := range goroutines {
						key := fmt.Sprintf("%s%d", name, g)
						wg.Go(func() {
							for range 20 {
								pair(key)
							}
						})
					}
					wg.Wait()
				}
			}
			m := rounds(max(b.N/20, 100), round(ours, "ours"), round(bare, "bare"))
			b.ReportMetric(float64(m[0])/float64(m[1]), "x-bare")
			b.ReportMetric(float64(m[0].Microseconds())/20, "us/pair")
		})
	}
	b.Run("allocations", func(b *testing.B) {
		ourAllocs := testing.AllocsPerRun(1000, func() { ours("ours") })
		bareAllocs := testing.AllocsPerRun(1000, func() { bare("bare") })
		b.ReportMetric(ourAllocs, "allocs/pair")
		b.ReportMetric(ourAllocs/bareAllocs, "x-bare-allocs")
	})
}

// BenchmarkHandOff has 16 goroutines of one process on one key. A hand-off is a
// change of the holder; pings/hand-off is its median time in PINGs of the same run.
func BenchmarkHandOff(b *testing.B) {
	server := testbed.Redis(b)
	client := connect(b, server.Addr())
	c := locker.New(on(b, client, nil), nil)
	defer c.Close()
	ping := func() {
		for range 100 {
			if err := client.Ping(b.Context()).Err(); err != nil {
				b.Error(err)
			}
		}
	}
	var grants [16]int
	handOffs, last := 0, -1
	handOff := func() {
		var wg sync.WaitGroup
		for g := range grants {
			wg.Go(func() {
				for range 50 {
					err := c.Do(b.Context(), "k", func(context.Context, locker.Lease) error {
						if last != g {
							handOffs++
						}
						last = g
						grants[g]++
						return nil
					})
					if err != nil {
						b.Error(err)
					}
				}
			})
		}
		wg.Wait()
	}
	n := max(b.N/800, 10)
	m := rounds(n, ping, handOff)
	perHandOff := float64(m[1]) / (float64(handOffs) / float64(n))
	b.ReportMetric(perHandOff/(float64(m[0])/100), "pings/hand-off")
	b.ReportMetric(jain(grants[:]), "jain")
}

// jain is Jain's fairness index: 1 where all got the same, 1/n where one got all.
func jain(counts []int) float64 {
	var sum, squares float64
	for _, c := range counts {
		sum += float64(c)
		squares += float64(c) * float64(c)
	}
	return sum * sum / (float64(len(counts)) * squares)
}
