package zookeeper_test

import (
	"context"
	"errors"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/locker-go/locker"
	"github.com/locker-go/locker/internal/testbed"
	"github.com/locker-go/locker/zookeeper"
)

func diagnose(t *testing.T, l *zookeeper.Locker) []locker.Finding {
	t.Helper()
	findings, err := l.Diagnose(t.Context())
	if err != nil {
		t.Fatalf("diagnose: %v", err)
	}
	for _, f := range findings {
		bad := f.Severity != locker.SeverityOK
		if f.Check == "" || f.Observed == "" || bad && f.Reason == "" || bad && f.Severity != locker.SeverityInfo && f.Remedy == "" {
			t.Errorf("not all is said: %+v", f)
		}
	}
	return findings
}

// found says whether there is a finding of the check and severity in which the text stands.
func found(findings []locker.Finding, check string, severity locker.Severity, text string) bool {
	return slices.ContainsFunc(findings, func(f locker.Finding) bool {
		return f.Check == check && f.Severity == severity && strings.Contains(strings.Join([]string{f.Target, f.Observed, f.Reason, f.Remedy}, " "), text)
	})
}

func expect(t *testing.T, findings []locker.Finding, check string, severity locker.Severity, text string) {
	t.Helper()
	if !found(findings, check, severity, text) {
		t.Errorf("no finding about %s that is %s with %q among\n%+v", check, severity, text, findings)
	}
}

func TestDiagnoseOneServer(t *testing.T) {
	t.Parallel()
	server := testbed.ZooKeeper(t, "4lw.commands.whitelist=srvr")
	findings := diagnose(t, open(t, "zookeeper://"+server.Addr()+"?session_timeout=1s"))
	expect(t, findings, "quorum", locker.SeverityOK, "answers")
	expect(t, findings, "members", locker.SeverityWarning, "1 that vote")
	expect(t, findings, "member", locker.SeverityOK, server.Addr()+" standalone")
	expect(t, findings, "version", locker.SeverityOK, "ZooKeeper 3.")
	expect(t, findings, "sessions", locker.SeverityOK, "1s granted")
	expect(t, findings, "sessions", locker.SeverityOK, "the servers allow from 200ms to 2s")
	expect(t, findings, "tick", locker.SeverityOK, "100ms, if minSessionTimeout was not set")
	expect(t, findings, "tokens", locker.SeverityOK, "not ahead")
	expect(t, findings, "clock", locker.SeverityInfo, "cannot be known")
	expect(t, findings, "access", locker.SeverityWarning, "open to the world")

	// Deadlines that go by a shorter tick than the servers' may come too late.
	findings = diagnose(t, open(t, "zookeeper://"+server.Addr()+"?session_timeout=1s&tick_time=20ms"))
	expect(t, findings, "tick", locker.SeverityWarning, "tick_time=100ms")
}

func TestDiagnoseAsUser(t *testing.T) {
	t.Parallel()
	const password = "c4n4ry"
	server := testbed.ZooKeeper(t)
	findings := diagnose(t, open(t, "zookeeper://"+server.Addr()+"?session_timeout=1s"))
	expect(t, findings, "tick", locker.SeverityOK, "at most 100ms, told by the servers")

	u := &url.URL{Scheme: "zookeeper", Host: server.Addr(), User: url.UserPassword("app", password), RawQuery: "session_timeout=1s&namespace=app"}
	l, err := zookeeper.Open(t.Context(), u)
	if err != nil {
		t.Fatal(err)
	}
	defer closeLocker(t, l.(*zookeeper.Locker))
	findings = diagnose(t, l.(*zookeeper.Locker))
	expect(t, findings, "access", locker.SeverityOK, "by an ACL")
	for _, f := range findings {
		if strings.Contains(strings.Join([]string{f.Target, f.Observed, f.Reason, f.Remedy}, " "), password) {
			t.Errorf("the password is shown: %+v", f)
		}
	}
}

