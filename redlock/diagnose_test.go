package redlock_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/locker-go/locker"
	"github.com/locker-go/locker/internal/testbed"
	"github.com/locker-go/locker/redlock"
)

// finding returns what a check found, at the target if that is not empty.
func finding(t *testing.T, l *redlock.Locker, check, target string) locker.Finding {
	t.Helper()
	findings, err := l.Diagnose(t.Context())
	if err != nil {
		t.Fatalf("diagnose: %v", err)
	}
	for _, f := range findings {
		if f.Check == check && f.Target == target {
			return f
		}
	}
	t.Fatalf("no finding of %s at %q in %+v", check, target, findings)
	return locker.Finding{}
}

func expect(t *testing.T, l *redlock.Locker, check, target string, severity locker.Severity, text string) {
	t.Helper()
	f := finding(t, l, check, target)
	if f.Severity != severity || !strings.Contains(f.Observed+" "+f.Reason, text) {
		t.Errorf("%s at %q: %+v; want %s with %q", check, target, f, severity, text)
	}
}

// What the nodes must be for locks to hold, and what it is called when they are not.
func TestDiagnose(t *testing.T) {
	t.Parallel()
	c := five(t)
	addr := func(i int) string { return c.proxies[i].Addr() }
	l := open(t, c.url("first_use=true&max_ttl=30s&request_timeout=2s"))
	expect(t, l, "quorum", "", locker.SeverityOK, "5 of 5")
	expect(t, l, "machines", "", locker.SeverityWarning, "5 nodes at 127.0.0.1")
	expect(t, l, "votes", addr(0), locker.SeverityOK, "votes")
	expect(t, l, "persistence", addr(0), locker.SeverityOK, "always")
	expect(t, l, "replicas", addr(0), locker.SeverityOK, "none")
	expect(t, l, "eviction", addr(0), locker.SeverityOK, "noeviction")
	expect(t, l, "clock", addr(0), locker.SeverityOK, "as this machine's")

	c.servers[0].Restart(false)
	expect(t, l, "votes", addr(0), locker.SeverityInfo, "not marked")
	if lease, err := l.Acquire(t.Context(), "k", 10*time.Second); err != nil { // asks the node for its vote
		t.Fatal(err)
	} else if err := l.Release(t.Context(), lease); err != nil {
		t.Fatal(err)
	}
	until(t, "the node is marked", func() bool { return finding(t, l, "votes", addr(0)).Severity == locker.SeverityWarning })
	expect(t, l, "votes", addr(0), locker.SeverityWarning, "no votes for another")
	expect(t, l, "quorum", "", locker.SeverityWarning, "4 of 5")

	c.servers[1].Kill()
	expect(t, l, "reachable", addr(1), locker.SeverityWarning, "no answer")
	expect(t, l, "quorum", "", locker.SeverityWarning, "3 of 5")
	c.servers[2].Kill()
	expect(t, l, "quorum", "", locker.SeverityDanger, "none can be taken")

	testbed.RedisReplica(t, c.servers[3])
	expect(t, l, "replicas", addr(3), locker.SeverityWarning, "lacks the last votes")

	// Another client, which counts on another set of nodes.
	others := strings.Join([]string{addr(3), addr(4), addr(0)}, ",")
	if _, err := openURL(t.Context(), "redlock://"+others+"?max_ttl=30s"); !errors.Is(err, locker.ErrInvalid) || !strings.Contains(err.Error(), "membership") {
		t.Errorf("open with other nodes = %v; want ErrInvalid that names the membership", err)
	}
}

// A node that forgets grants in a restart is a reason to wait, not to lose locks.
func TestDiagnosePersistence(t *testing.T) {
	t.Parallel()
	c := start(t, 3, "--appendfsync", "everysec")
	l := open(t, c.url("first_use=true"))
	expect(t, l, "persistence", c.proxies[0].Addr(), locker.SeverityWarning, "no votes for MaxTTL")
	for _, s := range c.servers {
		s.Kill()
	}
	if findings, err := l.Diagnose(t.Context()); !errors.Is(err, locker.ErrUnavailable) {
		t.Errorf("diagnose without nodes = %+v, %v; want ErrUnavailable", findings, err)
	}
}
