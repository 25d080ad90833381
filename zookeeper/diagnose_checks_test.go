package zookeeper

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/locker-go/locker"
)

// What no ensemble at hand can be brought to say.
func TestChecks(t *testing.T) {
	t.Parallel()
	const ok, info, unknown, warning, danger = locker.SeverityOK, locker.SeverityInfo, locker.SeverityUnknown, locker.SeverityWarning, locker.SeverityDanger
	refused := errors.New("not for you")
	now := time.UnixMicro(1_700_000_000_000_000)
	tokens := func(ahead time.Duration) report {
		return report{asked: now, base: base{value: now.UnixMicro()}, zxid: ahead.Microseconds()}
	}
	one := func(s server) report { return report{servers: []server{s}} }
	for _, test := range []struct {
		name     string
		report   report
		check    string
		severity locker.Severity // "" if there is no such finding
		text     string
	}{
		{"no majority", report{noQuorum: refused}, "quorum", danger, "not for you"},
		{"no majority, of which nothing is asked", report{noQuorum: refused}, "members", "", ""},
		{"two servers", report{voters: 2}, "members", warning, "either server"},
		{"three servers", report{voters: 3}, "members", ok, "lose 1"},
		{"four servers", report{voters: 4}, "members", info, "as with 3"},
		{"a server that stands alone", report{servers: []server{{mode: "standalone"}}}, "members", warning, "1 that vote"},
		{"an ensemble that is not told", report{noConfig: refused}, "members", unknown, "not for you"},
		{"an ensemble that does not know itself", report{}, "members", unknown, "names no servers"},

		{"a short session", report{longest: time.Millisecond}, "sessions", danger, "maxSessionTimeout"},
		{"limits that are not told", report{longest: time.Second, noSession: refused}, "sessions", unknown, "not for you"},
		{"a tick that is not told", report{noSession: refused}, "tick", unknown, "not for you"},
		{"a tick that one server does not tell", report{least: 4 * time.Second, assumed: time.Second, servers: []server{{tick: time.Second}, {}}}, "tick", warning, "tick_time=2s"},
		{"a tick that a server which is down does not tell", report{least: 4 * time.Second, assumed: time.Second, servers: []server{{tick: time.Second}, {err: refused}}}, "tick", ok, "at most 1s"},

		{"tokens of now", tokens(0), "tokens", ok, "not ahead"},
		{"tokens after an election", tokens(72 * time.Minute), "tokens", info, "1h12m0s ahead"},
		{"tokens after many", tokens(50 * time.Hour), "tokens", warning, "50h0m0s ahead"},
		{"no tokens yet", report{unused: true}, "tokens", ok, "none"},
		{"a damaged base", report{noBase: refused}, "tokens", danger, "not for you"},

		{"a world that may read", report{acl: append(zk.WorldACL(zk.PermRead), zk.DigestACL(zk.PermAll, "u", "p")...)}, "access", ok, "ACL"},
		{"a world that may create", report{acl: zk.WorldACL(zk.PermRead | zk.PermCreate)}, "access", warning, "open to the world"},
		{"an ACL that is not told", report{noACL: refused}, "access", unknown, "not for you"},

		{"a server that tells nothing", one(server{silent: "srvr is not executed because it is not in the whitelist."}), "member", unknown, "4lw.commands.whitelist"},
		{"a server that is cut off", one(server{mode: "read-only"}), "member", danger, "takes no lock"},
		{"an old server", one(server{mode: "leader", version: "3.4.14"}), "version", warning, "3.8"},
		{"one that is not as old", one(server{mode: "leader", version: "3.40.1"}), "version", ok, "3.40.1"},
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
