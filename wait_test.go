package locker_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/locker-go/locker"
)

// heldBy returns the answer that key is held.
func heldBy(h locker.Holding) error {
	h.Key = key
	return &locker.OpError{Op: "acquire", Backend: "fake", Key: key, Err: &locker.HeldError{Holding: h}}
}

var (
	grant   = locker.Lease{Key: key, Holder: "h", Token: 7}
	unknown = locker.Holding{}
	ours    = locker.Holding{Holder: "host.1#00000000", Token: 6, Remaining: time.Hour}
)

// script answers the attempts of a Wait: answer gets the number of the attempt,
// from 0, and since when the Wait runs.
type script struct {
	start    time.Time
	attempts int
	answer   func(n int, since time.Duration) error
}

func (s *script) attempt(context.Context) (locker.Lease, error) {
	n := s.attempts
	s.attempts++
	if err := s.answer(n, time.Since(s.start)); err != nil {
		return locker.Lease{}, err
	}
	return grant, nil
}

// wait runs locker.Wait on the script, in a bubble.
func (s *script) wait(ctx context.Context, wake <-chan struct{}) (time.Duration, error) {
	s.start = time.Now()
	lease, err := locker.Wait(ctx, wake, s.attempt)
	if err == nil && lease != grant {
		err = errors.New("the lease is not the one of the attempt")
	}
	return time.Since(s.start), err
}

// How often Wait asks in a minute on a lock that stays held: often enough, and
// in no busy loop.
func TestWaitAsksAtDecentIntervals(t *testing.T) {
	closed := make(chan struct{})
	close(closed)
	short, forever := ours, ours
	short.Remaining, forever.Remaining = time.Nanosecond, locker.Forever
	for name, tc := range map[string]struct {
		wake   <-chan struct{}
		held   error
		lo, hi int
	}{
		"no wake-ups":                   {nil, heldBy(ours), 200, 600},
		"nothing known":                 {nil, heldBy(unknown), 200, 600},
		"ErrHeld alone":                 {nil, locker.ErrHeld, 200, 600},
		"no wake-ups, no expiry":        {nil, heldBy(forever), 200, 600},
		"wake-ups":                      {make(chan struct{}), heldBy(ours), 11, 14},
		"wake-ups, no expiry":           {make(chan struct{}), heldBy(forever), 11, 14},
		"wake-ups, another program":     {make(chan struct{}), heldBy(unknown), 200, 600},
		"wake-ups that ended":           {closed, heldBy(ours), 200, 600},
		"always about to end":           {nil, heldBy(short), 5000, 60_000},
		"always about to end, wake-ups": {make(chan struct{}), heldBy(short), 5000, 60_000},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				if tc.wake != nil && tc.wake != closed {
					tc.wake = make(chan struct{}) // of this bubble
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				s := &script{answer: func(int, time.Duration) error { return tc.held }}
				_, err := s.wait(ctx, tc.wake)
				wantErr(t, err, locker.ErrHeld, context.DeadlineExceeded)
				if s.attempts < tc.lo || s.attempts > tc.hi {
					t.Errorf("%d attempts, want %d to %d", s.attempts, tc.lo, tc.hi)
				}
			})
		})
	}
}

func TestWaitAsksWhenTheLeaseEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{answer: func(n int, since time.Duration) error {
			if left := 3*time.Second - since; left > 0 {
				return heldBy(locker.Holding{Holder: "h", Token: 6, Remaining: left})
			}
			return nil
		}}
		took, err := s.wait(t.Context(), make(chan struct{}))
		if err != nil || took < 3*time.Second || took > 3*time.Second+15*time.Millisecond || s.attempts != 2 {
			t.Errorf("got %v after %s and %d attempts, want the lock just after 3 s, in 2", err, took, s.attempts)
		}
	})
}

