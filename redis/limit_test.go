package redis

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/locker-go/locker"
	"github.com/locker-go/locker/internal/testbed"
)

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
