package redisnode

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestLimiter(t *testing.T) {
	const limit = time.Second
	cancelled := func(t *testing.T) context.Context {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(limit/2, cancel)
		return ctx
	}
	expired := func(t *testing.T) context.Context {
		ctx, cancel := context.WithTimeout(t.Context(), limit/4)
		t.Cleanup(cancel)
		return ctx
	}
	for _, tt := range []struct {
		name string
		ctx  func(*testing.T) context.Context
		want error
		from time.Duration
	}{
		{"limit", func(t *testing.T) context.Context { return t.Context() }, context.DeadlineExceeded, limit},
		{"cancelled", cancelled, context.Canceled, limit / 2},
		{"deadline of the caller", expired, context.DeadlineExceeded, limit / 4},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := NewLimiter(limit)
				_ = l.End(l.Begin(t.Context()), nil) // another one, long over
				start := time.Now()
				r := l.Begin(tt.ctx(t))
				defer func() { _ = l.End(r, nil) }()
				if r.Err() != nil {
					t.Errorf("ended before its time: %v", r.Err())
				}
				<-r.Done()
				if took := time.Since(start); took < tt.from || took > tt.from+l.every {
					t.Errorf("ended after %s, want %s", took, tt.from)
				}
				if !errors.Is(r.Err(), tt.want) {
					t.Errorf("ended with %v, want %v", r.Err(), tt.want)
				}
			})
		})
	}
}

// A Locker that is not used needs no timer.
func TestLimiterRests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewLimiter(time.Second)
		for range 3 {
			_ = l.End(l.Begin(t.Context()), nil)
		}
		time.Sleep(2 * l.every)
		synctest.Wait()
		if l.mu.Lock(); l.looking {
			t.Error("it looks though no request is open")
		}
		l.mu.Unlock()
		r := l.Begin(t.Context())
		defer func() { _ = l.End(r, nil) }()
		<-r.Done()
	})
}