func TestWaitIsWoken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wake := make(chan struct{}, 1)
		s := &script{answer: func(n int, _ time.Duration) error {
			if n < 3 {
				return heldBy(ours)
			}
			return nil
		}}
		time.AfterFunc(time.Second, func() { wake <- struct{}{} })
		time.AfterFunc(2*time.Second, func() { wake <- struct{}{} })
		time.AfterFunc(3*time.Second, func() { wake <- struct{}{} })
		if took, err := s.wait(t.Context(), wake); err != nil || took != 3*time.Second {
			t.Errorf("got %v after %s", err, took)
		}
	})
}

// redsync#164, redislock#79, #84: the error of a wait that ended lost one of its
// reasons.
func TestWaitThatEndsTellsBothReasons(t *testing.T) {
	errCause := errors.New("shutting down")
	down := &locker.OpError{Op: "acquire", Backend: "fake", Key: key, Err: locker.ErrUnavailable}
	for name, answer := range map[string]func(n int, since time.Duration) error{
		"held":                   func(int, time.Duration) error { return heldBy(ours) },
		"held, then unavailable": func(n int, _ time.Duration) error { return []error{heldBy(ours), down}[min(n, 1)] },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancelCause(t.Context())
				time.AfterFunc(time.Second, func() { cancel(errCause) })
				s := &script{answer: answer}
				took, err := s.wait(ctx, nil)
				if took != time.Second {
					t.Errorf("ended after %s, want with its context", took)
				}
				wantErr(t, err, locker.ErrHeld, context.Canceled, errCause)
				if held, ok := errors.AsType[*locker.HeldError](err); !ok || held.Token != ours.Token {
					t.Errorf("%v does not tell who holds the lock", err)
				}
				if op, ok := errors.AsType[*locker.OpError](err); !ok || op.Key != key || op.Backend != "fake" {
					t.Errorf("%v does not tell where", err)
				}
			})
		})
	}
	t.Run("during an attempt", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		n := 0
		_, err := locker.Wait(ctx, nil, func(context.Context) (locker.Lease, error) {
			if n++; n == 1 {
				return locker.Lease{}, heldBy(unknown)
			}
			cancel()
			return locker.Lease{}, heldBy(ours)
		})
		wantErr(t, err, locker.ErrHeld, context.Canceled)
		if held, ok := errors.AsType[*locker.HeldError](err); !ok || held.Token != ours.Token {
			t.Errorf("%v does not tell who held the lock last", err)
		}
	})
	t.Run("during an attempt that fails", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		n := 0
		_, err := locker.Wait(ctx, nil, func(ctx context.Context) (locker.Lease, error) {
			if n++; n == 1 {
				return locker.Lease{}, heldBy(ours)
			}
			cancel()
			return locker.Lease{}, errors.Join(down, ctx.Err())
		})
		wantErr(t, err, locker.ErrHeld, context.Canceled)
	})
	t.Run("during the first attempt", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		_, err := locker.Wait(ctx, nil, func(ctx context.Context) (locker.Lease, error) {
			cancel()
			return locker.Lease{}, down // of which it does not say why
		})
		wantErr(t, err, locker.ErrUnavailable, context.Canceled)
		if errors.Is(err, locker.ErrHeld) {
			t.Errorf("%v, though nobody said that it is held", err)
		}
	})
}

