package redisnode

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/locker-go/locker"
)

// checks are made on each server. One that does not apply returns the zero Finding.
var checks = []struct {
	name string
	look func(*report) locker.Finding
}{
	{"version", (*report).version},
	{"role", (*report).role},
	{"cluster", (*report).clusterState},
	{"eviction", (*report).eviction},
	{"memory", (*report).memory},
	{"persistence", (*report).persistence},
	{"saving", (*report).saving},
	{"replicas", (*report).replicas},
	{"clock", (*report).clock},
	{"access", (*report).access},
}

// What follows from the loss of data is said in many findings.
const forgets = "the locks on them can go to a second client, and the next tokens are above the last ones only as far as clocks agree"

// oldest is the first major version that is supported.
const oldest = 6

func (r *report) version() locker.Finding {
	version, ok := r.info["redis_version"]
	if !ok {
		return r.untold()
	}
	observed := "Redis " + version
	if name := r.info["server_name"]; name != "" && name != "redis" { // a relative of Redis
		observed = strings.TrimSpace(name+" "+r.info[name+"_version"]) + ", as Redis " + version
	}
	number, _, _ := strings.Cut(version, ".")
	if major, err := strconv.Atoi(number); err != nil || major < oldest {
		return locker.Finding{
			Severity: locker.SeverityWarning, Observed: observed,
			Reason: "Locks are tested on Redis 6.0 and newer; older servers lack what they may need.",
			Remedy: "Use Redis 6.0 or newer.",
		}
	}
	return fine(observed)
}

func (r *report) role() locker.Finding {
	role, ok := r.info["role"]
	mode := r.info["redis_mode"]
	switch {
	case mode == "sentinel":
		return locker.Finding{
			Severity: locker.SeverityDanger, Observed: "a Sentinel",
			Reason: "A Sentinel keeps no data, so no lock can be taken.",
			Remedy: "Use redis+sentinel://HOST,HOST,HOST/MASTER-NAME.",
		}
	case !ok:
		return r.untold()
	case role == "slave" && r.info["slave_read_only"] == "0":
		return locker.Finding{
			Severity: locker.SeverityDanger, Observed: "a replica that takes writes",
			Reason: "Its master does not know of the locks that are taken here, and they are gone when the replica takes over the master's data again.",
			Remedy: "Connect to the master, and set replica-read-only yes.",
		}
	case role == "slave":
		return locker.Finding{
			Severity: locker.SeverityDanger, Observed: "a replica",
			Reason: "A replica refuses writes, so no lock can be taken.",
			Remedy: "Connect to the master, or use redis+sentinel://, which finds it.",
		}
	case mode == "cluster" && r.Votes:
		return locker.Finding{
			Severity: locker.SeverityDanger, Observed: "one node of a cluster",
			Reason: "It refuses the keys that belong to other nodes, so it has no vote on them.",
			Remedy: "Use servers that are independent of each other.",
		}
	case mode == "cluster" && !r.Clustered && r.cluster["cluster_size"] == "1":
		return locker.Finding{
			Severity: locker.SeverityWarning, Observed: "the only master of a cluster, used as a single server",
			Reason: "As soon as the cluster has a second master, the keys of that cannot be locked.",
			Remedy: "Use redis+cluster://.",
		}
	case mode == "cluster" && !r.Clustered:
		return locker.Finding{
			Severity: locker.SeverityDanger, Observed: "one node of a cluster, used as a single server",
			Reason: "It refuses the keys that belong to other nodes, so they cannot be locked.",
			Remedy: "Use redis+cluster://.",
		}
	}
	return fine(role)
}

func (r *report) clusterState() locker.Finding {
	if !r.Clustered {
		return locker.Finding{}
	}
	state, ok := r.cluster["cluster_state"]
	if !ok {
		return unknown(r.noCluster, "CLUSTER INFO")
	}
	masters := number(r.cluster["cluster_size"])
	observed := fmt.Sprintf("state %s, %d masters", state, masters)
	switch failed := number(r.cluster["cluster_slots_fail"]) + number(r.cluster["cluster_slots_pfail"]); {
	case state != "ok" || failed > 0:
		return locker.Finding{
			Severity: locker.SeverityDanger, Observed: fmt.Sprintf("%s, %d slots out of order", observed, failed),
			Reason: "The keys of slots that nobody serves cannot be locked.",
			Remedy: "See redis-cli --cluster check HOST:PORT; start the failed servers or fail over to their replicas.",
		}
	case masters < 3:
		return locker.Finding{
			Severity: locker.SeverityWarning, Observed: observed,
			Reason: "A majority of the masters must agree on a failover, so the loss of one ends locking on its keys until it is back.",
			Remedy: "Use at least three masters, on different machines.",
		}
	}
	return fine(observed)
}

