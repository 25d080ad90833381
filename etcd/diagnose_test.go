package etcd_test

import (
	"context"
	"errors"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/locker-go/locker"
	"github.com/locker-go/locker/etcd"
	"github.com/locker-go/locker/internal/testbed"
)

func diagnose(t *testing.T, l *etcd.Locker) []locker.Finding {
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

// expect looks for a finding of the check and severity in which the text stands.
func expect(t *testing.T, findings []locker.Finding, check string, severity locker.Severity, text string) {
	t.Helper()
	var about []locker.Finding
	for _, f := range findings {
		if f.Check != check {
			continue
		}
		about = append(about, f)
		if f.Severity == severity && strings.Contains(strings.Join([]string{f.Target, f.Observed, f.Reason, f.Remedy}, " "), text) {
			return
		}
	}
	t.Errorf("about %s it found\n%+v\nwant %s with %q", check, about, severity, text)
}

func TestDiagnoseOneMember(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 1).client()
	l := on(t, c, nil)
	findings := diagnose(t, l)
	expect(t, findings, "quorum", locker.SeverityOK, "a majority")
	expect(t, findings, "members", locker.SeverityWarning, "loss of one member")
	expect(t, findings, "member", locker.SeverityOK, "it leads")
	expect(t, findings, "alarms", locker.SeverityOK, "none")
	expect(t, findings, "version", locker.SeverityOK, "etcd 3.")
	expect(t, findings, "space", locker.SeverityOK, "of 2048 MB")
	expect(t, findings, "leases", locker.SeverityOK, "2s at least, so the election timeout is from 667ms to 1.333s")
	expect(t, findings, "history", locker.SeverityOK, "less than")
	expect(t, findings, "clock", locker.SeverityInfo, "cannot be known")
	expect(t, findings, "access", locker.SeverityWarning, "without a password")
	expect(t, findings, "tokens", locker.SeverityOK, "none were given out")

	mustRelease(t, l, mustAcquire(t, l, "k"))
	expect(t, diagnose(t, l), "tokens", locker.SeverityOK, "not ahead")
	for value, want := range map[string]struct {
		severity locker.Severity
		text     string
	}{
		strconv.FormatInt(time.Now().Add(time.Hour).UnixMicro(), 10): {locker.SeverityWarning, "1h0m"},
		"nonsense": {locker.SeverityDanger, "is not a base of tokens"},
	} {
		if _, err := c.Put(t.Context(), "locker/base", value); err != nil {
			t.Fatal(err)
		}
		expect(t, diagnose(t, l), "tokens", want.severity, want.text)
	}
	leases, err := c.Leases(t.Context())
	if err != nil || len(leases.Leases) > 1 { // that of the lock, which waits for the next one
		t.Errorf("it left leases behind: %v, %v", leases, err)
	}
}

func TestDiagnoseMembersDown(t *testing.T) {
	t.Parallel()
	cluster := startCluster(t, 3, fast...)
	// One endpoint will do: the others are found.
	l := on(t, connect(t, cluster.members[0].Addr()), &etcd.Options{RequestTimeout: time.Second})
	findings := diagnose(t, l)
	expect(t, findings, "members", locker.SeverityInfo, "knows of 1")
	expect(t, findings, "member", locker.SeverityOK, "it leads")
	// An election of up to 1.3 s is longer than a request may take.
	expect(t, findings, "leases", locker.SeverityWarning, "request_timeout=2s")

	down := slices.Index(cluster.members, cluster.all.Leader())
	down = max(1, down) // not the one that is asked
	cluster.members[down].Kill()
	until(t, "the others lead on", func() bool {
		findings = diagnose(t, l)
		return slices.ContainsFunc(findings, func(f locker.Finding) bool { return f.Check == "quorum" && f.Severity == locker.SeverityOK })
	})
	expect(t, findings, "member", locker.SeverityWarning, "m"+strconv.Itoa(down)+" no answer")
	if got := locker.Worst(findings); got != locker.SeverityWarning {
		t.Errorf("with a majority the worst is %s", got)
	}

	cluster.members[3-down].Kill()
	until(t, "it knows that there is no majority", func() bool { return locker.Worst(diagnose(t, l)) == locker.SeverityDanger })
	findings = diagnose(t, l)
	expect(t, findings, "quorum", locker.SeverityDanger, "no lock can be taken")
	expect(t, findings, "members", locker.SeverityInfo, "3 that vote") // as the one that is left knows
}

// Members may be known by other addresses than they advertise, as behind a proxy.
func TestDiagnoseAdvertisedElsewhere(t *testing.T) {
	t.Parallel()
	server := testbed.Etcd(t, "--advertise-client-urls=http://"+testbed.Unused(t))
	expect(t, diagnose(t, on(t, connect(t, server.Addr()), nil)), "member", locker.SeverityOK, "m0 it leads")
}

