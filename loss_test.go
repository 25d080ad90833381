package locker_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/locker-go/locker"
)

// redisson#4698, RedLock.net#92, consul#18271: the holder was never told, or
// minutes late. libkv#120, consul#2371: renewals went on after the loss.
func TestLostAtTheLocalDeadlineWithNoWordFromTheServer(t *testing.T) {
	for name, renew := range map[string]func(ctx context.Context) error{
		"refused":                  func(context.Context) error { return errDown },
		"stalled":                  stall,
		"stalled and heeds no ctx": func(context.Context) error { time.Sleep(time.Hour); return errDown },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFake()
				f.renew = func(ctx context.Context, lease locker.Lease, _ time.Duration) (locker.Lease, error) {
					return lease, renew(ctx)
				}
				h := mustLock(t, newClient(t, f, &locker.Options{ReleaseTimeout: time.Second}), key)
				deadline := h.Lease().Deadline
				<-h.Lost()
				if late := time.Since(deadline); late < 0 || late > time.Millisecond {
					t.Errorf("lost %s after the deadline", late)
				}
				cause := context.Cause(h.Context())
				wantErr(t, cause, locker.ErrNotHeld)
				if name != "stalled and heeds no ctx" {
					wantErr(t, cause, locker.ErrUnavailable)
				}
				before := f.count("renew")
				time.Sleep(10 * time.Minute)
				if n := f.count("renew") - before; n > 0 {
					t.Errorf("%d renewals after the loss", n)
				}
				wantErr(t, h.Unlock(), locker.ErrNotHeld)
				wantErr(t, h.Unlock(), locker.ErrNotHeld)
			})
		})
	}
}

func TestRefusedRenewalEndsTheHoldAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		h := mustLock(t, newClient(t, f, nil), key)
		admin, _ := locker.As[locker.Admin](f.Locker)
		if err := admin.Break(t.Context(), h.Lease().Holding()); err != nil {
			t.Fatal(err)
		}
		<-h.Lost()
		if left := h.Lease().Remaining(); left < ttl/2 {
			t.Errorf("lost %s before the deadline, want at the first renewal", left)
		}
		time.Sleep(time.Minute)
		if n := f.count("renew"); n != 1 {
			t.Errorf("%d renewals, want 1", n)
		}
		wantErr(t, context.Cause(h.Context()), locker.ErrNotHeld)
		wantErr(t, h.Unlock(), locker.ErrNotHeld)
	})
}

// The renewal was applied, but its reply comes after the hold was lost: the hold
// stays lost, and unlocking it frees what the renewal kept.
func TestRenewalWhoseReplyComesAfterTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		late := make(chan locker.Lease, 1)
		f.renew = func(ctx context.Context, lease locker.Lease, ttl time.Duration) (locker.Lease, error) {
			time.Sleep(time.Until(lease.Deadline) - 10*time.Millisecond)
			renewed, err := f.Locker.Renew(context.WithoutCancel(ctx), lease, ttl)
			time.Sleep(time.Second)
			late <- renewed
			return renewed, err
		}
		h := mustLock(t, newClient(t, f, nil), key)
		<-h.Lost()
		if renewed := <-late; renewed.Remaining() == 0 || isFree(t, f, key) {
			t.Fatal("the renewal did not keep the lock")
		}
		if h.Context().Err() == nil {
			t.Error("the hold lives again")
		}
		wantErr(t, h.Unlock(), locker.ErrNotHeld)
		if !isFree(t, f, key) {
			t.Error("the lock is still held")
		}
	})
}

// A laptop that was suspended wakes up without its locks, although its timers and
// its monotonic clock stood still.
func TestSuspendedMachineWakesUpWithoutItsLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := mustLock(t, newClient(t, newFake(), &locker.Options{TTL: time.Minute}), key)
		start := time.Now()
		time.Sleep(5 * time.Second)
		locker.Suspended.Add(int64(time.Hour))
		if left := h.Lease().Remaining(); left != 0 {
			t.Errorf("the lease has %s left after an hour in suspend", left)
		}
		<-h.Lost()
		if d := time.Since(start); d > 6*time.Second {
			t.Errorf("noticed %s after waking up, want within a second", d-5*time.Second)
		}
		wantErr(t, h.Unlock(), locker.ErrNotHeld)
	})
}

func TestUnlockAfterTheDeadlineSaysLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ev events
		h := mustLock(t, newClient(t, newFake(), &locker.Options{TTL: time.Minute, OnEvent: ev.hook}), key)
		locker.Suspended.Add(int64(time.Hour)) // and the scheduler has not noticed yet
		wantErr(t, h.Unlock(), locker.ErrNotHeld)
		if !isLost(h) {
			t.Error("Lost is not closed")
		}
		ev.want(t, locker.EventGranted, locker.EventLost)
	})
}
