package etcd_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
)

// go-zk#76, samuel#110: the watches of waiters that had given up were never removed.
// Those of five hundred leave no watch, no lease, no goroutine and no memory.
func TestCancelledWaitersLeaveNoWatches(t *testing.T) {
	cluster := startCluster(t, 1)
	c, server := cluster.client(), cluster.members[0]
	l := on(t, cluster.client(), nil)
	const keys, rounds = 100, 5
	for i := range keys {
		mustAcquire(t, l, fmt.Sprint(i))
	}
	waits := func(rounds int) {
		for range rounds {
			var wg sync.WaitGroup
			ctx, cancel := context.WithCancel(t.Context())
			for i := range keys {
				wg.Go(func() {
					if _, err := l.AcquireWait(ctx, fmt.Sprint(i), testTTL); !errors.Is(err, context.Canceled) {
						t.Errorf("the wait ended with %v", err)
					}
				})
			}
			watching(t, server, keys)
			cancel()
			wg.Wait()
			watching(t, server, 0)
		}
	}
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapInuse
	}
	waits(1)
	goroutines, memory := runtime.NumGoroutine(), heap()
	waits(rounds)
	until(t, "as many goroutines are left as before", func() bool { return runtime.NumGoroutine() <= goroutines })
	if after := heap(); after > memory+2<<20 {
		t.Errorf("%d waits that were given up keep %d KiB", keys*rounds, (after-memory)>>10)
	}
	serverLeases(t, c, keys)
}
