package redis_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/locker-go/locker"
	"github.com/locker-go/locker/internal/testbed"
	lockredis "github.com/locker-go/locker/redis"
)

func diagnose(t *testing.T, l *lockredis.Locker) []locker.Finding {
	t.Helper()
	findings, err := l.Diagnose(t.Context())
	if err != nil {
		t.Fatalf("diagnose: %v", err)
	}
	for _, f := range findings {
		bad := f.Severity != locker.SeverityOK
		if f.Target == "" || f.Observed == "" || bad && f.Reason == "" || bad && f.Severity != locker.SeverityInfo && f.Remedy == "" {
			t.Errorf("not all is said: %+v", f)
		}
	}
	return findings
}

// expect looks for the finding of a check, in which the text must stand.
func expect(t *testing.T, findings []locker.Finding, check string, severity locker.Severity, text string) {
	t.Helper()
	i := slices.IndexFunc(findings, func(f locker.Finding) bool { return f.Check == check })
	if i < 0 {
		t.Errorf("no finding about %s", check)
		return
	}
	if f := findings[i]; f.Severity != severity || !strings.Contains(strings.Join([]string{f.Observed, f.Reason, f.Remedy}, " "), text) {
		t.Errorf("about %s it found\n%+v\nwant %s with %q", check, f, severity, text)
	}
}

func TestDiagnoseConfiguration(t *testing.T) {
	t.Parallel()
	server := testbed.Redis(t)
	c := connect(t, server.Addr())
	l := on(t, c, nil)
	safe := map[string]string{
		"maxmemory": "0", "maxmemory-policy": "noeviction", "save": "", "appendonly": "yes", "appendfsync": "always",
		"no-appendfsync-on-rewrite": "no", "min-replicas-to-write": "0",
	}
	type config = map[string]string
	for _, test := range []struct {
		name     string
		config   config
		check    string
		severity locker.Severity
		text     string
	}{
		{"the safe one", nil, "persistence", locker.SeverityOK, "appendfsync always"},
		{"the safe one", nil, "eviction", locker.SeverityOK, "noeviction"},
		{"the safe one", nil, "memory", locker.SeverityOK, "no limit"},
		{"the safe one", nil, "version", locker.SeverityOK, "Redis "},
		{"the safe one", nil, "role", locker.SeverityOK, "master"},
		{"the safe one", nil, "replicas", locker.SeverityInfo, "none"},
		{"the safe one", nil, "access", locker.SeverityWarning, "without a password"},
		{"evicting any key", config{"maxmemory": "1gb", "maxmemory-policy": "allkeys-lru"}, "eviction", locker.SeverityDanger, "allkeys-lru"},
		{"evicting expiring keys", config{"maxmemory": "1gb", "maxmemory-policy": "volatile-ttl"}, "eviction", locker.SeverityDanger, "volatile-ttl"},
		{"evicting at no limit", config{"maxmemory-policy": "allkeys-lru"}, "eviction", locker.SeverityWarning, "no maxmemory"},
		{"full", config{"maxmemory": "100kb"}, "memory", locker.SeverityDanger, "no lock can be taken"},
		{"full, but evicting", config{"maxmemory": "100kb", "maxmemory-policy": "allkeys-lru"}, "memory", locker.SeverityOK, "of maxmemory"},
		{"the default of Redis", config{"appendonly": "no", "save": "3600 1"}, "persistence", locker.SeverityWarning, "since its last snapshot"},
		{"no persistence", config{"appendonly": "no"}, "persistence", locker.SeverityWarning, "no snapshots"},
		{"every second", config{"appendfsync": "everysec"}, "persistence", locker.SeverityWarning, "last second or two"},
		{"when the kernel likes", config{"appendfsync": "no"}, "persistence", locker.SeverityWarning, "the kernel"},
		{"not during a rewrite", config{"no-appendfsync-on-rewrite": "yes"}, "persistence", locker.SeverityWarning, "not during a rewrite"},
		{"replicas that are not there", config{"min-replicas-to-write": "1"}, "replicas", locker.SeverityDanger, "min-replicas-to-write 1"},
	} {
		t.Run(test.name+"/"+test.check, func(t *testing.T) {
			want := maps.Clone(safe)
			maps.Copy(want, test.config)
			for name, value := range want {
				if err := c.ConfigSet(t.Context(), name, value).Err(); err != nil {
					t.Fatalf("config set %s %s: %v", name, value, err)
				}
			}
			findings := diagnose(t, l)
			expect(t, findings, test.check, test.severity, test.text)
			if test.config == nil && locker.Worst(findings) != locker.SeverityWarning { // of access
				t.Errorf("the safe configuration: %+v", findings)
			}
		})
	}
}

