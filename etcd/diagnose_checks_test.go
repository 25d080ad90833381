package etcd

import (
	"errors"
	"strings"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/locker-go/locker"
	"github.com/locker-go/locker/internal/testbed"
)

// told is the status of a member that is as it should be, but for what change does.
func told(change func(*clientv3.StatusResponse)) *clientv3.StatusResponse {
	s := &clientv3.StatusResponse{
		Header: &pb.ResponseHeader{MemberId: 1}, Version: "3.6.0", Leader: 1, RaftIndex: 100, RaftAppliedIndex: 100,
		DbSize: 1 << 20, DbSizeQuota: 2 << 30,
	}
	change(s)
	return s
}

func voters(n int) []member {
	members := make([]member, n)
	for i := range members {
		members[i] = member{name: "m", urls: []string{"u"}, status: told(func(s *clientv3.StatusResponse) { s.Leader = 2 })}
	}
	return members
}

func one(change func(*clientv3.StatusResponse)) report {
	return report{members: []member{{name: "m", status: told(change)}}}
}

// What no cluster at hand can be brought to say.
func TestChecks(t *testing.T) {
	t.Parallel()
	const ok, info, unknown, warning, danger = locker.SeverityOK, locker.SeverityInfo, locker.SeverityUnknown, locker.SeverityWarning, locker.SeverityDanger
	refused := errors.New("not for you")
	for _, test := range []struct {
		name     string
		report   report
		check    string
		severity locker.Severity // "" if there is no such finding
		text     string
	}{
		{"an old server", one(func(s *clientv3.StatusResponse) { s.Version = "3.5.12" }), "version", danger, "3.5.13"},
		{"an old server of the series before", one(func(s *clientv3.StatusResponse) { s.Version = "3.4.30" }), "version", danger, "3.4.31"},
		{"one that is new enough", one(func(s *clientv3.StatusResponse) { s.Version = "3.4.31" }), "version", ok, "3.4.31"},

		{"two members", report{members: voters(2)}, "members", warning, "either member"},
		{"three members", report{members: voters(3), endpoints: 3}, "members", ok, "lose 1"},
		{"three members, of which one is named", report{members: voters(3), endpoints: 1}, "members", info, "knows of 1"},
		{"four members", report{members: voters(4)}, "members", info, "as with 3"},
		{"five members", report{members: voters(5), endpoints: 5}, "members", ok, "lose 2"},
		{"nine members", report{members: voters(9)}, "members", info, "waits for 5"},
		{"members that are not told", report{unlisted: refused}, "members", unknown, "not for you"},
		{"a learner", report{members: append(voters(1), member{name: "l", learner: true, status: told(func(s *clientv3.StatusResponse) { s.Leader = 2 })})}, "members", warning, "1 that vote"},
		{"a learner by itself", report{members: []member{{name: "l", learner: true, status: told(func(s *clientv3.StatusResponse) { s.Leader = 2 })}}}, "member", info, "no vote"},
		{"a member that never started", report{members: []member{{name: "1f"}}}, "member", warning, "never started"},
		{"a member without a leader", one(func(s *clientv3.StatusResponse) { s.Leader = 0 }), "member", warning, "no leader"},
		{"a member that is behind", one(func(s *clientv3.StatusResponse) { s.RaftIndex = 20_000 }), "member", warning, "19900 log entries behind"},

		{"nearly full", one(func(s *clientv3.StatusResponse) { s.DbSize = 1900 << 20 }), "space", warning, "1900 of 2048 MB"},
		{"a quota that is not told", one(func(s *clientv3.StatusResponse) { s.DbSizeQuota = 0 }), "space", info, "2 GB unless it was set"},
		{"nearly full, it seems", one(func(s *clientv3.StatusResponse) { s.DbSize, s.DbSizeQuota = 1900<<20, 0 }), "space", warning, "not told"},

		{"a history without end", report{uncapped: true}, "history", warning, "auto-compaction"},
		{"a history that is not told", report{noHistory: refused}, "history", unknown, "not for you"},
		{"a history with no majority", report{noQuorum: refused, uncapped: true}, "history", "", ""},
		{"passwords that are not told", report{noAuth: refused}, "access", unknown, "not for you"},
		{"a long election", report{limit: 10e9, floor: 5e9}, "leases", info, "rounded up to 5s"},
		{"one that is longer than a request", report{limit: 3e9, floor: 5e9}, "leases", warning, "request_timeout=7s"},
	} {
		var got locker.Finding
		for _, f := range test.report.findings() {
			if f.Check == test.check {
				got = f
			}
		}
		if got.Severity != test.severity || !strings.Contains(strings.Join([]string{got.Observed, got.Reason, got.Remedy}, " "), test.text) {
			t.Errorf("%s: about %s it found\n%+v\nwant %s with %q", test.name, test.check, got, test.severity, test.text)
		}
	}
}

// How much history there is shows in whether an old revision can still be read.
func TestKeeps(t *testing.T) {
	t.Parallel()
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{testbed.Etcd(t).Addr()}, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	l, err := New(c, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for range 5 {
		if _, err := c.Put(t.Context(), "k", "v"); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := c.Compact(t.Context(), 4); err != nil {
		t.Fatal(err)
	}
	for rev, want := range map[int64]bool{-5: false, 0: false, 3: false, 5: true} {
		if got, err := l.keeps(t.Context(), rev); err != nil || got != want {
			t.Errorf("keeps %d: %t, %v, want %t", rev, got, err, want)
		}
	}
	if _, err := l.keeps(t.Context(), 1000); err == nil {
		t.Error("a revision to come was read")
	}
}
