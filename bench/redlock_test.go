package bench

import (
	"context"
	"fmt"
	"net/url"
	"testing"
	"time"

	"github.com/go-redsync/redsync/v4"
	redsyncredis "github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"

	"github.com/locker-go/locker/internal/testbed"
	"github.com/locker-go/locker/redlock"
)

// BenchmarkMajority compares an acquire and a release on a majority of five servers,
// nobody else there, with redsync on the same servers and driver, in alternating rounds:
// as it comes, when it waits for all servers, and with its option to fail fast, when
// it does not. x-locker is how many times as long it takes, one pair after the other, and
// with a pause before each.
func BenchmarkMajority(b *testing.B) {
	servers := testbed.Redises(b, 5)
	u, err := url.Parse("redlock://" + testbed.Join(servers) + "?first_use=true")
	if err != nil {
		b.Fatal(err)
	}
	l, err := redlock.Open(b.Context(), u)
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = l.(*redlock.Locker).Close() }()
	var pools []redsyncredis.Pool
	for _, s := range servers {
		c := goRedis(s.Addr())
		defer func() { _ = c.Close() }()
		pools = append(pools, goredis.NewPool(c))
	}
	rs := redsync.New(pools...)
	ctx := b.Context()
	ours := func(key string) error {
		lease, err := l.Acquire(ctx, key, ttl)
		if err != nil {
			return err
		}
		return l.Release(ctx, lease)
	}
	theirs := func(opts ...redsync.Option) func(string) error {
		return func(key string) error { return redsyncPair(ctx, rs, key, opts...) }
	}
	pairs := []func(string) error{ours, theirs(), theirs(redsync.WithFailFast(true))}
	for _, load := range []struct {
		name     string
		perRound int
		pause    time.Duration
	}{
		{"in a row", 20, 0}, // what each leaves to the background slows the next down
		{"apart", 1, 2 * time.Millisecond},
	} {
		b.Run(load.name, func(b *testing.B) {
			times := make([][]time.Duration, len(pairs))
			for round := range max(b.N, 60*20) / load.perRound {
				for i, pair := range pairs {
					time.Sleep(load.pause)
					start := time.Now()
					for n := range load.perRound {
						if err := pair(fmt.Sprintf("%d-%d", i, (round*load.perRound+n)%40)); err != nil {
							b.Error(err)
						}
					}
					times[i] = append(times[i], time.Since(start))
				}
			}
			locker := median(times[0])
			b.ReportMetric(locker/float64(load.perRound)/1e3, "us/pair")
			b.ReportMetric(median(times[1])/locker, "redsync-x-locker")
			b.ReportMetric(median(times[2])/locker, "redsync-failfast-x-locker")
		})
	}
}

func redsyncPair(ctx context.Context, rs *redsync.Redsync, key string, opts ...redsync.Option) error {
	m := rs.NewMutex(key, append([]redsync.Option{redsync.WithExpiry(ttl)}, opts...)...)
	if err := m.TryLockContext(ctx); err != nil {
		return err
	}
	_, err := m.UnlockContext(ctx)
	return err
}