// A server that cannot save a snapshot refuses writes, and Diagnose says so before
// anybody has tried.
func TestDiagnoseFailedSnapshot(t *testing.T) {
	t.Parallel()
	server := testbed.Redis(t, "--save", "3600 1000000")
	c := connect(t, server.Addr())
	l := on(t, c, nil)
	expect(t, diagnose(t, l), "saving", locker.SeverityOK, "no failure")
	dir := c.ConfigGet(t.Context(), "dir").Val()["dir"]
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := c.BgSave(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	until(t, "the snapshot has failed", func() bool {
		return strings.Contains(c.Info(t.Context(), "persistence").Val(), "rdb_last_bgsave_status:err")
	})
	expect(t, diagnose(t, l), "saving", locker.SeverityDanger, "stop-writes-on-bgsave-error")
	if _, err := l.Acquire(t.Context(), "k", testTTL); !errors.Is(err, locker.ErrUnavailable) {
		t.Errorf("acquire = %v, so the finding is wrong", err)
	}
	if err := c.ConfigSet(t.Context(), "stop-writes-on-bgsave-error", "no").Err(); err != nil {
		t.Fatal(err)
	}
	expect(t, diagnose(t, l), "saving", locker.SeverityWarning, "A restart forgets")
	mustAcquire(t, l, "k")
}

// What a user may not run is unknown, as far as nothing else tells it.
func TestDiagnoseWithFewRights(t *testing.T) {
	t.Parallel()
	const password = "c4n4ry"
	server := testbed.Redis(t, "--appendonly", "yes", "--appendfsync", "always", "--maxmemory", "1gb", "--maxmemory-policy", "allkeys-lru")
	admin := connect(t, server.Addr())
	users := map[string][]any{
		"managed":   {"+@all", "-config"}, // as where CONFIG is the provider's alone
		"locksmith": {"+ping", "+time", "+evalsha", "+eval", "+get", "+set"},
	}
	for name, rights := range users {
		args := append([]any{"acl", "setuser", name, "on", ">" + password, "~*", "&*"}, rights...)
		if err := admin.Do(t.Context(), args...).Err(); err != nil {
			t.Fatal(err)
		}
	}
	as := func(user string) []locker.Finding {
		findings := diagnose(t, open(t, fmt.Sprintf("redis://%s:%s@%s", user, password, server.Addr())))
		if text := fmt.Sprintf("%+v", findings); strings.Contains(text, password) {
			t.Errorf("the password is shown: %s", text)
		}
		return findings
	}
	managed := as("managed")
	expect(t, managed, "eviction", locker.SeverityDanger, "allkeys-lru")
	expect(t, managed, "memory", locker.SeverityOK, "of maxmemory")
	expect(t, managed, "persistence", locker.SeverityUnknown, "NOPERM")
	expect(t, managed, "replicas", locker.SeverityInfo, "none")
	expect(t, managed, "access", locker.SeverityOK, "with credentials")
	locksmith := as("locksmith")
	for _, check := range []string{"version", "role", "eviction", "memory", "persistence", "saving", "replicas"} {
		expect(t, locksmith, check, locker.SeverityUnknown, "NOPERM")
	}
	expect(t, locksmith, "clock", locker.SeverityOK, "as this machine's")
}

// A server without a password takes any: that one was sent proves nothing.
func TestDiagnoseNeedlessPassword(t *testing.T) {
	t.Parallel()
	server := testbed.Redis(t)
	expect(t, diagnose(t, open(t, "redis://:c4n4ry@"+server.Addr())), "access", locker.SeverityWarning, "Whoever can connect")
	if err := connect(t, server.Addr()).ConfigSet(t.Context(), "requirepass", "c4n4ry").Err(); err != nil {
		t.Fatal(err)
	}
	expect(t, diagnose(t, open(t, "redis://:c4n4ry@"+server.Addr())), "access", locker.SeverityOK, "with credentials")
}

func TestDiagnoseTLS(t *testing.T) {
	t.Parallel()
	certs := testbed.NewCertificates(t)
	for _, mutual := range []bool{false, true} {
		rawURL := "rediss://" + testbed.RedisTLS(t, certs, mutual).Addr() + "?tls_ca_file=" + certs.CA
		want := locker.SeverityWarning
		if mutual {
			rawURL += "&tls_cert_file=" + certs.ClientCert + "&tls_key_file=" + certs.ClientKey
			want = locker.SeverityOK
		}
		expect(t, diagnose(t, open(t, rawURL)), "access", want, "with")
	}
}

// Many providers take CONFIG away from everybody.
func TestDiagnoseWithoutConfig(t *testing.T) {
	t.Parallel()
	server := testbed.Redis(t, "--rename-command", "CONFIG", "", "--appendonly", "yes")
	findings := diagnose(t, on(t, connect(t, server.Addr()), nil))
	expect(t, findings, "eviction", locker.SeverityOK, "noeviction")
	expect(t, findings, "persistence", locker.SeverityUnknown, "unknown command")
}

func TestDiagnoseReplication(t *testing.T) {
	t.Parallel()
	master := testbed.Redis(t)
	replica := testbed.RedisReplica(t, master)
	c := connect(t, master.Addr())
	expect(t, diagnose(t, on(t, c, nil)), "replicas", locker.SeverityWarning, "asynchronous")
	expect(t, diagnose(t, on(t, c, &lockredis.Options{MinReplicas: 1})), "replicas", locker.SeverityInfo, "1 in step, min_replicas=1")
	expect(t, diagnose(t, on(t, c, &lockredis.Options{MinReplicas: 2})), "replicas", locker.SeverityDanger, "no lock can be taken")

	other := connect(t, replica.Addr())
	l := on(t, other, nil)
	expect(t, diagnose(t, l), "role", locker.SeverityDanger, "refuses writes")
	if err := other.ConfigSet(t.Context(), "replica-read-only", "no").Err(); err != nil {
		t.Fatal(err)
	}
	expect(t, diagnose(t, l), "role", locker.SeverityDanger, "takes writes")
}

func TestDiagnoseSentinel(t *testing.T) {
	t.Parallel()
	g := testbed.RedisSentinel(t)
	findings := diagnose(t, open(t, fmt.Sprintf("redis+sentinel://%s/%s", testbed.Join(g.Sentinels), g.Name)))
	expect(t, findings, "replicas", locker.SeverityWarning, "1 in step")
	for _, f := range findings {
		if f.Target != g.Master.Addr() {
			t.Errorf("the target is %s, want the master, %s", f.Target, g.Master.Addr())
		}
	}
	// Taken for a server of its own, a Sentinel answers PING like one.
	expect(t, diagnose(t, open(t, "redis://"+g.Sentinels[0].Addr())), "role", locker.SeverityDanger, "redis+sentinel://")
}

func TestDiagnoseCluster(t *testing.T) {
	t.Parallel()
	servers := testbed.RedisCluster(t)
	l := open(t, "redis+cluster://"+testbed.Join(servers)+"?request_timeout=2s")
	if err := connect(t, servers[1].Addr()).ConfigSet(t.Context(), "maxmemory-policy", "allkeys-lru").Err(); err != nil {
		t.Fatal(err)
	}
	var evicting []string
	for _, f := range diagnose(t, l) {
		if f.Check == "eviction" && f.Severity != locker.SeverityOK {
			evicting = append(evicting, f.Target)
		}
		if f.Check == "cluster" && (f.Severity != locker.SeverityOK || f.Observed != "state ok, 3 masters") {
			t.Errorf("about the cluster: %+v", f)
		}
	}
	if !slices.Equal(evicting, []string{servers[1].Addr()}) {
		t.Errorf("those that evict are %q, want %s", evicting, servers[1].Addr())
	}
	expect(t, diagnose(t, on(t, connect(t, servers[0].Addr()), nil)), "role", locker.SeverityDanger, "redis+cluster://")

	// One of several that is silent is a finding, and the others are looked at.
	servers[2].Pause()
	findings := diagnose(t, l)
	servers[2].Resume()
	expect(t, findings, "reachable", locker.SeverityDanger, "no answer")
	expect(t, findings, "version", locker.SeverityOK, "Redis")
}

// A server that is silent does not hold up whoever asks.
func TestDiagnoseSilentServer(t *testing.T) {
	t.Parallel()
	server := testbed.Redis(t)
	c := redis.NewClient(&redis.Options{Addr: server.Addr()}) // heeds no context by itself
	t.Cleanup(func() { _ = c.Close() })
	diagnose(t, on(t, c, nil)) // leaves a connection
	l := on(t, c, &lockredis.Options{RequestTimeout: 200 * time.Millisecond})
	server.Pause()
	defer server.Resume()
	began := time.Now()
	findings, err := l.Diagnose(t.Context())
	if !errors.Is(err, locker.ErrUnavailable) || len(findings) != 0 {
		t.Errorf("diagnose = %v, %v, want ErrUnavailable", findings, err)
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("it took %s", took)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := l.Diagnose(ctx); !errors.Is(err, locker.ErrUnavailable) || !errors.Is(err, context.Canceled) {
		t.Errorf("diagnose with a context that has ended = %v", err)
	}
}