func (r *report) eviction() locker.Finding {
	policy, ok := r.value("maxmemory_policy", "maxmemory-policy")
	if !ok {
		return r.untold()
	}
	if policy == "noeviction" {
		return fine(policy)
	}
	limit, ok := r.value("maxmemory", "maxmemory")
	f := locker.Finding{
		Severity: locker.SeverityDanger,
		Observed: policy,
		Reason:   "When memory is full the server deletes keys, those of held locks too, and their records of tokens: " + forgets + ".",
		Remedy:   "Set maxmemory-policy noeviction, by CONFIG SET and in the configuration. Give caches a server of their own.",
	}
	if ok && limit == "0" {
		f.Severity = locker.SeverityWarning
		f.Observed += ", but no maxmemory"
		f.Reason = "Nothing is evicted as long as there is no limit. Once somebody sets one, the server deletes keys when memory is full, those of held locks too."
	}
	return f
}

func (r *report) memory() locker.Finding {
	limitText, ok := r.value("maxmemory", "maxmemory")
	used, told := r.info["used_memory"]
	if !ok || !told {
		return r.untold()
	}
	observed := r.info["used_memory_human"] + " used"
	limit := number(limitText)
	if limit == 0 {
		return fine(observed + ", no limit")
	}
	share := number(used) * 100 / limit
	observed += fmt.Sprintf(", %d%% of maxmemory", share)
	if policy, _ := r.value("maxmemory_policy", "maxmemory-policy"); share < 90 || policy != "noeviction" {
		return fine(observed) // what an eviction policy means is another finding
	}
	f := locker.Finding{
		Severity: locker.SeverityWarning, Observed: observed,
		Reason: "When memory is full the server refuses writes, so that no lock can be taken.",
		Remedy: "Raise maxmemory, or remove what else is kept there.",
	}
	if share >= 100 {
		f.Severity = locker.SeverityDanger
	}
	return f
}

func (r *report) persistence() locker.Finding {
	on, ok := r.value("aof_enabled", "appendonly")
	if !ok {
		return r.untold()
	}
	f := locker.Finding{
		Severity: locker.SeverityWarning,
		Remedy:   "Set appendonly yes and appendfsync always, by CONFIG SET and in the configuration.",
	}
	if r.Votes {
		return r.persistenceOfVoter(f, on == "1" || on == "yes")
	}
	if on != "1" && on != "yes" {
		f.Observed = "no append-only file"
		f.Reason = "After a restart the server has forgotten all grants since its last snapshot: " + forgets + "."
		if save, ok := r.config["save"]; ok && save == "" {
			f.Observed += ", no snapshots"
			f.Reason = "After a restart the server has forgotten all grants: " + forgets + "."
		} else if ok {
			f.Observed += ", snapshots"
		}
		return f
	}
	switch fsync := r.config["appendfsync"]; {
	case fsync == "":
		f = unknown(r.noConfig, "CONFIG GET appendfsync")
		f.Observed = "append-only file, appendfsync not told"
	case fsync != "always":
		f.Observed = "appendfsync " + fsync
		f.Reason = "After a power failure the server has forgotten the grants of the last second or two: " + forgets + "."
		if fsync == "no" {
			f.Reason = "After a power failure the server has forgotten what the kernel had not yet written, of half a minute as a rule: " + forgets + "."
		}
	case r.config["no-appendfsync-on-rewrite"] == "yes":
		f.Observed = "appendfsync always, but not during a rewrite"
		f.Reason = "After a power failure while the file is rewritten or a snapshot saved, the server has forgotten the grants since that began: " + forgets + "."
		f.Remedy = "Set no-appendfsync-on-rewrite no, by CONFIG SET and in the configuration."
	default:
		f = fine("appendfsync always")
	}
	return f
}

