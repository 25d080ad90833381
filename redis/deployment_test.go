package redis_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/locker-go/locker"
	"github.com/locker-go/locker/internal/testbed"
	lockredis "github.com/locker-go/locker/redis"
)

func TestTLS(t *testing.T) {
	t.Parallel()
	certs := testbed.NewCertificates(t)
	server := testbed.RedisTLS(t, certs, true)
	good := "rediss://" + server.Addr() + "?tls_ca_file=" + certs.CA + "&tls_cert_file=" + certs.ClientCert + "&tls_key_file=" + certs.ClientKey
	l := open(t, good)
	if err := l.Release(t.Context(), mustAcquire(t, l, "k")); err != nil {
		t.Error(err)
	}
	for name, rawURL := range map[string]string{
		"unknown authority": "rediss://" + server.Addr(),
		"no certificate":    "rediss://" + server.Addr() + "?tls_ca_file=" + certs.CA,
		"no TLS":            "redis://" + server.Addr(),
	} {
		if _, err := openURL(t.Context(), rawURL); !errors.Is(err, locker.ErrUnavailable) {
			t.Errorf("%s: open = %v, want ErrUnavailable", name, err)
		}
	}
}

// Tokens rise through a failover, and the client follows it.
func TestFailover(t *testing.T) {
	t.Parallel()
	g := testbed.RedisSentinel(t)
	l := open(t, fmt.Sprintf("redis+sentinel://%s/%s", testbed.Join(g.Sentinels), g.Name))
	waiter := open(t, fmt.Sprintf("redis+sentinel://%s/%s", testbed.Join(g.Sentinels), g.Name))
	before := mustAcquire(t, l, "k")
	replica := connect(t, g.Replica.Addr())
	until(t, "the replica has the lock", func() bool { return replica.Exists(t.Context(), "locker:k").Val() == 1 })
	done := make(chan error, 1)
	var after locker.Lease
	go func() {
		var err error
		after, err = waiter.AcquireWait(t.Context(), "k", testTTL)
		done <- err
	}()
	master := connect(t, g.Master.Addr())
	until(t, "the waiter listens", func() bool { return listening(t, master, "locker:k") == 1 })
	g.Master.Kill()
	// The lock stands on the new master, so that only its holder can give it back.
	until(t, "the holder can release on the new master", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		err := l.Release(ctx, before)
		if errors.Is(err, locker.ErrNotHeld) {
			t.Errorf("release after the failover: %v", err)
			return true
		}
		return err == nil
	})
	if err := <-done; err != nil {
		t.Fatalf("wait through the failover: %v", err)
	}
	if after.Token <= before.Token {
		t.Errorf("token %d after %d", after.Token, before.Token)
	}
}