func TestDiagnoseTLS(t *testing.T) {
	t.Parallel()
	certs := testbed.NewCertificates(t)
	server := testbed.ZooKeeperTLS(t, certs, true)
	rawURL := "zookeeper://" + server.Addr() + "?session_timeout=2s&tls=true&tls_ca_file=" + certs.CA +
		"&tls_cert_file=" + certs.ClientCert + "&tls_key_file=" + certs.ClientKey
	l, err := openURL(t.Context(), rawURL)
	for range 20 { // the first handshakes of a server are slow
		if err == nil {
			break
		}
		l, err = openURL(t.Context(), rawURL)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer closeLocker(t, l)
	findings := diagnose(t, l)
	expect(t, findings, "sessions", locker.SeverityOK, "the servers allow from 200ms to 2s")
}

func TestDiagnoseServersDown(t *testing.T) {
	t.Parallel()
	ensemble := testbed.ZooKeeperCluster(t, 3)
	const query = "?session_timeout=2s&request_timeout=2s"
	findings := diagnose(t, open(t, "zookeeper://"+ensemble.Servers[0].Addr()+query))
	expect(t, findings, "members", locker.SeverityInfo, "names 1 of them")

	all := "zookeeper://" + testbed.Join(ensemble.Servers) + query
	findings = diagnose(t, open(t, all))
	expect(t, findings, "members", locker.SeverityOK, "of which it may lose 1")
	expect(t, findings, "member", locker.SeverityOK, "leader")
	expect(t, findings, "member", locker.SeverityOK, "follower")

	l := onDriver(t, ensemble.Servers[0].Addr(), nil)
	diagnose(t, l)
	ensemble.Servers[2].Kill()
	diagnoseUntil(t, l, "quorum", locker.SeverityOK, "answers") // they may have to elect
	expect(t, diagnose(t, open(t, all)), "member", locker.SeverityWarning, ensemble.Servers[2].Addr()+" no answer")
	l = open(t, all)
	ensemble.Servers[1].Kill()
	diagnoseUntil(t, l, "quorum", locker.SeverityDanger, "no lock can be taken")
	diagnoseUntil(t, l, "member", locker.SeverityWarning, ensemble.Servers[0].Addr()+" it does not serve")
}

// onDriver returns a Locker on a client of the driver, not by Open.
func onDriver(t *testing.T, addr string, opts *zookeeper.Options) *zookeeper.Locker {
	t.Helper()
	dialer := new(zookeeper.Dialer)
	driver(t, 2*time.Second, dialer, addr)
	l, err := zookeeper.New(dialer, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeLocker(t, l) })
	return l
}

// diagnoseUntil diagnoses again and again: servers need a while to elect, and to notice.
func diagnoseUntil(t *testing.T, l *zookeeper.Locker, check string, severity locker.Severity, text string) {
	t.Helper()
	for began := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		findings, err := l.Diagnose(t.Context())
		if err == nil && found(findings, check, severity, text) {
			return
		}
		if time.Since(began) > 30*time.Second {
			t.Fatalf("waited in vain for a finding about %s that is %s with %q; at last %v among\n%+v", check, severity, text, err, findings)
		}
	}
}

func TestDiagnoseSilentServer(t *testing.T) {
	t.Parallel()
	server := testbed.ZooKeeper(t)
	l := onDriver(t, server.Addr(), &zookeeper.Options{RequestTimeout: time.Second})
	findings := diagnose(t, l) // of a namespace that is not there yet
	expect(t, findings, "tokens", locker.SeverityOK, "none were given out")
	expect(t, findings, "access", locker.SeverityWarning, "open to the world")
	server.Pause()
	defer server.Resume()
	var (
		err   error
		began time.Time
	)
	for range 100 { // not all of its threads stop at once
		began = time.Now()
		if findings, err = l.Diagnose(t.Context()); err != nil {
			break
		}
	}
	if !errors.Is(err, locker.ErrUnavailable) || len(findings) != 0 {
		t.Errorf("diagnose = %v, %v, want ErrUnavailable", findings, err)
	}
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("it took %s", took)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := l.Diagnose(ctx); !errors.Is(err, locker.ErrUnavailable) || !errors.Is(err, context.Canceled) {
		t.Errorf("diagnose with a context that has ended = %v", err)
	}
}
