package zookeeper_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/locker-go/locker/internal/testbed"
	"github.com/locker-go/locker/zookeeper"
)

func check(b *testing.B, err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

// BenchmarkPair takes and gives back a free lock: here, by the bare requests that it
// needs at least, and with the lock of the driver. They take turns, so that what else the
// machine does hits all, after the server has compiled what it runs.
func BenchmarkPair(b *testing.B) {
	server := testbed.ZooKeeper(b, longSessions)
	l := open(b, "zookeeper://"+server.Addr()+"?session_timeout=60s")
	c := driver(b, time.Minute, nil, server.Addr())
	ctx := b.Context()
	acl := zk.WorldACL(zk.PermAll)
	lock := zk.NewLock(c, "/lock", acl)
	pairs := []struct {
		name string
		run  func()
	}{
		{"locker", func() {
			lease, err := l.Acquire(ctx, "k", testTTL)
			check(b, err)
			check(b, l.Release(ctx, lease))
		}},
		{"bare", func() {
			_, err := c.Create("/bare", nil, zk.FlagEphemeral, acl)
			check(b, err)
			check(b, c.Delete("/bare", -1))
		}},
		{"zk.Lock", func() {
			check(b, lock.Lock())
			check(b, lock.Unlock())
		}},
	}
	const warmUp, rounds = 3000, 3000
	took := make([][]time.Duration, len(pairs))
	for b.Loop() {
		for round := range warmUp + rounds {
			for _, i := range rand.Perm(len(pairs)) { // each leaves the server some work
				began := time.Now()
				pairs[i].run()
				if round >= warmUp {
					took[i] = append(took[i], time.Since(began))
				}
			}
		}
	}
	for i, p := range pairs {
		slices.Sort(took[i])
		b.ReportMetric(float64(took[i][len(took[i])/2].Microseconds()), p.name+"-us")
	}
	b.ReportMetric(float64(took[0][len(took[0])/2])/float64(took[1][len(took[1])/2]), "x-bare")
}

const waiters = 16

// BenchmarkHandOff counts how often 16 waiters pass a lock on in a second: those of one
// session, as of one process, and of one session each.
func BenchmarkHandOff(b *testing.B) {
	for _, sessions := range []int{1, waiters} {
		b.Run(fmt.Sprintf("sessions=%d", sessions), func(b *testing.B) {
			server := testbed.ZooKeeper(b, longSessions)
			var lockers []*zookeeper.Locker
			locks := make([]*zk.Lock, waiters)
			for i := range sessions {
				lockers = append(lockers, open(b, "zookeeper://"+server.Addr()+"?session_timeout=60s"))
				c := driver(b, time.Minute, nil, server.Addr())
				for j := i; j < waiters; j += sessions {
					locks[j] = zk.NewLock(c, "/lock", zk.WorldACL(zk.PermAll))
				}
			}
			ours := func(ctx context.Context, i int) error {
				l := lockers[i%sessions]
				lease, err := l.AcquireWait(ctx, "k", testTTL)
				if err != nil {
					return err
				}
				return l.Release(ctx, lease)
			}
			theirs := func(_ context.Context, i int) error {
				if err := locks[i].Lock(); err != nil {
					return err
				}
				return locks[i].Unlock()
			}
			const warmUp, rounds = 3, 5
			var us, them []float64
			for b.Loop() {
				for round := range warmUp + rounds {
					mine, other := handOffs(b, ours), handOffs(b, theirs)
					if round >= warmUp {
						us, them = append(us, mine), append(them, other)
					}
				}
			}
			slices.Sort(us)
			slices.Sort(them)
			b.ReportMetric(us[len(us)/2], "hand-offs/s")
			b.ReportMetric(them[len(them)/2], "zk.Lock-hand-offs/s")
			b.ReportMetric(us[len(us)/2]/them[len(them)/2], "x-zk.Lock")
		})
	}
}

// handOffs has 16 goroutines take turns, and returns how many there were in a second.
func handOffs(b *testing.B, turn func(ctx context.Context, i int) error) float64 {
	const span = time.Second
	counts := make([]int, waiters)
	began := time.Now()
	var wg sync.WaitGroup
	for i := range waiters {
		wg.Go(func() {
			for time.Since(began) < span {
				if err := turn(b.Context(), i); err != nil {
					b.Error(err)
					return
				}
				counts[i]++
			}
		})
	}
	wg.Wait()
	total := 0
	for _, n := range counts {
		total += n
	}
	return float64(total) / time.Since(began).Seconds()
}