func TestDiagnoseSilentMember(t *testing.T) {
	t.Parallel()
	server := testbed.Etcd(t)
	l := on(t, connect(t, server.Addr()), &etcd.Options{RequestTimeout: 200 * time.Millisecond})
	server.Pause()
	defer server.Resume()
	var (
		findings []locker.Finding
		err      error
		began    time.Time
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
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("it took %s", took)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := l.Diagnose(ctx); !errors.Is(err, locker.ErrUnavailable) || !errors.Is(err, context.Canceled) {
		t.Errorf("diagnose with a context that has ended = %v", err)
	}
}

// A database that has reached its quota takes no lock until the alarm is disarmed.
func TestDiagnoseFull(t *testing.T) {
	t.Parallel()
	server := testbed.Etcd(t, "--quota-backend-bytes", strconv.Itoa(1<<20))
	c := connect(t, server.Addr())
	l := on(t, c, nil)
	filler := strings.Repeat("x", 64<<10)
	var err error
	for i := 0; err == nil; i++ {
		_, err = c.Put(t.Context(), "filler"+strconv.Itoa(i), filler)
	}
	if !errors.Is(err, rpctypes.ErrNoSpace) {
		t.Fatal(err)
	}
	findings := diagnose(t, l)
	expect(t, findings, "alarms", locker.SeverityDanger, "NOSPACE")
	expect(t, findings, "space", locker.SeverityWarning, "of 1 MB")
	expect(t, findings, "leases", locker.SeverityUnknown, "space")
	if _, err := l.Acquire(t.Context(), "k", testTTL); !errors.Is(err, locker.ErrUnavailable) {
		t.Errorf("acquire = %v, so the finding is wrong", err)
	}
}

func TestDiagnoseCorruption(t *testing.T) {
	t.Parallel()
	c := connect(t, testbed.Etcd(t).Addr())
	l := on(t, c, nil)
	status, err := c.Status(t.Context(), c.Endpoints()[0])
	if err != nil {
		t.Fatal(err)
	}
	_, err = pb.NewMaintenanceClient(c.ActiveConnection()).Alarm(t.Context(), &pb.AlarmRequest{
		Action: pb.AlarmRequest_ACTIVATE, MemberID: status.Header.MemberId, Alarm: pb.AlarmType_CORRUPT,
	})
	if err != nil {
		t.Fatal(err)
	}
	expect(t, diagnose(t, l), "alarms", locker.SeverityDanger, "CORRUPT")
}

// With endpoints of two clusters, requests go to either, and so do locks.
func TestDiagnoseTwoClusters(t *testing.T) {
	t.Parallel()
	l := on(t, connect(t, testbed.Etcd(t).Addr(), testbed.Etcd(t).Addr()), nil)
	expect(t, diagnose(t, l), "quorum", locker.SeverityDanger, "different clusters")
}

func TestDiagnoseAsUser(t *testing.T) {
	t.Parallel()
	cluster := startCluster(t, 1, fast...)
	c, ctx := cluster.client(), t.Context()
	const password = "c4n4ry"
	_, err := c.RoleAdd(ctx, "jobs")
	_, err2 := c.RoleGrantPermission(ctx, "jobs", "jobs/", clientv3.GetPrefixRangeEnd("jobs/"), clientv3.PermissionType(clientv3.PermReadWrite))
	_, err3 := c.UserAdd(ctx, "app", password)
	_, err4 := c.UserGrantRole(ctx, "app", "jobs")
	_, err5 := c.UserAdd(ctx, "root", password)
	_, err6 := c.UserGrantRole(ctx, "root", "root")
	_, err7 := c.AuthEnable(ctx)
	if err := errors.Join(err, err2, err3, err4, err5, err6, err7); err != nil {
		t.Fatal(err)
	}
	u := &url.URL{Scheme: "etcd", Host: cluster.members[0].Addr(), User: url.UserPassword("app", password), RawQuery: "namespace=jobs"}
	opened, err := etcd.Open(ctx, u)
	if err != nil {
		t.Fatal(err)
	}
	l := opened.(*etcd.Locker)
	defer closeLocker(t, l)
	findings := diagnose(t, l)
	expect(t, findings, "access", locker.SeverityOK, "with credentials")
	expect(t, findings, "members", locker.SeverityWarning, "1 that vote")
	expect(t, findings, "leases", locker.SeverityOK, "1s")
	expect(t, findings, "history", locker.SeverityOK, "less than")
	for _, f := range findings {
		for _, text := range []string{f.Target, f.Observed, f.Reason, f.Remedy} {
			if strings.Contains(text, password) {
				t.Errorf("the password is shown: %+v", f)
			}
		}
	}

	stranger, err := clientv3.New(clientv3.Config{Endpoints: cluster.all.Endpoints(), Username: "app", Password: password, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	defer stranger.Close()
	expect(t, diagnose(t, on(t, stranger, &etcd.Options{Namespace: "others"})), "quorum", locker.SeverityDanger, "may not read")
}
