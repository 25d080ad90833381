package locker_test

import (
	"context"
	"runtime"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/locker-go/locker"
	"github.com/locker-go/locker/memory"
)

// A process with 10,000 holds, renewed for two minutes by a backend that takes 2 ms:
// few goroutines, little memory, nothing lost.
func TestTenThousandHolds(t *testing.T) {
	const (
		holds         = 10_000
		maxGoroutines = 20
		maxHeap       = 40 << 20
	)
	synctest.Test(t, func(t *testing.T) {
		store := new(memory.Store)
		f := &slow{Locker: memory.New(store)}
		var lost atomic.Int64
		c := newClient(t, f, &locker.Options{OnEvent: func(e locker.Event) {
			if e.Kind == locker.EventLost || e.Kind == locker.EventRenewFailed {
				lost.Add(1)
			}
		}})
		none, before := runtime.NumGoroutine(), heapInUse()
		all := make([]*locker.Hold, holds)
		for i := range all {
			all[i] = mustLock(t, c, strconv.Itoa(i))
		}
		time.Sleep(2 * time.Minute)
		if n := f.most.Load() - int64(none); n > maxGoroutines {
			t.Errorf("up to %d goroutines more than with none, want at most %d", n, maxGoroutines)
		} else {
			t.Logf("up to %d goroutines", n)
		}
		after := heapInUse()
		if after > before && after-before > maxHeap {
			t.Errorf("%d bytes of heap more than with none, want at most %d", after-before, maxHeap)
		} else {
			t.Logf("%d bytes of heap for each hold, the backend's included", (int64(after)-int64(before))/holds)
		}
		for _, h := range all {
			if isLost(h) || h.Lease().Remaining() == 0 {
				t.Fatalf("%s is lost", h)
			}
		}
		if n := lost.Load(); n > 0 {
			t.Errorf("%d renewals failed", n)
		}
		if n := f.renewals.Load(); n < holds*12 || n > holds*14 {
			t.Errorf("%d renewals in 2 minutes", n)
		}
		for _, h := range all {
			mustUnlock(t, h)
		}
	})
}

// slow is a backend whose renewals take 2 ms. It samples the number of goroutines.
type slow struct {
	locker.Locker
	renewals, most atomic.Int64
}

func (s *slow) Renew(ctx context.Context, lease locker.Lease, ttl time.Duration) (locker.Lease, error) {
	time.Sleep(2 * time.Millisecond)
	if s.renewals.Add(1)%100 == 0 {
		s.most.Store(max(s.most.Load(), int64(runtime.NumGoroutine())))
	}
	return s.Locker.Renew(ctx, lease, ttl)
}

func heapInUse() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// BenchmarkRenewal is what a renewal costs in the process, among many holds.
func BenchmarkRenewal(b *testing.B) {
	for _, holds := range []int{10, 1000, 10_000} {
		b.Run(strconv.Itoa(holds), func(b *testing.B) {
			b.ReportAllocs()
			f := &restless{until: int64(b.N), done: make(chan struct{})}
			c := locker.New(f, nil)
			for i := range holds {
				if _, err := c.Lock(b.Context(), strconv.Itoa(i)); err != nil {
					b.Fatal(err)
				}
			}
			f.started.Store(true)
			b.ResetTimer()
			<-f.done
			b.StopTimer()
			if err := c.Close(); err != nil {
				b.Error(err)
			}
		})
	}
}

// restless grants leases of which the third is over at once, so that all are due for
// renewal all the time. It tells when it has renewed often enough.
type restless struct {
	locker.Locker
	n       atomic.Int64
	until   int64
	started atomic.Bool
	done    chan struct{}
}

func (*restless) Acquire(_ context.Context, key string, _ time.Duration) (locker.Lease, error) {
	return locker.Lease{Key: key, Holder: "h", Token: 1}.Granted(locker.Now(), 0, time.Hour), nil
}

func (r *restless) Renew(_ context.Context, lease locker.Lease, _ time.Duration) (locker.Lease, error) {
	if r.started.Load() && r.n.Add(1) == r.until {
		close(r.done)
	}
	return lease.Granted(locker.Now(), 0, time.Hour), nil
}

func (*restless) Release(context.Context, locker.Lease) error { return nil }

// BenchmarkLock is what the client adds to a lock that nobody else wants.
func BenchmarkLock(b *testing.B) {
	l := memory.New(nil)
	b.Run("backend", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			lease, err := l.Acquire(b.Context(), key, ttl)
			if err == nil {
				err = l.Release(b.Context(), lease)
			}
			if err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("client", func(b *testing.B) {
		b.ReportAllocs()
		c := locker.New(l, nil)
		defer c.Close()
		for b.Loop() {
			h, err := c.Lock(b.Context(), key)
			if err == nil {
				err = h.Unlock()
			}
			if err != nil {
				b.Fatal(err)
			}
		}
	})
}