// INCR tokens after an asynchronous failover (reproduced): both holders got token 2.
// Here the replica never hears of the grant, and is promoted.
func TestFailoverThatForgets(t *testing.T) {
	t.Parallel()
	master := testbed.Redis(t)
	replica := testbed.RedisReplica(t, master)
	old, next := on(t, connect(t, master.Addr()), nil), on(t, connect(t, replica.Addr()), nil)
	first := mustAcquire(t, old, "k")
	m, r := connect(t, master.Addr()), connect(t, replica.Addr())
	until(t, "the replica has the lock", func() bool { return r.Exists(t.Context(), "locker:k").Val() == 1 })
	if err := old.Release(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	until(t, "the replica has the release", func() bool { return r.Exists(t.Context(), "locker:k").Val() == 0 })
	if err := r.ReplicaOf(t.Context(), "NO", "ONE").Err(); err != nil { // what the master does now is forgotten
		t.Fatal(err)
	}
	forgotten := mustAcquire(t, old, "k")
	m.ShutdownNoSave(t.Context())
	after := mustAcquire(t, next, "k")
	if after.Token <= forgotten.Token {
		t.Errorf("token %d after %d, which the new master never saw", after.Token, forgotten.Token)
	}
}

// With MinReplicas a grant that no replica has confirmed fails, and is undone.
func TestMinReplicas(t *testing.T) {
	t.Parallel()
	master := testbed.Redis(t)
	replica := testbed.RedisReplica(t, master)
	c := connect(t, master.Addr())
	l := on(t, c, &lockredis.Options{MinReplicas: 1, RequestTimeout: 400 * time.Millisecond})
	ctx := t.Context()
	lease := mustAcquire(t, l, "k")
	if n := connect(t, replica.Addr()).Exists(ctx, "locker:k").Val(); n != 1 {
		t.Error("the replica does not have the lock that it confirmed")
	}
	replica.Pause()
	if _, err := l.Acquire(ctx, "other", testTTL); !errors.Is(err, locker.ErrUnavailable) || !strings.Contains(err.Error(), "0 of the 1 replicas") {
		t.Errorf("acquire without a replica = %v; want ErrUnavailable that says how many confirmed", err)
	}
	if got := leftBehind(t, c); len(got) != 1 {
		t.Errorf("left behind: %q", got)
	}
	if _, err := l.Acquire(ctx, "k", testTTL); !errors.Is(err, locker.ErrHeld) {
		t.Errorf("acquire of a held lock without a replica = %v, want ErrHeld", err)
	}
	if _, err := l.Renew(ctx, lease, testTTL); !errors.Is(err, locker.ErrUnavailable) {
		t.Errorf("renew without a replica = %v, want ErrUnavailable", err)
	}
	replica.Resume()
	if _, err := l.Renew(ctx, lease, testTTL); err != nil {
		t.Errorf("renew with a replica again: %v", err)
	}
	if err := l.Release(ctx, lease); err != nil {
		t.Error(err)
	}
}

// A server that loads its data says so.
func TestLoading(t *testing.T) {
	t.Parallel()
	server := testbed.Redis(t)
	c := connect(t, server.Addr())
	l := on(t, c, nil)
	lease := mustAcquire(t, l, "k")
	pipe := c.Pipeline()
	for i := range 2000 {
		pipe.Set(t.Context(), fmt.Sprint("filler", i), strings.Repeat("x", 1000), 0)
	}
	if _, err := pipe.Exec(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := c.Save(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	slow := testbed.RedisLoading(t, server)
	loading := on(t, connect(t, slow.Addr()), nil)
	if _, err := loading.Renew(t.Context(), lease, testTTL); !errors.Is(err, locker.ErrUnavailable) || !strings.Contains(err.Error(), "loading") {
		t.Errorf("renew on a loading server = %v; want ErrUnavailable that says so", err)
	}
}

// A cluster that is moving a slot answers with redirections.
func TestResharding(t *testing.T) {
	t.Parallel()
	servers := testbed.RedisCluster(t)
	l := open(t, "redis+cluster://"+testbed.Join(servers))
	ctx := t.Context()
	nodes := make([]*redis.Client, len(servers))
	ids := make([]string, len(servers))
	for i, s := range servers {
		nodes[i] = connect(t, s.Addr())
		ids[i] = nodes[i].ClusterMyID(ctx).Val()
	}
	const key = "{move}me"
	slot := int(nodes[0].ClusterKeySlot(ctx, "locker:"+key).Val())
	from := slot * len(servers) / 16384
	to := (from + 1) % len(servers)
	do := func(node int, args ...any) {
		t.Helper()
		if err := nodes[node].Do(ctx, args...).Err(); err != nil {
			t.Fatalf("%v: %v", args, err)
		}
	}
	lease := mustAcquire(t, l, key)
	do(to, "cluster", "setslot", slot, "importing", ids[from])
	do(from, "cluster", "setslot", slot, "migrating", ids[to])
	names := nodes[from].ClusterGetKeysInSlot(ctx, slot, 10).Val()
	if len(names) != 2 {
		t.Fatalf("the slot has the keys %q, want the lock and its fence", names)
	}
	port := servers[to].Port()
	do(from, "migrate", "127.0.0.1", port, names[0], 0, 5000)
	// One key is here and one there: neither node can run the script.
	result := make(chan error, 1)
	go func() { _, err := l.Renew(ctx, lease, testTTL); result <- err }()
	until(t, "the script was refused for now", func() bool {
		return stat(t, nodes[to], "errorstat_TRYAGAIN") || stat(t, nodes[from], "errorstat_TRYAGAIN")
	})
	do(from, "migrate", "127.0.0.1", port, names[1], 0, 5000)
	if err := <-result; err != nil {
		t.Errorf("renew in the middle of the move: %v", err)
	}
	// For keys that are on neither side Redis says so to the end of the move.
	_, err := l.Acquire(ctx, "{move}other", testTTL)
	if !errors.Is(err, locker.ErrUnavailable) || !strings.Contains(err.Error(), "moving the key's slot") {
		t.Errorf("acquire of a new key in the move = %v; want ErrUnavailable that says why", err)
	}
	for node := range nodes {
		do(node, "cluster", "setslot", slot, "node", ids[to])
	}
	if err := l.Release(ctx, lease); err != nil {
		t.Errorf("release after the move: %v", err)
	}
	mustAcquire(t, l, "{move}other")
	if next := mustAcquire(t, l, key); next.Token <= lease.Token {
		t.Errorf("token %d after %d", next.Token, lease.Token)
	}
}

// stat says whether INFO has a line that begins with the name.
func stat(t testing.TB, c *redis.Client, name string) bool {
	t.Helper()
	info, err := c.Info(t.Context(), "everything").Result()
	if err != nil {
		t.Fatalf("info: %v", err)
	}
	return strings.Contains(info, "\n"+name)
}

// redisson#6510: 25 million leaked token keys. litestream, cosmos-db-patterns#91:
// the record went with the lock, and the token started again.
func TestFenceRetention(t *testing.T) {
	server := testbed.Redis(t)
	c := connect(t, server.Addr())
	ctx := t.Context()
	fenceTTL := func(namespace string) time.Duration {
		t.Helper()
		names := c.Keys(ctx, "*fence:"+namespace+":k").Val()
		if len(names) != 1 {
			t.Fatalf("fences: %q, want one", names)
		}
		return c.PTTL(ctx, names[0]).Val()
	}
	within := func(what string, got, want time.Duration) {
		t.Helper()
		if got > want || got < want-10*time.Second {
			t.Errorf("%s the fence is kept for %s, want %s", what, got, want)
		}
	}
	l := on(t, c, &lockredis.Options{Namespace: "a", FenceRetention: 2 * time.Minute})
	lease, err := l.Acquire(ctx, "k", time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	within("after a grant", fenceTTL("a"), 3*time.Minute)
	if lease, err = l.Renew(ctx, lease, 5*time.Minute); err != nil {
		t.Fatal(err)
	}
	within("after a renewal", fenceTTL("a"), 7*time.Minute)
	if err := l.Release(ctx, lease); err != nil {
		t.Fatal(err)
	}
	within("after a release", fenceTTL("a"), 7*time.Minute)
	if err := l.Raise(ctx, "k", locker.Token(time.Now().Add(9*time.Second).UnixMicro())); err != nil {
		t.Fatal(err)
	}
	within("raised ahead of the clock", fenceTTL("a"), 7*time.Minute)

	forEver := on(t, c, &lockredis.Options{Namespace: "b", FenceRetention: -1})
	if err := forEver.Release(ctx, mustAcquire(t, forEver, "k")); err != nil {
		t.Fatal(err)
	}
	if got := fenceTTL("b"); got != -1 {
		t.Errorf("a fence to be kept for ever is kept for %s", got)
	}
}

// A renewal puts back a fence that somebody deleted, so that the next token is above
// this one whatever the next client's clock says.
func TestFenceIsPutBack(t *testing.T) {
	server := testbed.Redis(t)
	c := connect(t, server.Addr())
	l := on(t, c, nil)
	lease := mustAcquire(t, l, "k")
	for _, name := range c.Keys(t.Context(), "*fence*").Val() {
		c.Del(t.Context(), name)
	}
	if _, err := l.Renew(t.Context(), lease, testTTL); err != nil {
		t.Fatal(err)
	}
	names := c.Keys(t.Context(), "*fence*").Val()
	if len(names) != 1 {
		t.Fatalf("fences: %q, want one", names)
	}
	if got := c.Get(t.Context(), names[0]).Val(); !strings.HasPrefix(got, fmt.Sprint(lease.Token)) {
		t.Errorf("the fence is %q, want %d", got, lease.Token)
	}
}

// A password in a file is not in the URL, and neither shows anywhere.
func TestPasswordFile(t *testing.T) {
	server := testbed.Redis(t, "--requirepass", "c4nary")
	file := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(file, []byte("c4nary"), 0o600); err != nil {
		t.Fatal(err)
	}
	l := open(t, "redis://"+server.Addr()+"?password_file="+file)
	mustAcquire(t, l, "k")
	_, err := l.Acquire(t.Context(), "k", testTTL)
	for _, shown := range []string{fmt.Sprint(err), fmt.Sprintf("%+v", err)} {
		if strings.Contains(shown, "c4nary") {
			t.Errorf("%s shows the password", shown)
		}
	}
}