// persistenceOfVoter is persistence of one node of several, which gives no votes while it
// may have forgotten some.
func (r *report) persistenceOfVoter(f locker.Finding, on bool) locker.Finding {
	f.Reason = "After it was started again the node gives no votes for MaxTTL, since it may have forgotten grants; and where a majority forgot theirs, the next tokens are above the last ones only as far as clocks agree."
	fsync := r.config["appendfsync"]
	switch {
	case !on:
		f.Observed = "no append-only file"
	case fsync == "":
		told := unknown(r.noConfig, "CONFIG GET appendfsync")
		told.Observed = "append-only file, appendfsync not told"
		return told
	case fsync != "always":
		f.Observed = "appendfsync " + fsync
	case r.config["no-appendfsync-on-rewrite"] == "yes":
		f.Severity, f.Observed = locker.SeverityDanger, "appendfsync always, but not during a rewrite"
		f.Reason = "The node is counted on to remember all it voted for, and after a power failure while the file is rewritten it does not: its lock can go to a second client."
		f.Remedy = "Set no-appendfsync-on-rewrite no, by CONFIG SET and in the configuration."
	default:
		return fine("appendfsync always")
	}
	return f
}

func (r *report) saving() locker.Finding {
	snapshot, ok := r.info["rdb_last_bgsave_status"]
	if !ok {
		return r.untold()
	}
	const disk = "Look into the server's log; as a rule the disk is full, or the directory not writable."
	switch {
	case r.info["aof_last_write_status"] == "err":
		return locker.Finding{
			Severity: locker.SeverityDanger, Observed: "the append-only file cannot be written",
			Reason: "The server refuses writes, so no lock can be taken.",
			Remedy: disk,
		}
	case snapshot == "err" && r.config["stop-writes-on-bgsave-error"] == "no":
		return locker.Finding{
			Severity: locker.SeverityWarning, Observed: "the last snapshot failed",
			Reason: "A restart forgets all grants since the last one that did not.",
			Remedy: disk,
		}
	case snapshot == "err" && r.config["save"] != "":
		return locker.Finding{
			Severity: locker.SeverityDanger, Observed: "the last snapshot failed",
			Reason: "With stop-writes-on-bgsave-error the server refuses writes then, so no lock can be taken.",
			Remedy: disk,
		}
	case snapshot == "err":
		return locker.Finding{
			Severity: locker.SeverityWarning, Observed: "the last snapshot failed",
			Reason: "Where snapshots are configured the server refuses writes then, unless stop-writes-on-bgsave-error is no.",
			Remedy: disk,
		}
	case r.info["aof_last_bgrewrite_status"] == "err":
		return locker.Finding{
			Severity: locker.SeverityWarning, Observed: "the append-only file could not be rewritten",
			Reason: "It grows until the disk is full; then the server refuses writes, and no lock can be taken.",
			Remedy: disk,
		}
	}
	return fine("no failure")
}

func (r *report) replicas() locker.Finding {
	if r.info["role"] == "slave" {
		return locker.Finding{} // what is wrong with that is another finding
	}
	if _, ok := r.info["connected_slaves"]; !ok {
		return r.untold()
	}
	n := 0
	for name, value := range r.info {
		if number, ok := strings.CutPrefix(name, "slave"); ok && number != "" && strings.Trim(number, "0123456789") == "" && strings.Contains(value, "state=online") {
			n++
		}
	}
	observed := fmt.Sprintf("%d in step", n)
	demanded := number(r.config["min-replicas-to-write"])
	good, counted := r.info["min_slaves_good_slaves"]
	switch {
	case r.Confirming > n:
		return locker.Finding{
			Severity: locker.SeverityDanger, Observed: fmt.Sprintf("%s, min_replicas=%d", observed, r.Confirming),
			Reason: "Fewer replicas than must confirm a grant, so no lock can be taken.",
			Remedy: "Start more replicas, or lower min_replicas in the URL.",
		}
	case counted && demanded > number(good):
		return locker.Finding{
			Severity: locker.SeverityDanger, Observed: fmt.Sprintf("%s, min-replicas-to-write %d", observed, demanded),
			Reason: "With fewer replicas than that the server refuses writes, so no lock can be taken.",
			Remedy: "Start more replicas, or lower min-replicas-to-write.",
		}
	case r.Votes && n == 0:
		return fine("none")
	case r.Votes:
		return locker.Finding{
			Severity: locker.SeverityWarning, Observed: observed,
			Reason: "A replica that takes over lacks the last votes of its master: a lock can go to a second client, whose majority has that node in it.",
			Remedy: "Give the nodes no replicas, or none that take over: a node that is down is what the majority is for.",
		}
	case n == 0:
		return locker.Finding{
			Severity: locker.SeverityInfo, Observed: "none",
			Reason: "While this server is down, no lock can be taken. In exchange there is no failover that could forget a grant.",
		}
	case r.Confirming > 0:
		return locker.Finding{
			Severity: locker.SeverityInfo, Observed: fmt.Sprintf("%s, min_replicas=%d", observed, r.Confirming),
			Reason: "A failover forgets a grant only if a replica is promoted that had not confirmed it. That is rare, and cannot be excluded.",
		}
	}
	return locker.Finding{
		Severity: locker.SeverityWarning, Observed: observed + ", none must confirm a grant",
		Reason: "Replication is asynchronous: a failover forgets the grants that had not arrived yet; " + forgets + ".",
		Remedy: "Add min_replicas=1 to the URL and set min-replicas-to-write 1 on the servers, which makes that rare; only a consensus store, such as etcd, excludes it.",
	}
}

