package redis_test

import (
	"bufio"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/locker-go/locker"
	"github.com/locker-go/locker/internal/testbed"
	lockredis "github.com/locker-go/locker/redis"
)

// it was taken for one, and the lock stayed for its whole TTL.
func TestWaitRefused(t *testing.T) {
	t.Parallel()
	server := testbed.Redis(t)
	admin := connect(t, server.Addr())
	if err := admin.Do(t.Context(), "ACL", "SETUSER", "app", "on", ">pw", "allchannels", "~*", "+@all", "-wait").Err(); err != nil {
		t.Fatal(err)
	}
	l := open(t, "redis://app:pw@"+server.Addr()+"?min_replicas=1")
	_, err := l.Acquire(t.Context(), "k", testTTL)
	if !errors.Is(err, locker.ErrUnavailable) || !redis.HasErrorPrefix(err, "NOPERM") {
		t.Errorf("acquire = %v, want ErrUnavailable with NOPERM", err)
	}
	if got := leftBehind(t, admin); len(got) != 0 {
		t.Errorf("left behind: %q", got)
	}
}

// which may have run the request all the same.
func TestProxyThatLostTheReply(t *testing.T) {
	t.Parallel()
	server := testbed.Redis(t)
	c := connect(t, server.Addr())
	l := on(t, connect(t, losesFirstReply(t, server.Addr(), "evalsha", "-ERR Connection timed out\r\n")), nil)
	mustAcquire(t, on(t, c, nil), "warm")
	if _, err := l.Acquire(t.Context(), "k", testTTL); !errors.Is(err, locker.ErrUnavailable) {
		t.Errorf("acquire = %v, want ErrUnavailable", err)
	}
	if got := leftBehind(t, c); len(got) != 1 {
		t.Errorf("left behind: %q", got)
	}
}

// name by itself, after the server has.
func losesFirstReply(t *testing.T, target, name, instead string) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	t.Cleanup(func() { _ = listener.Close(); <-done })
	go func() {
		defer close(done)
		client, err := listener.Accept()
		if err != nil {
			return
		}
		defer client.Close()
		upstream, err := net.Dial("tcp", target)
		if err != nil {
			t.Error(err)
			return
		}
		defer upstream.Close()
		requests, reply := bufio.NewReader(client), make([]byte, 64<<10)
		for lost := false; ; {
			got, frame, err := testbed.RESP(requests)
			if err != nil {
				return
			}
			if _, err := upstream.Write(frame); err != nil {
				return
			}
			n, err := upstream.Read(reply)
			if err != nil {
				return
			}
			out := reply[:n]
			if got == name && !lost {
				lost, out = true, []byte(instead)
			}
			if _, err := client.Write(out); err != nil {
				return
			}
		}
	}()
	return listener.Addr().String()
}

// do: nothing was written that they could confirm.
func TestLossWithoutReplicas(t *testing.T) {
	t.Parallel()
	server := testbed.Redis(t)
	lease := mustAcquire(t, on(t, connect(t, server.Addr()), nil), "k")
	connect(t, server.Addr()).Del(t.Context(), "locker:k")
	strict := on(t, connect(t, server.Addr()), &lockredis.Options{MinReplicas: 1})
	if _, err := strict.Renew(t.Context(), lease, testTTL); !errors.Is(err, locker.ErrNotHeld) {
		t.Errorf("renew = %v, want ErrNotHeld", err)
	}
}

// An answer later than the lease, and then no answer to the clean-up: the error said
// %!w(<nil>).
func TestLateAnswerThatCannotBeUndone(t *testing.T) {
	t.Parallel()
	server := testbed.Redis(t)
	proxy := testbed.NewProxy(t, server.Addr(), testbed.RESP)
	l := on(t, connect(t, proxy.Addr()), nil)
	mustAcquire(t, l, "warm")
	before := len(proxy.Requests())
	deliver := proxy.HoldRequest("evalsha")
	const ttl = locker.MinTTL
	done := make(chan error, 1)
	go func() { done <- second(l.Acquire(t.Context(), "k", ttl)) }()
	until(t, "the request is held up", func() bool { return len(proxy.Requests()) > before })
	for range 2 { // once more after a lost connection
		proxy.LoseReply("evalsha", "eval")
	}
	time.Sleep(2 * ttl)
	deliver()
	err := <-done
	if !errors.Is(err, locker.ErrUnavailable) || !strings.Contains(err.Error(), "use a longer TTL; the lock may have been taken") {
		t.Errorf("acquire = %v; want ErrUnavailable that says all of it", err)
	}
}

// A cluster client that reads from replicas answered FenceToken from one, which may
// not have heard yet that the lock is another's.
func TestReadsFromReplicas(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string]*redis.ClusterOptions{
		"ReadOnly":       {ReadOnly: true},
		"RouteByLatency": {RouteByLatency: true},
		"RouteRandomly":  {RouteRandomly: true},
	} {
		opts.Addrs = []string{"127.0.0.1:1"}
		client := redis.NewClusterClient(opts)
		defer client.Close()
		if _, err := lockredis.New(client, nil); !errors.Is(err, locker.ErrInvalid) || !strings.Contains(err.Error(), "replicas") {
			t.Errorf("%s: new = %v; want ErrInvalid that says why", name, err)
		}
	}
}
