package etcd_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"

	"github.com/locker-go/locker/etcd"
)

func check(b *testing.B, err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

// disks are how members may treat theirs: as they do in use, or without waiting for it,
// as they do in the other tests, where the rest of the costs shows.
var disks = []struct {
	name string
	arg  string
}{
	{"synced", "--unsafe-no-fsync=false"},
	{"unsynced", "--unsafe-no-fsync"},
}

// BenchmarkPair takes and gives back a free lock: here, by the bare requests that it
// needs at least, and with the mutex of etcd's client. They take turns, so that what
// else the machine does hits all.
func BenchmarkPair(b *testing.B) {
	for _, disk := range disks {
		b.Run(disk.name, func(b *testing.B) { pairs(b, startCluster(b, 1, slices.Concat(usual, []string{disk.arg})...)) })
	}
}

func pairs(b *testing.B, cluster *cluster) {
	c := cluster.client()
	l := on(b, c, nil)
	ctx := b.Context()
	granted, err := c.Grant(ctx, 60)
	check(b, err)
	shared, err := concurrency.NewSession(c, concurrency.WithTTL(60))
	check(b, err)
	defer shared.Close()
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
			_, err := c.Txn(ctx).
				If(clientv3.Compare(clientv3.CreateRevision("bare"), "=", 0)).
				Then(clientv3.OpPut("bare", "x", clientv3.WithLease(granted.ID))).Commit()
			check(b, err)
			_, err = c.Delete(ctx, "bare")
			check(b, err)
		}},
		{"shared-session", func() {
			m := concurrency.NewMutex(shared, "mutex")
			check(b, m.Lock(ctx))
			check(b, m.Unlock(ctx))
		}},
		{"session-per-lock", func() {
			s, err := concurrency.NewSession(c, concurrency.WithTTL(60))
			check(b, err)
			m := concurrency.NewMutex(s, "mutex2")
			check(b, m.Lock(ctx))
			check(b, m.Unlock(ctx))
			check(b, s.Close())
		}},
	}
	const rounds = 500
	took := make([][]time.Duration, len(pairs))
	for b.Loop() {
		for range rounds {
			for _, i := range rand.Perm(len(pairs)) { // each leaves the server some work
				began := time.Now()
				pairs[i].run()
				took[i] = append(took[i], time.Since(began))
			}
		}
	}
	for i, p := range pairs {
		slices.Sort(took[i])
		b.ReportMetric(float64(took[i][len(took[i])/2].Microseconds()), p.name+"-us")
	}
	b.ReportMetric(float64(took[0][len(took[0])/2])/float64(took[1][len(took[1])/2]), "x-bare")
	b.ReportMetric(float64(took[0][len(took[0])/2])/float64(took[2][len(took[2])/2]), "x-shared")
	b.ReportMetric(float64(took[0][len(took[0])/2])/float64(took[3][len(took[3])/2]), "x-per-lock")
}

// BenchmarkHandOff counts how often 16 waiters pass a lock on in a second.
func BenchmarkHandOff(b *testing.B) {
	for _, disk := range disks {
		for _, members := range []int{1, 3} {
			b.Run(fmt.Sprintf("%s/members=%d", disk.name, members), func(b *testing.B) {
				compareHandOffs(b, startCluster(b, members, slices.Concat(usual, []string{disk.arg})...).client())
			})
		}
	}
}

func compareHandOffs(b *testing.B, c *clientv3.Client) {
	l := on(b, c, nil)
	var ours, theirs float64
	for b.Loop() {
		ours = handOffs(b, func(ctx context.Context, _ int) error { return turn(ctx, l) })
		sessions := make([]*concurrency.Mutex, waiters)
		for i := range sessions {
			s, err := concurrency.NewSession(c, concurrency.WithTTL(60))
			check(b, err)
			defer s.Close()
			sessions[i] = concurrency.NewMutex(s, "mutex")
		}
		theirs = handOffs(b, func(ctx context.Context, i int) error {
			if err := sessions[i].Lock(ctx); err != nil {
				return err
			}
			return sessions[i].Unlock(ctx)
		})
	}
	b.ReportMetric(ours, "hand-offs/s")
	b.ReportMetric(theirs, "mutex-hand-offs/s")
	b.ReportMetric(ours/theirs, "x-mutex")
}

const waiters = 16

func turn(ctx context.Context, l *etcd.Locker) error {
	lease, err := l.AcquireWait(ctx, "k", testTTL)
	if err != nil {
		return err
	}
	return l.Release(ctx, lease)
}

// handOffs has 16 goroutines take turns for three seconds, and returns how many there
// were in each.
func handOffs(b *testing.B, turn func(ctx context.Context, i int) error) float64 {
	const span = 3 * time.Second
	counts := make([]int, waiters)
	end := time.Now().Add(span)
	var wg sync.WaitGroup
	for i := range waiters {
		wg.Go(func() {
			for time.Now().Before(end) {
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
	return float64(total) / span.Seconds()
}