func (r *report) clock() locker.Finding {
	if r.noTime != nil {
		return unknown(r.noTime, "TIME")
	}
	apart := max(r.ahead.Abs()-r.uncertainty, 0)
	observed := fmt.Sprintf("as this machine's, within %s", max(r.ahead.Abs()+r.uncertainty, time.Millisecond).Round(time.Millisecond))
	if apart >= time.Second {
		direction := "ahead of"
		if r.ahead < 0 {
			direction = "behind"
		}
		observed = fmt.Sprintf("%s %s this machine's", r.ahead.Abs().Round(100*time.Millisecond), direction)
	}
	f := locker.Finding{
		Observed: observed,
		Reason:   "Redis ends locks by its own clock. Tokens rise by a comparison, but by clocks where data was lost, or in a move to another store.",
		Remedy:   "Have both clocks set by NTP.",
	}
	switch {
	case apart >= 10*time.Second:
		f.Severity = locker.SeverityWarning
	case apart >= time.Second:
		f.Severity = locker.SeverityInfo
	default:
		return fine(observed)
	}
	return f
}

func (r *report) access() locker.Finding {
	if r.noOpen != nil {
		return unknown(r.noOpen, "a connection without a password")
	}
	if !r.open {
		return fine("with credentials")
	}
	return locker.Finding{
		Severity: locker.SeverityWarning, Observed: "without a password",
		Reason: "Whoever can connect to the server can break every lock.",
		Remedy: "Give each program a user of its own by an ACL, and the password by password_file; see SECURITY.md.",
	}
}

// value returns what INFO tells in a field, or else CONFIG GET of a parameter.
func (r *report) value(field, parameter string) (string, bool) {
	if v, ok := r.info[field]; ok {
		return v, true
	}
	v, ok := r.config[parameter]
	return v, ok
}

// number returns 0 for what is none.
func number(text string) int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// fine is the finding of a check that found nothing wrong.
func fine(observed string) locker.Finding {
	return locker.Finding{Severity: locker.SeverityOK, Observed: observed}
}

// untold is the finding about what neither INFO nor CONFIG tells.
func (r *report) untold() locker.Finding {
	return unknown(errors.Join(r.noInfo, r.noConfig), "INFO")
}

// unknown is the finding about what a command does not tell, because it was refused or
// because the server leaves it out.
func unknown(refusal error, command string) locker.Finding {
	f := locker.Finding{
		Severity: locker.SeverityUnknown, Observed: "not told",
		Reason: fmt.Sprintf("The answer to %s leaves it out.", command),
		Remedy: "Ask whoever runs the server, or look into the provider's settings.",
	}
	if refusal != nil {
		f.Reason = fmt.Sprintf("The server refuses %s: %s.", command, strings.ReplaceAll(refusal.Error(), "\n", "; "))
		f.Remedy = fmt.Sprintf("Let this user run %s, or ask whoever runs the server.", command)
	}
	return f
}
