package redis_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/locker-go/locker"
	"github.com/locker-go/locker/internal/testbed"
	lockredis "github.com/locker-go/locker/redis"
)

const testTTL = 10 * time.Second

// Programs that lock by SET key value NX PX, as redsync, redislock and node-redlock
// do, and locker exclude each other on the same key.
func TestPlainLocks(t *testing.T) {
	server := testbed.Redis(t)
	plain := connect(t, server.Addr())
	l := on(t, connect(t, server.Addr()), &lockredis.Options{RawKeys: true})
	ctx := t.Context()

	lease := mustAcquire(t, l, "job")
	if ok, err := plain.SetNX(ctx, "job", "other", time.Minute).Result(); ok || err != nil {
		t.Fatalf("SET NX on a key that locker holds = %v, %v; want false", ok, err)
	}
	if kind := plain.Type(ctx, "job").Val(); kind != "string" {
		t.Errorf("the lock is a %s, want a string", kind)
	}
	if err := l.Release(ctx, lease); err != nil {
		t.Fatal(err)
	}

	if ok, err := plain.SetNX(ctx, "job", "c2VjcmV0", time.Minute).Result(); !ok || err != nil {
		t.Fatalf("SET NX on a free key = %v, %v; want true", ok, err)
	}
	_, err := l.Acquire(ctx, "job", testTTL)
	held, ok := errors.AsType[*locker.HeldError](err)
	if !ok || held.Token != 0 || held.Remaining <= 0 || held.Remaining > time.Minute {
		t.Fatalf("acquire of a plain lock = %v; want held without a token for at most a minute", err)
	}
	if strings.Contains(err.Error(), "c2VjcmV0") || !strings.HasPrefix(held.Holder, "#") {
		t.Errorf("%v shows more of a plain lock's value than its hash", err)
	}
	for _, call := range []struct {
		op  string
		err error
	}{
		{"release", l.Release(ctx, lease)},
		{"renew", second(l.Renew(ctx, lease, testTTL))},
		{"fence", second(l.FenceToken(ctx, lease))},
	} {
		if !errors.Is(call.err, locker.ErrNotHeld) {
			t.Errorf("%s of a lease whose key is a plain lock now = %v, want ErrNotHeld", call.op, call.err)
		}
	}
	if got := plain.Get(ctx, "job").Val(); got != "c2VjcmV0" {
		t.Errorf("the plain lock's value is now %q", got)
	}

	h, err := l.Inspect(ctx, "job")
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Break(ctx, h); err != nil {
		t.Errorf("break of a plain lock: %v", err)
	}
	plain.Set(ctx, "job", "for ever", 0)
	if h, err := l.Inspect(ctx, "job"); err != nil || h.Remaining != locker.Forever {
		t.Errorf("inspect of a lock without expiry = %+v, %v; want Forever", h, err)
	}
}

func second[T any](_ T, err error) error { return err }

// A waiter takes over from a plain lock, of which no message tells.
func TestWaitForPlainLock(t *testing.T) {
	server := testbed.Redis(t)
	plain := connect(t, server.Addr())
	l := on(t, connect(t, server.Addr()), &lockredis.Options{RawKeys: true})
	plain.Set(t.Context(), "job", "other", 0)
	done := make(chan error, 1)
	go func() { _, err := l.AcquireWait(t.Context(), "job", testTTL); done <- err }()
	until(t, "the waiter asks", func() bool { return calls(t, plain, "evalsha", "eval") > 2 })
	plain.Del(t.Context(), "job")
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

func TestNamespaces(t *testing.T) {
	server := testbed.Redis(t)
	c := connect(t, server.Addr())
	a := on(t, c, &lockredis.Options{Namespace: "a"})
	b := on(t, c, &lockredis.Options{Namespace: "a.b"})
	raw := on(t, c, &lockredis.Options{RawKeys: true})
	la := mustAcquire(t, a, "b:k")
	mustAcquire(t, b, "k")
	mustAcquire(t, a, "k")
	mustAcquire(t, raw, "k")
	mustAcquire(t, raw, "k/l:x") // no namespace can be named k/l
	for l, want := range map[*lockredis.Locker]int{a: 2, b: 1, raw: 2} {
		n := 0
		for h, err := range l.Holdings(t.Context(), "") {
			if err != nil {
				t.Fatal(err)
			}
			if h.Token == 0 {
				t.Errorf("%+v has no token", h)
			}
			n++
		}
		if n != want {
			t.Errorf("%d holdings, want %d", n, want)
		}
	}
	if _, err := raw.Acquire(t.Context(), "a:b:k", testTTL); !errors.Is(err, locker.ErrInvalid) || !strings.Contains(err.Error(), "namespace=a") {
		t.Errorf("a raw key that is the lock of namespace a: %v; want ErrInvalid that says which namespace to use", err)
	}
	if err := a.Release(t.Context(), la); err != nil {
		t.Error(err)
	}
}

// A ring moves keys to another server when one is lost; and whatever else satisfies
// the interface of all clients.
func TestRefusedClients(t *testing.T) {
	ring := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"a": "127.0.0.1:1"}})
	defer ring.Close()
	for _, c := range []redis.UniversalClient{ring, struct{ redis.UniversalClient }{ring}, nil} {
		if _, err := lockredis.New(c, nil); !errors.Is(err, locker.ErrInvalid) {
			t.Errorf("New(%T) = %v, want ErrInvalid", c, err)
		}
	}
}

func TestOptions(t *testing.T) {
	c := connect(t, "127.0.0.1:1")
	for name, opts := range map[string]lockredis.Options{
		"namespace":         {Namespace: "a:b"},
		"namespace and raw": {Namespace: "a", RawKeys: true},
		"request timeout":   {RequestTimeout: time.Millisecond},
		"retention":         {FenceRetention: time.Second},
		"replicas":          {MinReplicas: -1},
	} {
		if _, err := lockredis.New(c, &opts); !errors.Is(err, locker.ErrInvalid) {
			t.Errorf("%s: New = %v, want ErrInvalid", name, err)
		}
	}
}
