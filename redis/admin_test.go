package redis_test

import (
	"errors"
	"testing"
	"time"

	"github.com/locker-go/locker"
	"github.com/locker-go/locker/internal/testbed"
	lockredis "github.com/locker-go/locker/redis"
)

// Holdings passed over locks that it may not read, as if there were none.
func TestHoldingsThatCannotBeRead(t *testing.T) {
	t.Parallel()
	server := testbed.Redis(t)
	admin := connect(t, server.Addr())
	mustAcquire(t, on(t, admin, nil), "k")
	if err := admin.Do(t.Context(), "ACL", "SETUSER", "blind", "on", ">pw", "~*", "+@all", "-get").Err(); err != nil {
		t.Fatal(err)
	}
	var failed error
	for _, err := range open(t, "redis://blind:pw@"+server.Addr()).Holdings(t.Context(), "") {
		failed = errors.Join(failed, err)
	}
	if !errors.Is(failed, locker.ErrUnavailable) {
		t.Errorf("holdings = %v, want ErrUnavailable", failed)
	}
}

// and waiters relied on a message of its release, which nobody sends.
func TestPlainLockWithNumber(t *testing.T) {
	t.Parallel()
	server := testbed.Redis(t)
	c := connect(t, server.Addr())
	l := on(t, c, &lockredis.Options{RawKeys: true})
	ctx := t.Context()
	if err := c.SetNX(ctx, "job", "web1:4711", time.Minute).Err(); err != nil {
		t.Fatal(err)
	}
	held, err := l.Inspect(ctx, "job")
	if err != nil || held.Token != 0 {
		t.Errorf("inspect = %v, %v; want no token", held, err)
	}
	for h, err := range l.Holdings(ctx, "") {
		t.Errorf("listed %v, %v", h, err)
	}
}
