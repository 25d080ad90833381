package locker_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/locker-go/locker"
	"github.com/locker-go/locker/memory"
)

// line lets n goroutines wait for key one after the other. Each has a context of
// its own, and appends its number to order while it has the lock.
type line struct {
	cancel []context.CancelFunc
	errs   []error
	order  []int // guarded by the lock itself
	wg     sync.WaitGroup
}

func lineUp(t *testing.T, c *locker.Client, n int) *line {
	l := &line{errs: make([]error, n)}
	for i := range n {
		ctx, cancel := context.WithCancel(t.Context())
		l.cancel = append(l.cancel, cancel)
		l.wg.Go(func() {
			l.errs[i] = c.Do(ctx, key, func(context.Context, locker.Lease) error {
				l.order = append(l.order, i)
				return nil
			})
		})
		synctest.Wait() // it stands in the line
	}
	return l
}

func TestProcessQueueIsFirstComeFirstServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		c := newClient(t, f, nil)
		first := mustLock(t, c, key)
		l := lineUp(t, c, 50)
		for i := 0; i < 50; i += 3 {
			l.cancel[i]()
		}
		synctest.Wait()
		mustUnlock(t, first)
		l.wg.Wait()
		var want []int
		for i, err := range l.errs {
			if i%3 == 0 {
				wantErr(t, err, locker.ErrHeld, context.Canceled)
				continue
			}
			want = append(want, i)
			if err != nil {
				t.Errorf("waiter %d: %v", i, err)
			}
		}
		if !slices.Equal(l.order, want) {
			t.Errorf("served in the order %v, want %v", l.order, want)
		}
		// A process sends one attempt per key, however many wait in it.
		if n := f.count("acquire"); n != 1+len(want) {
			t.Errorf("%d requests for %d grants", n, 1+len(want))
		}
	})
}

// vitess#15756, etcd#9715: a waiter that was cancelled, here as its turn comes,
// blocked everyone behind it.
func TestTurnIsNotLostWhenItsOwnerIsCancelled(t *testing.T) {
	for range 100 {
		synctest.Test(t, func(t *testing.T) {
			c := newClient(t, memory.New(nil), nil)
			first := mustLock(t, c, key)
			l := lineUp(t, c, 8)
			for i := 0; i < 8; i += 2 {
				l.wg.Go(l.cancel[i])
			}
			l.wg.Go(func() { mustUnlock(t, first) })
			l.wg.Wait()
			for i, err := range l.errs {
				if err != nil && (i%2 == 1 || !errors.Is(err, context.Canceled)) {
					t.Errorf("waiter %d: %v", i, err)
				}
			}
			if !slices.IsSorted(l.order) {
				t.Errorf("served in the order %v", l.order)
			}
			mustUnlock(t, tryLock(t, c))
		})
	}
}

func TestWaitersSendNoRequestsOfTheirOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := new(memory.Store)
		f := &fake{Locker: memory.New(store)}
		mine, other := newClient(t, f, nil), newClient(t, memory.New(store), nil)
		h := mustLock(t, other, key)
		l := lineUp(t, mine, 1)
		one := f.count("acquire")
		time.Sleep(10 * time.Minute)
		alone := f.count("acquire") - one
		more := lineUp(t, mine, 20)
		before := f.count("acquire")
		time.Sleep(10 * time.Minute)
		crowd := f.count("acquire") - before
		if crowd > alone*3/2 {
			t.Errorf("21 waiters sent %d requests in 10 minutes, one sent %d", crowd, alone)
		}
		mustUnlock(t, h)
		l.wg.Wait()
		more.wg.Wait()
	})
}

func TestTryLockNeverJumpsTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		c := newClient(t, f, nil)
		h := mustLock(t, c, key)
		l := lineUp(t, c, 5)
		f.acquire = func(ctx context.Context, key string, ttl time.Duration) (locker.Lease, error) {
			time.Sleep(time.Second) // the lock is free while a waiter asks for it
			return f.Locker.Acquire(ctx, key, ttl)
		}
		mustUnlock(t, h)
		for range 5 {
			synctest.Wait()
			before := f.count("acquire")
			_, err := c.TryLock(t.Context(), key)
			wantErr(t, err, locker.ErrHeld)
			if n := f.count("acquire") - before; n > 0 {
				t.Errorf("TryLock sent %d requests", n)
			}
			time.Sleep(900 * time.Millisecond)
		}
		l.wg.Wait()
		if len(l.order) != 5 {
			t.Errorf("%d of 5 waiters were served", len(l.order))
		}
	})
}

func TestOptionsWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := new(memory.Store)
		c := newClient(t, memory.New(store), &locker.Options{Wait: 3 * time.Second})
		other := newClient(t, memory.New(store), nil)
		for name, rival := range map[string]*locker.Client{"same client": c, "another client": other} {
			h := mustLock(t, rival, key)
			start := time.Now()
			_, err := c.Lock(t.Context(), key)
			wantErr(t, err, locker.ErrHeld, context.DeadlineExceeded)
			if d := time.Since(start); d != 3*time.Second {
				t.Errorf("%s: gave up after %s, want 3 s", name, d)
			}
			held, ok := errors.AsType[*locker.HeldError](err)
			if !ok || held.Token != h.Lease().Token {
				t.Errorf("%s: %v does not tell who holds the lock", name, err)
			}
			mustUnlock(t, h)
		}
		h := mustLock(t, c, key) // Wait bounds the waiting, not the holding
		time.Sleep(time.Minute)
		if isLost(h) || h.Context().Err() != nil {
			t.Errorf("lost: %v", context.Cause(h.Context()))
		}
		mustUnlock(t, h)
	})
}

func TestKeysDoNotTouchEachOther(t *testing.T) {
	c := newClient(t, memory.New(nil), nil)
	for _, k := range []string{"a", "a/", "a/b", "A", "a\u0301", "\u00e1"} {
		h, err := c.TryLock(t.Context(), k)
		if err != nil {
			t.Fatal(err)
		}
		defer mustUnlock(t, h)
	}
}

// A hold that was lost makes room for the next in the process at once.
func TestLossEndsTheTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		f.renew = func(_ context.Context, lease locker.Lease, _ time.Duration) (locker.Lease, error) {
			return lease, errDown
		}
		c := newClient(t, f, nil)
		first := mustLock(t, c, key)
		second := mustLock(t, c, key)
		if !isLost(first) || isLost(second) {
			t.Errorf("lost: first %t, second %t", isLost(first), isLost(second))
		}
		if second.Lease().Token <= first.Lease().Token {
			t.Error("the token did not rise")
		}
		wantErr(t, first.Unlock(), locker.ErrNotHeld)
		if !first.Lease().Deadline.Before(second.Lease().Deadline) || isFree(t, f, key) {
			t.Error("the unlock of the lost hold freed its successor's lock")
		}
		_, err := c.TryLock(t.Context(), key)
		wantErr(t, err, locker.ErrHeld)
		mustUnlock(t, second)
	})
}

// The hand-off of a contended lock is fair, and each goroutine gets its share.
func TestGoroutinesOfOneProcessShareALockFairly(t *testing.T) {
	const goroutines, handOffs = 16, 1600
	c := newClient(t, memory.New(nil), nil)
	var counts [goroutines]float64
	total := 0 // guarded by the lock, as are the counts
	here := make(map[int]bool)
	var wg sync.WaitGroup
	for i := range goroutines {
		wg.Go(func() {
			for done := false; !done; {
				err := c.Do(t.Context(), key, func(context.Context, locker.Lease) error {
					// It counts from when all are there: some begin to run late.
					if here[i] = true; len(here) < goroutines {
						return nil
					}
					if done = total >= handOffs; !done {
						total++
						counts[i]++
					}
					return nil
				})
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	if j := jain(counts[:]); j < 0.95 {
		t.Errorf("Jain's index is %.3f, want at least 0.95: %v", j, counts)
	}
}

// jain returns Jain's fairness index: 1 if all have the same, 1/n if one has all.
func jain(x []float64) float64 {
	var sum, squares float64
	for _, v := range x {
		sum += v
		squares += v * v
	}
	return sum * sum / (float64(len(x)) * squares)
}

func BenchmarkHandOff(b *testing.B) {
	c := locker.New(memory.New(nil), nil)
	defer c.Close()
	b.SetParallelism(16)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if err := c.Do(b.Context(), key, func(context.Context, locker.Lease) error { return nil }); err != nil {
				b.Error(err)
			}
		}
	})
}
