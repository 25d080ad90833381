package redis_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/locker-go/locker"
	"github.com/locker-go/locker/internal/testbed"
)

// scriptedSet is SET NX PX as a script does it. fencedSet also keeps a fence; it knows
// of no clock, no wrong ones, and no releases.
var (
	scriptedSet = redis.NewScript(`
return redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', 30000) and 1 or 0`)
	fencedSet = redis.NewScript(`
if ARGV[2] > (redis.call('GET', KEYS[2]) or '') and redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', 30000) then
  redis.call('SET', KEYS[2], ARGV[2], 'PX', 3600000)
  return 1
end
return 0`)
)

// BenchmarkFloor shows what BenchmarkPair could come down to: it compares with the bare
// pair, in alternating rounds, a pair of which the SET is a script, one with the least
// fence that gives rising tokens, ours, and ours on keys that were never locked, where
// the script asks for the server's clock.
func BenchmarkFloor(b *testing.B) {
	server := testbed.Redis(b)
	client := redis.NewClient(&redis.Options{Addr: server.Addr(), DisableIdentity: true, PoolSize: 64})
	defer client.Close()
	l := on(b, client, nil)
	ctx := b.Context()
	release := func(key, value string) error { return compareAndDelete.Run(ctx, client, []string{key}, value).Err() }
	taken := func(granted any, err error) error {
		if err == nil && granted != true && granted != int64(1) {
			err = fmt.Errorf("not granted: %v", granted)
		}
		return err
	}
	ours := func(key string) error {
		lease, err := l.Acquire(ctx, key, 30*time.Second)
		if err == nil {
			err = l.Release(ctx, lease)
		}
		return err
	}
	variants := []struct {
		name string
		pair func(key string, n int) error
	}{
		{"bare", func(key string, _ int) error {
			value := locker.NewHolder()
			err := taken(client.SetNX(ctx, key, value, 30*time.Second).Result())
			if err == nil {
				err = release(key, value)
			}
			return err
		}},
		{"script", func(key string, _ int) error {
			value := locker.NewHolder()
			err := taken(scriptedSet.Run(ctx, client, []string{key}, value).Result())
			if err == nil {
				err = release(key, value)
			}
			return err
		}},
		{"fence", func(key string, _ int) error {
			value, token := locker.NewHolder(), time.Now().UnixMicro()
			err := taken(fencedSet.Run(ctx, client, []string{key, "fence:" + key}, value, token).Result())
			if err == nil {
				err = release(key, value)
			}
			return err
		}},
		{"ours", func(key string, _ int) error { return ours(key) }},
		{"ours-fresh", func(key string, n int) error { return ours(fmt.Sprint(key, "-", n)) }},
	}
	for _, goroutines := range []int{1, 64} {
		b.Run(fmt.Sprintf("goroutines=%d", goroutines), func(b *testing.B) {
			var fns []func()
			for _, v := range variants {
				turn := 0
				fns = append(fns, func() {
					var wg sync.WaitGroup
					for g := range goroutines {
						key := fmt.Sprint(v.name, goroutines, "-", b.N, "-", g)
						wg.Go(func() {
							for i := range 20 {
								if err := v.pair(key, 20*turn+i); err != nil {
									b.Error(err)
								}
							}
						})
					}
					wg.Wait()
					turn++
				})
			}
			m := rounds(max(b.N/20, 100), fns...)
			for i, v := range variants[1:] {
				b.ReportMetric(float64(m[i+1])/float64(m[0]), "x-bare:"+v.name)
			}
		})
	}
}
