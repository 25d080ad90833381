package testbed

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// redisSpec returns a Redis server with more arguments. Debian has the program in
// its package redis-tools too, without a service, under a name by which it checks
// files; it goes by what it is called as.
func redisSpec(t testing.TB, args ...string) Spec {
	t.Helper()
	return Spec{
		Name: "redis-server",
		Path: program(t, "redis-tools", "redis-server", "redis-check-rdb"),
		Arg0: "redis-server",
		Args: func(port int, dir string) []string {
			own := []string{
				"--port", strconv.Itoa(port), "--bind", "127.0.0.1", "--dir", dir, "--save", "", "--daemonize", "no",
				// By default a replica waits five seconds for others, and then its master
				// up to a second for its first word before it sends on.
				"--repl-diskless-sync", "no",
			}
			return append(own, args...)
		},
		Ready: answersPing(nil),
	}
}

// answersPing returns nil if a Redis that has loaded its data is there, also one
// that wants a password first.
func answersPing(config *tls.Config) func(context.Context, string) error {
	return func(ctx context.Context, addr string) error {
		// The client would log each refusal.
		probe, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
		if err != nil {
			return err
		}
		_ = probe.Close()
		c := redis.NewClient(&redis.Options{Addr: addr, TLSConfig: config, DialerRetries: 1, MaxRetries: -1, DisableIdentity: true, Protocol: 2})
		defer c.Close()
		err = c.Ping(ctx).Err()
		for _, wants := range []string{"NOAUTH", "NOPERM", "WRONGPASS"} {
			if redis.HasErrorPrefix(err, wants) {
				return nil
			}
		}
		return err
	}
}

// Redis starts a Redis server that keeps nothing on disk, unless the arguments say
// otherwise.
func Redis(t testing.TB, args ...string) *Server {
	t.Helper()
	return Start(t, redisSpec(t, args...))
}

// RedisWithClock starts a Redis server whose wall clock set puts that far ahead, or
// behind if it is negative, of what it would show.
func RedisWithClock(t testing.TB, args ...string) (s *Server, set func(time.Duration)) {
	t.Helper()
	libs, _ := filepath.Glob("/usr/lib/*/faketime/libfaketime.so.1")
	if len(libs) == 0 {
		missing(t, "no libfaketime is installed: apt-get install libfaketime, or run make test")
	}
	file := filepath.Join(t.TempDir(), "clock")
	set = func(d time.Duration) {
		t.Helper()
		// By renaming, so that the server never reads a part of it.
		text := fmt.Sprintf("%+.3f", d.Seconds())
		err := os.WriteFile(file+".new", []byte(text), 0o600)
		if err == nil {
			err = os.Rename(file+".new", file)
		}
		if err != nil {
			t.Fatalf("set the clock: %v", err)
		}
	}
	set(0)
	spec := redisSpec(t, args...)
	spec.Env = []string{
		// Without libc after it the server hangs when it starts, as its allocator asks for the time.
		"LD_PRELOAD=" + libs[0] + ":libc.so.6",
		"DONT_FAKE_MONOTONIC=1", "FAKETIME_NO_CACHE=1", "FAKETIME_TIMESTAMP_FILE=" + file,
	}
	return Start(t, spec), set
}

// Redises starts servers that know nothing of each other.
func Redises(t testing.TB, n int, args ...string) []*Server {
	t.Helper()
	servers := make([]*Server, n)
	for i := range servers {
		servers[i] = Redis(t, args...)
	}
	return servers
}

// RedisReplica starts a replica of master and waits until it has its data.
func RedisReplica(t testing.TB, master *Server, args ...string) *Server {
	t.Helper()
	s := Redis(t, append([]string{"--replicaof", "127.0.0.1 " + strconv.Itoa(master.port)}, args...)...)
	// Both must say so, or WAIT would not count it yet.
	until(t, s.String()+" is in step with its master", func(ctx context.Context) error {
		return errors.Join(
			infoHas(ctx, s.Addr(), "master_link_status:up"),
			infoHas(ctx, master.Addr(), "port="+strconv.Itoa(s.port)+",state=online"))
	})
	return s
}

// infoHas returns nil if a server tells something of its replication.
func infoHas(ctx context.Context, addr, text string) error {
	c := redis.NewClient(&redis.Options{Addr: addr, DisableIdentity: true})
	defer c.Close()
	info, err := c.Info(ctx, "replication").Result()
	if err == nil && !strings.Contains(info, text) {
		err = fmt.Errorf("%s does not say %q of its replication", addr, text)
	}
	return err
}

// RedisTLS starts a Redis server that speaks only TLS, with the certificates, and
// asks clients for one if mutual.
func RedisTLS(t testing.TB, certs *Certificates, mutual bool) *Server {
	t.Helper()
	spec := redisSpec(t)
	plain := spec.Args
	spec.Args = func(port int, dir string) []string {
		auth := "no"
		if mutual {
			auth = "yes"
		}
		return append(plain(0, dir), "--tls-port", strconv.Itoa(port), "--tls-auth-clients", auth,
			"--tls-ca-cert-file", certs.CA, "--tls-cert-file", certs.ServerCert, "--tls-key-file", certs.ServerKey)
	}
	spec.Ready = answersPing(certs.Client(t))
	return Start(t, spec)
}

