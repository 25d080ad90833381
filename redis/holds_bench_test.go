package redis_test

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/locker-go/locker"
	"github.com/locker-go/locker/internal/testbed"
)

// BenchmarkHolds keeps 10,000 locks with a TTL of 30 s for two minutes and reports
// what that takes beyond none: goroutines, heap, and how many were lost.
func BenchmarkHolds(b *testing.B) {
	const holds, lasting = 10_000, 2 * time.Minute
	server := testbed.Redis(b)
	l := on(b, connect(b, server.Addr()), nil)
	c := locker.New(l, &locker.Options{TTL: 30 * time.Second})
	if err := l.Release(b.Context(), mustAcquire(b, l, "connect")); err != nil {
		b.Fatal(err)
	}
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	goroutines, before := runtime.NumGoroutine(), heap()
	all := make([]*locker.Hold, holds)
	var wg sync.WaitGroup
	slots := make(chan struct{}, 8)
	for i := range all {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			var err error
			if all[i], err = c.Lock(b.Context(), fmt.Sprint(i)); err != nil {
				b.Error(err)
			}
		})
	}
	wg.Wait()
	if b.Failed() {
		return
	}
	most := 0
	for end := time.Now().Add(lasting); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		most = max(most, runtime.NumGoroutine())
	}
	used := int64(heap()) - int64(before)
	lost := 0
	for _, h := range all {
		select {
		case <-h.Lost():
			lost++
		default:
			if err := h.Unlock(); errors.Is(err, locker.ErrNotHeld) {
				lost++
			}
		}
	}
	if err := c.Close(); err != nil {
		b.Error(err)
	}
	b.ReportMetric(float64(most-goroutines), "goroutines")
	b.ReportMetric(float64(used)/(1<<20), "MiB")
	b.ReportMetric(float64(lost), "lost")
}