// An outage that begins while others hold the lock fails nobody if it is short.
func TestWaitToleratesAnOutage(t *testing.T) {
	down := &locker.OpError{Op: "acquire", Backend: "fake", Key: key, Err: locker.ErrUnavailable}
	other := errors.New("another error")
	outage := func(from, to time.Duration) func(int, time.Duration) error {
		return func(_ int, since time.Duration) error {
			switch {
			case since >= from && since < to:
				return down
			case since < time.Hour:
				return heldBy(ours)
			}
			return nil
		}
	}
	for name, tc := range map[string]struct {
		answer   func(int, time.Duration) error
		want     error
		atLeast  time.Duration
		atMost   time.Duration
		attempts int // at most
	}{
		"at the first attempt": {outage(0, time.Hour), locker.ErrUnavailable, 0, 0, 1},
		"short":                {outage(time.Minute, 85*time.Second), nil, time.Hour, time.Hour + time.Second, 40_000},
		"long":                 {outage(time.Minute, time.Hour), locker.ErrUnavailable, 90 * time.Second, 91 * time.Second, 1500},
		"another error":        {func(int, time.Duration) error { return other }, other, 0, 0, 1},
		"invalid": {func(n int, _ time.Duration) error {
			return []error{heldBy(ours), locker.ErrInvalid}[n]
		}, locker.ErrInvalid, 0, time.Second, 2},
		"many short ones": {func(n int, since time.Duration) error {
			if since >= time.Hour {
				return nil
			}
			return []error{heldBy(ours), down, down, down}[n%4]
		}, nil, time.Hour, time.Hour + time.Second, 40_000},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &script{answer: tc.answer}
				took, err := s.wait(t.Context(), nil)
				if !errors.Is(err, tc.want) || took < tc.atLeast || took > tc.atMost || s.attempts > tc.attempts {
					t.Errorf("got %v after %s and %d attempts; want %v after %s to %s and at most %d",
						err, took, s.attempts, tc.want, tc.atLeast, tc.atMost, tc.attempts)
				}
			})
		})
	}
}

// Many that wait for one lease do not all ask at the same moment.
func TestWaitIsJittered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		moments := make(map[time.Duration]int)
		for range 50 {
			s := &script{answer: func(n int, since time.Duration) error {
				if n == 0 {
					return heldBy(locker.Holding{Holder: "h", Token: 6, Remaining: time.Second})
				}
				return nil
			}}
			took, err := s.wait(t.Context(), make(chan struct{}))
			if err != nil {
				t.Fatal(err)
			}
			moments[took]++
		}
		if len(moments) < 40 {
			t.Errorf("50 waiters asked at %d moments", len(moments))
		}
	})
}

// waiter is a Locker that waits in a way of its own.
type waiter struct{ *fake }

func (w *waiter) AcquireWait(context.Context, string, time.Duration) (locker.Lease, error) {
	w.record("wait")
	return grant, nil
}

// wrapper sees what passes through.
type wrapper struct{ locker.Locker }

func (w wrapper) Unwrap() locker.Locker { return w.Locker }

// opaque changes what calls mean, so it has no Unwrap.
type opaque struct{ locker.Locker }

func TestAcquireWaitUsesTheBackendsOwnWay(t *testing.T) {
	w := &waiter{newFake()}
	for _, l := range []locker.Locker{w, wrapper{wrapper{w}}} {
		if lease, err := locker.AcquireWait(t.Context(), l, key, ttl); err != nil || lease != grant {
			t.Errorf("%T: got %s, %v", l, lease, err)
		}
	}
	if n := w.count("acquire"); n != 0 {
		t.Errorf("%d calls of Acquire", n)
	}
	lease, err := locker.AcquireWait(t.Context(), opaque{w}, key, ttl)
	if err != nil || lease == grant || w.count("acquire") != 1 {
		t.Errorf("bypassed a wrapper without Unwrap: got %s, %v", lease, err)
	}
}

func TestAs(t *testing.T) {
	w := &waiter{newFake()}
	chain := wrapper{wrapper{w}}
	if got, ok := locker.As[*waiter](chain); !ok || got != w {
		t.Errorf("As[*waiter] = %v, %t", got, ok)
	}
	if got, ok := locker.As[wrapper](chain); !ok || got != chain {
		t.Errorf("As[wrapper] = %v, %t, want the outermost", got, ok)
	}
	if got, ok := locker.As[locker.Locker](chain); !ok || got != locker.Locker(chain) {
		t.Errorf("As[Locker] = %v, %t", got, ok)
	}
	if got, ok := locker.As[locker.Admin](chain); ok || got != nil {
		t.Errorf("As[Admin] = %v, %t", got, ok)
	}
	if _, ok := locker.As[locker.Waiter](opaque{w}); ok {
		t.Error("As saw through a wrapper without Unwrap")
	}
	if _, ok := locker.As[locker.Waiter](wrapper{nil}); ok {
		t.Error("As found something at the end of a chain")
	}
	if _, ok := locker.As[locker.Waiter](nil); ok {
		t.Error("As found something in nil")
	}
}
