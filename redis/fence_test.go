package redis_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/locker-go/locker"
	"github.com/locker-go/locker/internal/testbed"
	lockredis "github.com/locker-go/locker/redis"
)

// A rival may lift the fence of a lock that another client holds, and for longer. It
// is kept: it was gone before the lock was, and tokens could fall.
func TestFenceOutlivesItsLock(t *testing.T) {
	t.Parallel()
	server := testbed.Redis(t)
	c := connect(t, server.Addr())
	ctx := t.Context()
	proxy := testbed.NewProxy(t, server.Addr(), testbed.RESP)
	l := on(t, c, nil)
	rival := on(t, connect(t, proxy.Addr()), &lockredis.Options{FenceRetention: time.Minute})
	mustAcquire(t, rival, "warm")
	for name, lift := range map[string]func(locker.Lease) error{
		"raise": func(held locker.Lease) error { return rival.Raise(ctx, held.Key, held.Token+1) },
		"undo": func(held locker.Lease) error {
			proxy.LoseReply("evalsha")
			if _, err := rival.Acquire(ctx, held.Key, testTTL); !errors.Is(err, locker.ErrHeld) {
				return err
			}
			return nil
		},
	} {
		lease, err := l.Acquire(ctx, name, 24*time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		if err := lift(lease); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		fence := c.Keys(ctx, "*fence:locker:"+name).Val()
		if len(fence) != 1 {
			t.Fatalf("%s: fences %q, want one", name, fence)
		}
		if kept, locked := c.PTTL(ctx, fence[0]).Val(), c.PTTL(ctx, "locker:"+name).Val(); kept < locked {
			t.Errorf("%s: the fence is kept for %s, the lock for %s", name, kept, locked)
		}
		if got := c.Get(ctx, fence[0]).Val(); strings.HasPrefix(got, fmt.Sprint(lease.Token)) {
			t.Errorf("%s: the fence was not lifted", name)
		}
	}
}

// that JSON and Lua do not keep.
func TestFenceAtTheEnd(t *testing.T) {
	t.Parallel()
	server := testbed.Redis(t)
	c := connect(t, server.Addr())
	l := on(t, c, nil)
	ctx := t.Context()
	if err := l.Release(ctx, mustAcquire(t, l, "k")); err != nil {
		t.Fatal(err)
	}
	for _, name := range c.Keys(ctx, "*fence*").Val() {
		c.Set(ctx, name, "9007199254740991", 0)
	}
	lease, err := l.Acquire(ctx, "k", testTTL)
	if !errors.Is(err, locker.ErrUnavailable) || !strings.Contains(err.Error(), "damaged") {
		t.Errorf("acquire = token %d, %v; want ErrUnavailable", lease.Token, err)
	}
}
