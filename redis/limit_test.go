package redis

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/locker-go/locker"
	"github.com/locker-go/locker/internal/testbed"
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
				l := newLimiter(limit)
				l.end(l.begin(t.Context())) // another one, long over
				start := time.Now()
				r := l.begin(tt.ctx(t))
				defer l.end(r)
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
		l := newLimiter(time.Second)
		for range 3 {
			l.end(l.begin(t.Context()))
		}
		time.Sleep(2 * l.every)
		synctest.Wait()
		if l.mu.Lock(); l.looking {
			t.Error("it looks though no request is open")
		}
		l.mu.Unlock()
		r := l.begin(t.Context())
		defer l.end(r)
		<-r.Done()
	})
}

// go-redis waits for a connection as long as its own PoolTimeout says.
func TestLimitWithoutConnections(t *testing.T) {
	t.Parallel()
	server := testbed.Redis(t)
	client := redis.NewClient(&redis.Options{Addr: server.Addr(), PoolSize: 1, PoolTimeout: time.Hour})
	defer client.Close()
	ctx := t.Context()
	only := client.Conn()
	defer only.Close()
	if err := only.Ping(ctx).Err(); err != nil {
		t.Fatal(err)
	}
	lease := locker.Lease{Key: "k", Holder: locker.NewHolder(), Token: 1}
	for _, tt := range []struct {
		name  string
		limit time.Duration
		after time.Duration // the caller cancels
		want  error
	}{
		{"limit", 50 * time.Millisecond, time.Hour, context.DeadlineExceeded},
		{"cancelled", time.Minute, 50 * time.Millisecond, context.Canceled},
	} {
		l, err := New(client, &Options{RequestTimeout: tt.limit})
		if err != nil {
			t.Fatal(err)
		}
		cancelled, cancel := context.WithCancel(ctx)
		timer := time.AfterFunc(tt.after, cancel)
		start := time.Now()
		_, err = l.FenceToken(cancelled, lease)
		if took := time.Since(start); !errors.Is(err, tt.want) || !errors.Is(err, locker.ErrUnavailable) || took > 20*time.Second {
			t.Errorf("%s: %v after %s; want ErrUnavailable with %v", tt.name, err, took, tt.want)
		}
		timer.Stop()
		cancel()
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}
}
