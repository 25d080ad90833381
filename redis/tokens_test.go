package redis

import (
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/locker-go/locker"
	"github.com/locker-go/locker/internal/redisnode"
	"github.com/locker-go/locker/internal/testbed"
)

// ShedLock#263: client wall clocks decided who holds. With a clock that is wrong by a
// minute or an hour, also where the server knows nothing of the key, tokens follow the
// server's clock, and nobody waits or fails.
func TestClientClocks(t *testing.T) {
	server := testbed.Redis(t)
	client := redis.NewClient(&redis.Options{Addr: server.Addr()})
	t.Cleanup(func() { _ = client.Close() })
	ctx := t.Context()
	var last locker.Token
	for i, offset := range []time.Duration{0, -time.Hour, time.Minute, 0, -time.Minute, time.Hour, -8 * time.Second, 8 * time.Second, 0} {
		var events int
		l, err := New(client, &Options{OnEvent: func(locker.Event) { events++ }})
		if err != nil {
			t.Fatal(err)
		}
		l.tokens.Clock = func() time.Time { return time.Now().Add(offset) }
		fresh, err := l.Acquire(ctx, fmt.Sprint("fresh", i), time.Minute)
		if err != nil {
			t.Fatalf("clock %s off: acquire of a new key: %v", offset, err)
		}
		if apart := time.Until(time.UnixMicro(int64(fresh.Token))); apart.Abs() > redisnode.Lead {
			t.Errorf("clock %s off: the token of a new key is %s from the server's clock", offset, apart)
		}
		lease, err := l.Acquire(ctx, "shared", time.Minute)
		if err != nil {
			t.Fatalf("clock %s off: acquire: %v", offset, err)
		}
		if lease.Token <= last {
			t.Errorf("clock %s off: token %d after %d", offset, lease.Token, last)
		}
		last = lease.Token
		if left := lease.Remaining(); left < 50*time.Second || left > time.Minute {
			t.Errorf("clock %s off: a lease of a minute has %s left", offset, left)
		}
		if err := l.Release(ctx, lease); err != nil {
			t.Errorf("clock %s off: release: %v", offset, err)
		}
		if wrong := offset.Abs() > redisnode.Lead; wrong != (events > 0) {
			t.Errorf("clock %s off: %d events", offset, events)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}
}
