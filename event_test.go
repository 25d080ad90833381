package locker_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/locker-go/locker"
	"github.com/locker-go/locker/memory"
)

func TestEventsOfAHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		var ev events
		c := newClient(t, f, &locker.Options{OnEvent: ev.hook})
		h := mustLock(t, c, key)
		want := h.Lease().Holding()
		time.Sleep(time.Minute)
		mustUnlock(t, h)
		ev.want(t, locker.EventGranted, locker.EventReleased)
		for _, e := range ev.all {
			if e.Holding.Key != key || e.Holding.Token != want.Token || e.Holding.Holder != want.Holder || e.Err != nil {
				t.Errorf("got event %+v", e)
			}
		}

		ev.all = nil
		_, err := c.Lock(t.Context(), "") // no hold, no event
		wantErr(t, err, locker.ErrInvalid)
		ev.want(t)
	})
}

// The hook may use the client and the hold: no lock is held and no request open
// when it is called.
func TestEventHookMayCallBack(t *testing.T) {
	for name, tc := range map[string]struct {
		renew error // what each renewal says
		kind  locker.EventKind
		want  error // of Unlock in the hook
	}{
		"granted":      {nil, locker.EventGranted, nil},
		"renew failed": {errDown, locker.EventRenewFailed, nil},
		"overdue":      {errDown, locker.EventLost, locker.ErrNotHeld},
		"refused":      {locker.ErrNotHeld, locker.EventLost, locker.ErrNotHeld},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFake()
				f.renew = func(_ context.Context, lease locker.Lease, _ time.Duration) (locker.Lease, error) {
					return lease, tc.renew
				}
				holds := make(chan *locker.Hold, 1)
				done := make(chan error, 1)
				var c *locker.Client
				c = newClient(t, f, &locker.Options{OnEvent: func(e locker.Event) {
					if e.Holding.Key != key || e.Kind != tc.kind {
						return
					}
					mustUnlock(t, mustLock(t, c, "another"))
					if tc.kind == locker.EventGranted {
						_, err := c.TryLock(t.Context(), key)
						wantErr(t, err, locker.ErrHeld)
						done <- nil
						return
					}
					done <- (<-holds).Unlock()
				}})
				holds <- mustLock(t, c, key)
				if err := <-done; !errors.Is(err, tc.want) {
					t.Errorf("the hook's call returned %v, want %v", err, tc.want)
				}
			})
		})
	}
}

func TestEventHookOfAReleaseMayLockAgain(t *testing.T) {
	var c *locker.Client
	again := make(chan *locker.Hold, 1)
	c = newClient(t, memory.New(nil), &locker.Options{OnEvent: func(e locker.Event) {
		if e.Kind == locker.EventReleased && len(again) == 0 {
			again <- tryLock(t, c)
		}
	}})
	mustUnlock(t, mustLock(t, c, key))
	mustUnlock(t, <-again)
}

// A hook that hangs delays no other loss.
func TestSlowEventHookDelaysNoLoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		f.renew = func(_ context.Context, lease locker.Lease, _ time.Duration) (locker.Lease, error) {
			return lease, errDown
		}
		c := newClient(t, f, &locker.Options{OnEvent: func(e locker.Event) {
			if e.Kind == locker.EventLost {
				time.Sleep(time.Hour)
			}
		}})
		mustLock(t, c, "first")
		time.Sleep(time.Second)
		h := mustLock(t, c, "second")
		deadline := h.Lease().Deadline
		<-h.Lost()
		if late := time.Since(deadline); late > time.Millisecond {
			t.Errorf("lost %s after its deadline", late)
		}
	})
}

func TestLogger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		log := slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug}))
		l := memory.New(nil)
		c := newClient(t, l, &locker.Options{Logger: log})
		h := mustLock(t, c, key)
		if err := l.Break(t.Context(), h.Lease().Holding()); err != nil {
			t.Fatal(err)
		}
		<-h.Lost()
		synctest.Wait()
		wantErr(t, h.Unlock(), locker.ErrNotHeld)
		for _, want := range []string{
			`level=DEBUG msg="lock granted" lease.key=` + key,
			`level=WARN msg="lock lost" lease.key=` + key,
			"err=",
		} {
			if !strings.Contains(out.String(), want) {
				t.Errorf("the log has no %q:\n%s", want, &out)
			}
		}
		if strings.Contains(out.String(), secretOf(h.Lease())) {
			t.Errorf("the log has a credential:\n%s", &out)
		}
	})
}
