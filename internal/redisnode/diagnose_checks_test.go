package redisnode

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/locker-go/locker"
)

// What no server at hand can be brought to say.
func TestChecks(t *testing.T) {
	t.Parallel()
	const ok, info, unknown, warning, danger = locker.SeverityOK, locker.SeverityInfo, locker.SeverityUnknown, locker.SeverityWarning, locker.SeverityDanger
	refused := errors.New("NOPERM not for you")
	for _, test := range []struct {
		name     string
		report   report
		check    string
		severity locker.Severity // "" if there is no such finding
		text     string
	}{
		{"an old server", report{info: fields("redis_version:5.0.14\r\n")}, "version", warning, "6.0"},
		{"a server without a version", report{info: fields("redis_version:unstable\r\n")}, "version", warning, "6.0"},
		{"a relative", report{info: fields("redis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:8.1.0\r\n")}, "version", ok, "valkey 8.1.0, as Redis 7.2.4"},
		{"a server that tells nothing", report{}, "version", unknown, "leaves it out"},

		{"the only master of a cluster", report{info: fields("role:master\nredis_mode:cluster\n"), cluster: fields("cluster_size:1\n")}, "role", warning, "redis+cluster://"},
		{"a node of a cluster, as one", report{Examination: Examination{Clustered: true}, info: fields("role:master\nredis_mode:cluster\n")}, "role", ok, "master"},

		{"no cluster", report{}, "cluster", "", ""},
		{"a cluster that does not tell", report{Examination: Examination{Clustered: true}, noCluster: refused}, "cluster", unknown, "NOPERM"},
		{"a cluster that is down", report{Examination: Examination{Clustered: true}, cluster: fields("cluster_state:fail\ncluster_size:3\n")}, "cluster", danger, "state fail"},
		{"slots that nobody serves", report{Examination: Examination{Clustered: true}, cluster: fields("cluster_state:ok\ncluster_size:3\ncluster_slots_fail:5461\n")}, "cluster", danger, "5461 slots"},
		{"two masters", report{Examination: Examination{Clustered: true}, cluster: fields("cluster_state:ok\ncluster_size:2\n")}, "cluster", warning, "majority"},

		{"nearly full", report{info: fields("maxmemory:1000\nused_memory:900\nmaxmemory_policy:noeviction\n")}, "memory", warning, "90%"},
		{"not nearly full", report{info: fields("maxmemory:1000\nused_memory:899\nmaxmemory_policy:noeviction\n")}, "memory", ok, "89%"},
		{"eviction told by CONFIG alone", report{noInfo: refused, config: fields("maxmemory-policy:allkeys-lfu\nmaxmemory:1000\n")}, "eviction", danger, "allkeys-lfu"},
		{"an eviction policy whose limit is not told", report{info: fields("maxmemory_policy:allkeys-lfu\n")}, "eviction", danger, "allkeys-lfu"},

		{"snapshots, or none", report{info: fields("aof_enabled:0\n"), noConfig: refused}, "persistence", warning, "last snapshot"},
		{"a file that cannot be written", report{info: fields("rdb_last_bgsave_status:ok\naof_last_write_status:err\n")}, "saving", danger, "refuses writes"},
		{"a snapshot that failed, with what effect is not told", report{info: fields("rdb_last_bgsave_status:err\n"), noConfig: refused}, "saving", warning, "unless"},
		{"a snapshot that failed, of a copy", report{info: fields("rdb_last_bgsave_status:err\n"), config: fields("save:\n")}, "saving", warning, "Where snapshots"},
		{"a rewrite that failed", report{info: fields("rdb_last_bgsave_status:ok\naof_last_bgrewrite_status:err\n")}, "saving", warning, "disk is full"},

		{"a replica that is not in step", report{info: fields("role:master\nconnected_slaves:1\nslave0:ip=h,port=1,state=wait_bgsave,offset=0,lag=0\n")}, "replicas", info, "none"},
		{"a replica whose state is about another", report{info: fields("role:slave\nconnected_slaves:0\n")}, "replicas", "", ""},
		{"enough replicas to write", report{info: fields("role:master\nconnected_slaves:1\nslave0:state=online\nmin_slaves_good_slaves:1\n"), config: fields("min-replicas-to-write:1\n")}, "replicas", warning, "asynchronous"},

		{"a clock that is right", report{ahead: 3 * time.Millisecond, uncertainty: time.Millisecond}, "clock", ok, "within 4ms"},
		{"a clock that may be right", report{ahead: 11 * time.Second, uncertainty: 11 * time.Second}, "clock", ok, "within 22s"},
		{"a clock that is behind", report{ahead: -3 * time.Second}, "clock", info, "3s behind"},
		{"a clock that is far ahead", report{ahead: time.Minute}, "clock", warning, "1m0s ahead"},
		{"a clock that is not told", report{noTime: refused}, "clock", unknown, "NOPERM"},
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
