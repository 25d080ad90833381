package etcd_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// A waiter takes over from a holder that crashed, and never early. BenchmarkTakeover
// says how late.
func TestTakeover(t *testing.T) {
	t.Parallel()
	takeOver(t, startCluster(t, 1, fast...), "k", time.Second)
}

// takeOver returns how long after its TTL the key of a dead holder is taken over.
func takeOver(t testing.TB, cluster *cluster, key string, ttl time.Duration) time.Duration {
	t.Helper()
	holder, waiter := on(t, cluster.client(), nil), on(t, cluster.client(), nil)
	asked := time.Now()
	dead, err := holder.Acquire(t.Context(), key, ttl)
	if err != nil {
		t.Fatal(err)
	}
	lease, err := waiter.AcquireWait(t.Context(), key, testTTL)
	if err != nil {
		t.Fatal(err)
	}
	late := time.Since(asked) - dead.TTL
	if early := dead.Remaining(); early > 0 {
		t.Errorf("taken over %s before the holder's deadline", early)
	}
	if lease.Token <= dead.Token {
		t.Errorf("token %d after %d", lease.Token, dead.Token)
	}
	mustRelease(t, waiter, lease)
	return late
}

// BenchmarkTakeover reports how long after the TTL of a crashed holder, as it was
// granted, a waiter took over: in the median, and the longest.
func BenchmarkTakeover(b *testing.B) {
	for _, members := range []int{1, 3} {
		b.Run(fmt.Sprintf("members=%d", members), func(b *testing.B) {
			cluster := startCluster(b, members)
			late := make([]time.Duration, 10)
			for i := range late {
				time.Sleep(rand.N(500 * time.Millisecond)) // the server looks twice a second, which the last takeover was in step with
				late[i] = takeOver(b, cluster, fmt.Sprint(i), 2*time.Second)
			}
			slices.Sort(late)
			b.ReportMetric(float64(late[len(late)/2].Milliseconds()), "median-ms-after-ttl")
			b.ReportMetric(float64(late[len(late)-1].Milliseconds()), "ms-after-ttl")
		})
	}
}
