package bench

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/locker-go/locker/internal/testbed"
	lockredis "github.com/locker-go/locker/redis"
)

// A fleet moves from redsync to locker process by process, so for a while both want
// the same key. Each must keep the other out, and neither may starve.
func TestRedsyncAndLockerExcludeEachOther(t *testing.T) {
	const (
		goroutines = 4  // of each
		crossings  = 20 // of the lock, from one library to the other
		key        = "job"
	)
	server := testbed.Redis(t)
	old, err := openRedsync(server.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer closeClient(t, old)
	next, err := openLocker(server.Addr(), &lockredis.Options{RawKeys: true})
	if err != nil {
		t.Fatal(err)
	}
	defer closeClient(t, next)
	ctx, enough := context.WithTimeout(t.Context(), limit)
	defer enough()

	// What the lock guards. It is atomic only because the race detector does not
	// see that a lock on a server orders things.
	var holders, counter, last, crossed, grants atomic.Int64
	work := func(library int) {
		if n := holders.Add(1); n != 1 {
			t.Errorf("%d hold the lock at once", n)
		}
		seen := counter.Load()
		runtime.Gosched()
		if last.Swap(int64(library)) != int64(library) && crossed.Add(1) >= crossings {
			enough()
		}
		counter.Store(seen + 1)
		holders.Add(-1)
		grants.Add(1)
	}
	var wg sync.WaitGroup
	for library, c := range []client{old, next} {
		for range goroutines {
			wg.Go(func() {
				for ctx.Err() == nil {
					unlock, err := c.lock(ctx, key)
					if err != nil {
						if ctx.Err() == nil {
							t.Errorf("lock: %v", err)
						}
						return
					}
					work(library)
					if err := unlock(); err != nil {
						t.Errorf("unlock: %v", err)
					}
				}
			})
		}
	}
	wg.Wait()
	if got := counter.Load(); got != grants.Load() {
		t.Errorf("a counter that %d holders incremented is %d", grants.Load(), got)
	}
	if got := crossed.Load(); got < crossings {
		t.Errorf("the lock went from one library to the other only %d times", got)
	}
}

func closeClient(t *testing.T, c client) {
	if err := c.close(); err != nil {
		t.Errorf("close: %v", err)
	}
}
