package locker_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/locker-go/locker"
)

const ttl = 30 * time.Second // the default

func TestRenewsAtAThirdOfTheTTL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		h := mustLock(t, newClient(t, f, nil), key)
		granted := h.Lease()
		last := time.Now()
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		renewals := f.times("renew")
		for _, at := range renewals {
			if d := at.Sub(last); d < ttl/3*9/10 || d > ttl/3 {
				t.Errorf("renewed after %s, want a third of %s, up to 10 %% earlier", d, ttl)
			}
			last = at
		}
		if len(renewals) < 30 {
			t.Errorf("%d renewals in 5 minutes", len(renewals))
		}
		now := h.Lease()
		if isLost(h) || now.Token != granted.Token || now.Remaining() < ttl/2 {
			t.Errorf("after renewals: lost=%t, %s; granted was %s", isLost(h), now, granted)
		}
		mustUnlock(t, h)
	})
}

func TestRenewsByTheTTLThatWasGranted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		f.acquire = func(ctx context.Context, key string, _ time.Duration) (locker.Lease, error) {
			return f.Locker.Acquire(ctx, key, 6*time.Second)
		}
		f.renew = func(ctx context.Context, lease locker.Lease, _ time.Duration) (locker.Lease, error) {
			return f.Locker.Renew(ctx, lease, 6*time.Second)
		}
		h := mustLock(t, newClient(t, f, nil), key)
		time.Sleep(time.Minute)
		if isLost(h) || f.count("renew") < 28 {
			t.Errorf("lost=%t after %d renewals in a minute; the backend grants 6 s at a time", isLost(h), f.count("renew"))
		}
		mustUnlock(t, h)
	})
}

// redisson#775, #3194, #5698: one failed renewal ended all renewals.
func TestFailedRenewalsAreSurvivedUntilTheDeadline(t *testing.T) {
	for name, renew := range map[string]func(ctx context.Context) error{
		"refused": func(context.Context) error { return errDown },
		"stalled": stall,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFake()
				start := time.Now()
				f.renew = func(ctx context.Context, lease locker.Lease, ttl time.Duration) (locker.Lease, error) {
					// All go wrong from second 5 to second 20 of each minute.
					if s := time.Since(start) % time.Minute; s > 5*time.Second && s < 20*time.Second {
						return lease, renew(ctx)
					}
					return f.Locker.Renew(ctx, lease, ttl)
				}
				h := mustLock(t, newClient(t, f, nil), key)
				time.Sleep(10 * time.Minute)
				synctest.Wait()
				if isLost(h) || h.Context().Err() != nil {
					t.Fatalf("lost: %v", context.Cause(h.Context()))
				}
				mustUnlock(t, h)
			})
		})
	}
}

// dynamolock#280: a renewal was applied, its reply lost, and the next one failed.
func TestRenewalWhoseReplyWasLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		n := 0
		f.renew = func(ctx context.Context, lease locker.Lease, ttl time.Duration) (locker.Lease, error) {
			renewed, err := f.Locker.Renew(ctx, lease, ttl)
			if n++; err == nil && n%2 == 1 {
				return lease, errDown
			}
			return renewed, err
		}
		h := mustLock(t, newClient(t, f, nil), key)
		time.Sleep(5 * time.Minute)
		if isLost(h) {
			t.Fatalf("lost: %v", context.Cause(h.Context()))
		}
		mustUnlock(t, h)
	})
}

// RedLock.net#68: an abandoned handle was renewed for a week.
func TestRenewalEndsWithTheContextOfTheHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		c := newClient(t, f, nil)
		ctx, cancel := context.WithCancel(t.Context())
		if _, err := c.Lock(ctx, key); err != nil { // and forgets the hold
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		cancel()
		before := f.count("renew")
		start := time.Now()
		h := mustLock(t, c, key)
		if d := time.Since(start); d > ttl {
			t.Errorf("an abandoned lock was freed after %s, want at most the TTL", d)
		}
		if n := f.count("renew") - before; n > 0 {
			t.Errorf("%d renewals after the context had ended", n)
		}
		mustUnlock(t, h)
	})
}

func TestHoldWhoseContextEndedIsUnlockedAsAnyOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		c := newClient(t, f, nil)
		ctx, cancel := context.WithCancel(t.Context())
		h, err := c.Lock(ctx, key)
		if err != nil {
			t.Fatal(err)
		}
		cancel()
		time.Sleep(20 * time.Second)
		if isLost(h) {
			t.Error("lost before the deadline")
		}
		mustUnlock(t, h)
		if !isFree(t, f, key) {
			t.Error("the lock is still held")
		}
	})
}

// RedLock.net#64, redis-semaphore#206: a renewal in flight resurrected a lock that
// had just been released.
func TestUnlockEndsTheRenewalInFlightFirst(t *testing.T) {
	for name, ignore := range map[string]time.Duration{"heeds ctx": 0, "ignores ctx": 2 * time.Second} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFake()
				inFlight := false
				f.renew = func(ctx context.Context, lease locker.Lease, ttl time.Duration) (locker.Lease, error) {
					inFlight = true
					defer func() { inFlight = false }()
					<-ctx.Done()
					time.Sleep(ignore)
					return f.Locker.Renew(context.WithoutCancel(ctx), lease, ttl)
				}
				f.release = func(ctx context.Context, lease locker.Lease) error {
					if inFlight {
						t.Error("a renewal is in flight during the release")
					}
					return f.Locker.Release(ctx, lease)
				}
				h := mustLock(t, newClient(t, f, nil), key)
				time.Sleep(10 * time.Second)
				synctest.Wait()
				if !inFlight {
					t.Fatal("no renewal is in flight")
				}
				start := time.Now()
				mustUnlock(t, h)
				if d := time.Since(start); d != ignore {
					t.Errorf("Unlock took %s, want %s", d, ignore)
				}
				if !isFree(t, f, key) {
					t.Error("the lock is still held")
				}
				time.Sleep(time.Minute)
				if n := f.count("renew"); n != 1 {
					t.Errorf("%d renewals, want 1", n)
				}
			})
		})
	}
}