// RedisLoading starts a copy of a server that has saved its data, which is still
// loading them when it returns, 5 ms a key.
func RedisLoading(t testing.TB, of *Server) *Server {
	t.Helper()
	spec := redisSpec(t, "--key-load-delay", "5000", "--loading-process-events-interval-bytes", "1024")
	plain := spec.Args
	spec.Args = func(port int, dir string) []string {
		if err := os.CopyFS(dir, os.DirFS(of.dir)); err != nil {
			t.Errorf("copy the data: %v", err)
		}
		return plain(port, dir)
	}
	serves := spec.Ready
	spec.Ready = func(ctx context.Context, addr string) error {
		err := serves(ctx, addr)
		if redis.HasErrorPrefix(err, "LOADING") {
			return nil
		}
		if err == nil {
			t.Error("the server has loaded its data already")
		}
		return err
	}
	return Start(t, spec)
}

// Sentinels is a master with a replica, and three Sentinels that watch them.
type Sentinels struct {
	Name      string
	Master    *Server
	Replica   *Server
	Sentinels []*Server
}

// Addrs returns the addresses of the Sentinels.
func (s *Sentinels) Addrs() []string { return addrs(s.Sentinels) }

func addrs(servers []*Server) []string {
	list := make([]string, len(servers))
	for i, s := range servers {
		list[i] = s.Addr()
	}
	return list
}

// RedisSentinel starts a master, a replica and three Sentinels, which declare the
// master down after a second.
func RedisSentinel(t testing.TB) *Sentinels {
	t.Helper()
	g := &Sentinels{Name: "mymaster", Master: Redis(t)}
	g.Replica = RedisReplica(t, g.Master)
	spec := redisSpec(t)
	spec.Name = "redis-sentinel"
	spec.Args = func(port int, dir string) []string {
		file := filepath.Join(dir, "sentinel.conf")
		config := fmt.Sprintf("port %d\nbind 127.0.0.1\ndir %s\n"+
			"sentinel monitor %[3]s 127.0.0.1 %[4]d 2\nsentinel down-after-milliseconds %[3]s 1000\nsentinel failover-timeout %[3]s 3000\n",
			port, dir, g.Name, g.Master.port)
		if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
			t.Errorf("write %s: %v", file, err)
		}
		return []string{file, "--sentinel"}
	}
	for range 3 {
		g.Sentinels = append(g.Sentinels, Start(t, spec))
	}
	for _, s := range g.Sentinels {
		until(t, s.String()+" knows the others and the replica", func(ctx context.Context) error {
			c := redis.NewSentinelClient(&redis.Options{Addr: s.Addr(), DisableIdentity: true})
			defer c.Close()
			m, err := c.Master(ctx, g.Name).Result()
			if err == nil && (m["num-other-sentinels"] != "2" || m["num-slaves"] != "1") {
				err = fmt.Errorf("it knows %s Sentinels and %s replicas", m["num-other-sentinels"], m["num-slaves"])
			}
			return err
		})
	}
	return g
}

// RedisCluster starts a cluster of three masters.
func RedisCluster(t testing.TB, args ...string) []*Server {
	t.Helper()
	const n, slots = 3, 16384
	var servers []*Server
	for range n {
		servers = append(servers, Redis(t, append([]string{"--cluster-enabled", "yes", "--cluster-node-timeout", "5000"}, args...)...))
	}
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
	defer cancel()
	for i, s := range servers {
		c := redis.NewClient(&redis.Options{Addr: s.Addr(), DisableIdentity: true})
		defer c.Close()
		addSlots := []any{"cluster", "addslots"} // a range of them needs Redis 7
		for slot := i * slots / n; slot < (i+1)*slots/n; slot++ {
			addSlots = append(addSlots, slot)
		}
		commands := [][]any{
			{"cluster", "set-config-epoch", i + 1},
			addSlots,
			{"cluster", "meet", "127.0.0.1", servers[0].port},
		}
		for _, command := range commands {
			if err := c.Do(ctx, command...).Err(); err != nil {
				t.Fatalf("%s: %v: %v", s, command[:2], err)
			}
		}
	}
	for _, s := range servers {
		until(t, s.String()+" sees the whole cluster", func(ctx context.Context) error {
			c := redis.NewClient(&redis.Options{Addr: s.Addr(), DisableIdentity: true})
			defer c.Close()
			info, err := c.ClusterInfo(ctx).Result()
			if err != nil {
				return err
			}
			ranges, err := c.Do(ctx, "cluster", "slots").Slice()
			if err == nil && (!strings.Contains(info, "cluster_state:ok") || len(ranges) != n) {
				err = fmt.Errorf("%d slot ranges; %s", len(ranges), strings.ReplaceAll(info, "\r\n", " "))
			}
			return err
		})
	}
	return servers
}

// Join returns addresses as the host part of a URL.
func Join(servers []*Server) string { return strings.Join(addrs(servers), ",") }