func TestUnlockIsBoundedWhenTheRenewalInFlightHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		f.renew = func(_ context.Context, lease locker.Lease, _ time.Duration) (locker.Lease, error) {
			time.Sleep(time.Hour)
			return lease, errDown
		}
		h := mustLock(t, newClient(t, f, nil), key)
		time.Sleep(10 * time.Second)
		start := time.Now()
		wantErr(t, h.Unlock(), locker.ErrUnavailable)
		if d := time.Since(start); d > 5*time.Second {
			t.Errorf("Unlock took %s", d)
		}
	})
}

// Where a part of the keys has no server that answers, the others are renewed in
// time all the same, though requests in flight are few.
func TestStalledRenewalsDoNotStarveOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		f.renew = func(ctx context.Context, lease locker.Lease, ttl time.Duration) (locker.Lease, error) {
			if strings.HasPrefix(lease.Key, "stalled") {
				return lease, stall(ctx)
			}
			return f.Locker.Renew(ctx, lease, ttl)
		}
		c := newClient(t, f, nil)
		var stalled, fine []*locker.Hold
		for i := range 200 {
			stalled = append(stalled, mustLock(t, c, fmt.Sprint("stalled", i)))
			fine = append(fine, mustLock(t, c, fmt.Sprint("fine", i)))
		}
		time.Sleep(2 * time.Minute)
		for i := range stalled {
			if !isLost(stalled[i]) {
				t.Errorf("%s is not lost", stalled[i])
			}
			if isLost(fine[i]) {
				t.Errorf("%s is lost: %v", fine[i], context.Cause(fine[i].Context()))
			}
		}
	})
}

func TestShortTTL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		h := mustLock(t, newClient(t, f, &locker.Options{TTL: locker.MinTTL}), key)
		time.Sleep(time.Second)
		if isLost(h) {
			t.Errorf("lost: %v", context.Cause(h.Context()))
		}
		if n := f.count("renew"); n < 290 || n > 400 {
			t.Errorf("%d renewals in a second", n)
		}
		mustUnlock(t, h)
	})
}

// While a renewal is in flight, no other of the same hold waits behind it.
func TestOneRenewalPerHoldAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		f.renew = func(ctx context.Context, lease locker.Lease, _ time.Duration) (locker.Lease, error) {
			return lease, stall(ctx)
		}
		h := mustLock(t, newClient(t, f, nil), key)
		for !isLost(h) {
			if n := goroutines("work"); n > 1 {
				t.Fatalf("%d workers for one hold", n)
			}
			time.Sleep(time.Second)
		}
	})
}

// A retry is sent when it is due, although the scheduler sleeps towards something
// that is due later.
func TestRetriesAreInTime(t *testing.T) {
	for name, ttl := range map[string]time.Duration{"short TTL": time.Second, "long TTL": time.Hour} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFake()
				n := 0
				f.renew = func(ctx context.Context, lease locker.Lease, ttl time.Duration) (locker.Lease, error) {
					if lease.Key != key {
						return f.Locker.Renew(ctx, lease, ttl)
					}
					if n++; n%2 == 1 {
						return lease, stall(ctx)
					}
					if left := lease.Remaining(); left < ttl/8 {
						t.Errorf("%s were left at the second attempt", left)
					}
					return f.Locker.Renew(ctx, lease, ttl)
				}
				c := newClient(t, f, &locker.Options{TTL: ttl})
				h := mustLock(t, c, key)
				for i := range 5 {
					time.Sleep(ttl / 20)
					mustLock(t, c, strconv.Itoa(i))
				}
				time.Sleep(50 * ttl)
				if isLost(h) {
					t.Errorf("lost: %v", context.Cause(h.Context()))
				}
			})
		})
	}
}

// A failing backend is asked again soon, but not in a busy loop.
func TestRetriesOfARenewalAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		f.renew = func(_ context.Context, lease locker.Lease, _ time.Duration) (locker.Lease, error) {
			return lease, errDown
		}
		var ev events
		h := mustLock(t, newClient(t, f, &locker.Options{OnEvent: ev.hook}), key)
		<-h.Lost()
		if n := f.count("renew"); n < 20 || n > 150 {
			t.Errorf("%d renewals failed in 20 s", n)
		}
		synctest.Wait()
		kinds := ev.kinds()
		if kinds[0] != locker.EventGranted || kinds[1] != locker.EventRenewFailed || kinds[len(kinds)-1] != locker.EventLost {
			t.Errorf("got events %q", kinds)
		}
		for _, e := range ev.all[1:] {
			if !errors.Is(e.Err, locker.ErrUnavailable) {
				t.Errorf("event %q has error %v", e.Kind, e.Err)
			}
		}
	})
}
