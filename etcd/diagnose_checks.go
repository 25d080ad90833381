package etcd

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/locker-go/locker"
)

// findings returns those about the cluster, and then those about each member.
func (r *report) findings() []locker.Finding {
	var all []locker.Finding
	for _, check := range []struct {
		name string
		look func(*report) locker.Finding
	}{
		{"quorum", (*report).quorum},
		{"members", (*report).size},
		{"alarms", (*report).alarms},
		{"leases", (*report).leases},
		{"tokens", (*report).tokens},
		{"history", (*report).history},
		{"clock", (*report).clock},
		{"access", (*report).access},
	} {
		f := check.look(r)
		if f.Severity == "" {
			continue // it does not apply
		}
		f.Check = check.name
		all = append(all, f)
	}
	newest := uint64(0)
	for _, m := range r.members {
		if m.status != nil {
			newest = max(newest, m.status.RaftIndex)
		}
	}
	for _, m := range r.members {
		findings := []locker.Finding{m.health(newest)}
		if m.status != nil {
			findings = append(findings, m.version(), m.space())
		}
		for _, f := range findings {
			f.Target = m.name
			all = append(all, f)
		}
	}
	return all
}

func fine(observed string) locker.Finding {
	return locker.Finding{Severity: locker.SeverityOK, Observed: observed}
}

// unknown is the finding about what a request did not tell.
func unknown(err error, remedy string) locker.Finding {
	return locker.Finding{
		Severity: locker.SeverityUnknown, Observed: "not told",
		Reason: fmt.Sprintf("The request failed: %s.", oneLine(err)),
		Remedy: remedy,
	}
}

func oneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }

func (r *report) quorum() locker.Finding {
	if len(r.clusters) > 1 {
		ids := make([]string, len(r.clusters))
		for i, id := range r.clusters {
			ids[i] = fmt.Sprintf("%x", id)
		}
		slices.Sort(ids)
		return locker.Finding{
			Severity: locker.SeverityDanger, Observed: "the endpoints belong to different clusters: " + strings.Join(ids, ", "),
			Reason: "Each cluster has locks of its own, so that one key can have a holder in each.",
			Remedy: "Name the members of one cluster in the URL.",
		}
	}
	switch {
	case errors.Is(r.noQuorum, rpctypes.ErrPermissionDenied):
		return locker.Finding{
			Severity: locker.SeverityDanger, Observed: "this user may not read the namespace",
			Reason: "It can take no lock there.",
			Remedy: "Let it read and write the prefix of the namespace: etcdctl role grant-permission ROLE --prefix readwrite NAMESPACE/",
		}
	case r.noQuorum != nil:
		return locker.Finding{
			Severity: locker.SeverityDanger, Observed: "no majority answers",
			Reason: fmt.Sprintf("Without it no lock can be taken: %s.", oneLine(r.noQuorum)),
			Remedy: "Start the members that are down.",
		}
	}
	return fine("a majority answers")
}

func (r *report) size() locker.Finding {
	if r.unlisted != nil {
		return unknown(r.unlisted, "Look by etcdctl member list.")
	}
	voters := 0
	for _, m := range r.members {
		if !m.learner {
			voters++
		}
	}
	observed := fmt.Sprintf("%d that vote", voters)
	f := locker.Finding{Observed: observed, Remedy: "Use three members, or five, on different machines."}
	switch {
	case voters < 3:
		f.Severity = locker.SeverityWarning
		f.Reason = "The loss of one member ends locking until it is back, and if its disk is lost, so are all locks, and later tokens are above earlier ones only as far as clocks agree."
		if voters == 2 {
			f.Reason = "The loss of either member ends locking until it is back, which is more likely than with one."
		}
	case voters%2 == 0:
		f.Severity = locker.SeverityInfo
		f.Reason = fmt.Sprintf("It may lose %d, as with %d members, but has one more that can fail and must confirm.", (voters-1)/2, voters-1)
		f.Remedy = "Use an odd number of members."
	case voters > 7:
		f.Severity = locker.SeverityInfo
		f.Reason = fmt.Sprintf("Each write waits for %d members.", voters/2+1)
		f.Remedy = "Use five members, or seven."
	case r.endpoints < voters:
		f.Severity = locker.SeverityInfo
		f.Reason = fmt.Sprintf("The client knows of %d of them. While those are down, no other is found.", r.endpoints)
		f.Remedy = "Name all members in the URL."
	default:
		return fine(fmt.Sprintf("%s, of which it may lose %d", observed, (voters-1)/2))
	}
	return f
}

func (r *report) alarms() locker.Finding {
	var raised []string
	for _, m := range r.members {
		if m.status == nil {
			continue
		}
		for _, kind := range []string{"NOSPACE", "CORRUPT"} {
			has := func(text string) bool { return strings.Contains(text, kind) }
			if slices.ContainsFunc(m.status.Errors, has) && !slices.Contains(raised, kind) {
				raised = append(raised, kind)
			}
		}
	}
	f := locker.Finding{Severity: locker.SeverityDanger, Observed: strings.Join(raised, ", ")}
	switch {
	case slices.Contains(raised, "CORRUPT"):
		f.Reason = "The data of the members differ, so that two may tell of different holders. The cluster refuses to take and to end locks."
		f.Remedy = "Find the members that differ by etcdctl endpoint hashkv --cluster, replace them by new ones, then etcdctl alarm disarm."
	case len(raised) > 0:
		f.Reason = "The database has reached its quota: no lock can be taken."
		f.Remedy = "Compact the history and defragment each member (etcdctl compact, etcdctl defrag), then etcdctl alarm disarm. Set --auto-compaction-retention; raise --quota-backend-bytes if need be."
	default:
		return fine("none")
	}
	return f
}

// leases tells what the shortest lease tells: it is the election timeout and a half, in
// whole seconds.
func (r *report) leases() locker.Finding {
	switch {
	case r.noQuorum != nil:
		return locker.Finding{}
	case r.noFloor != nil:
		return unknown(r.noFloor, "Once leases can be granted, look again.")
	}
	most := r.floor * 2 / 3
	least := max(r.floor-time.Second, 0) * 2 / 3
	f := locker.Finding{
		Observed: fmt.Sprintf("%s at least, so the election timeout is from %s to %s", r.floor, least.Round(time.Millisecond), most.Round(time.Millisecond)),
		Reason:   fmt.Sprintf("A shorter TTL is rounded up to %s, and the lock of a holder that died is free no sooner.", r.floor),
	}
	switch election := 2 * most; {
	case election > r.limit:
		f.Severity = locker.SeverityWarning
		f.Reason += fmt.Sprintf(" An election takes up to %s, while requests give up after %s.", election.Round(time.Millisecond), r.limit)
		f.Remedy = fmt.Sprintf("Set request_timeout=%s in the URL, or a lower --election-timeout on all members.", election.Truncate(time.Second)+time.Second)
	case r.floor > 2*time.Second:
		f.Severity = locker.SeverityInfo
	default:
		return fine(f.Observed)
	}
	return f
}

func (r *report) tokens() locker.Finding {
	switch {
	case r.noQuorum != nil:
		return locker.Finding{}
	case r.noBase != nil:
		return locker.Finding{
			Severity: locker.SeverityDanger, Observed: "their base is damaged",
			Reason: fmt.Sprintf("No lock can be taken: %s.", oneLine(r.noBase)),
			Remedy: "Remove it; then tokens go by the clock, so do that when clocks agree.",
		}
	case r.base.value == 0:
		return fine("none were given out yet")
	}
	ahead := time.Duration(r.base.value+r.rev-r.asked.UnixMicro()) * time.Microsecond
	if ahead <= maxLag {
		return fine("not ahead of this machine's clock")
	}
	return locker.Finding{
		Severity: locker.SeverityWarning, Observed: fmt.Sprintf("%s ahead of this machine's clock", ahead.Round(time.Second)),
		Reason: "This clock is slow, or that of another client was fast. Tokens rise all the same while the cluster keeps its data; once it is lost, resources refuse the next ones for so long.",
		Remedy: "Have the clocks of all clients set by NTP.",
	}
}

func (r *report) history() locker.Finding {
	switch {
	case r.noQuorum != nil:
		return locker.Finding{}
	case r.noHistory != nil:
		return unknown(r.noHistory, "Look whether the members have --auto-compaction-retention.")
	case r.uncapped:
		return locker.Finding{
			Severity: locker.SeverityWarning, Observed: fmt.Sprintf("more than %d revisions are kept", keptRevisions),
			Reason: "It grows with every lock. Reading a queue gets slower, and when the database reaches its quota no lock can be taken.",
			Remedy: "Set --auto-compaction-mode=periodic and --auto-compaction-retention=1h on all members.",
		}
	}
	return fine(fmt.Sprintf("less than %d revisions are kept", keptRevisions))
}

// clock says what cannot be known, and that it does not matter.
func (r *report) clock() locker.Finding {
	return locker.Finding{
		Severity: locker.SeverityInfo, Observed: "not told by etcd",
		Reason: "Whether the servers' clocks agree with this machine's cannot be known. Locks do not depend on it: leases are measured by how much time passes, and tokens go by the clients' clocks, if by any.",
	}
}

func (r *report) access() locker.Finding {
	switch {
	case r.noQuorum != nil:
		return locker.Finding{}
	case r.noAuth != nil:
		return unknown(r.noAuth, "Look by etcdctl auth status.")
	case r.auth:
		return fine("with credentials")
	}
	return locker.Finding{
		Severity: locker.SeverityWarning, Observed: "without a password",
		Reason: "Whoever can connect to a member (with TLS: who has a certificate that it takes) can break every lock.",
		Remedy: "Give each program a user that may read and write the prefix of its namespace, then etcdctl auth enable.",
	}
}

// farBehind is how many entries of the log a member may be behind.
const farBehind = 10_000

func (m *member) health(newest uint64) locker.Finding {
	f := locker.Finding{Check: "member", Severity: locker.SeverityWarning}
	const loss = "Its place counts as a loss: fewer of the others may fail."
	switch {
	case m.status == nil && len(m.urls) == 0:
		f.Observed, f.Reason = "it never started", loss
		f.Remedy = "Start it, or remove it by etcdctl member remove."
	case m.status == nil:
		f.Observed = "no answer"
		f.Reason = fmt.Sprintf("%s At %s: %s.", loss, strings.Join(m.urls, ", "), oneLine(m.err))
		f.Remedy = "Start it, or let this machine reach it."
	case m.status.Leader == 0:
		f.Observed, f.Reason = "it knows of no leader", loss
		f.Remedy = "See whether it can reach the others."
	case m.status.RaftAppliedIndex+farBehind < newest:
		f.Observed = fmt.Sprintf("%d log entries behind", newest-m.status.RaftAppliedIndex)
		f.Reason = "It is slow: with it in a majority, so is every lock."
		f.Remedy = "Look at its disk; etcd logs what takes long."
	case m.learner:
		f.Severity, f.Observed = locker.SeverityInfo, "a learner"
		f.Reason = "It has no vote, and counts for no majority."
		f.Remedy = "Promote it by etcdctl member promote."
	case m.status.Leader == m.status.Header.MemberId:
		f.Severity, f.Observed = locker.SeverityOK, "it leads"
	default:
		f.Severity, f.Observed = locker.SeverityOK, "it follows"
	}
	return f
}

func (m *member) version() locker.Finding {
	f := fine("etcd " + m.status.Version)
	f.Check = "version"
	if err := supported(m.status.Version); err != nil {
		f.Severity = locker.SeverityDanger
		f.Reason = fmt.Sprintf("A leader that was deposed can confirm an expired lease, while another client has the lock: %v.", err)
		f.Remedy = "Upgrade all members."
	}
	return f
}

// defaultQuota is what a member has that was given none.
const defaultQuota = 2 << 30

func (m *member) space() locker.Finding {
	size, quota := m.status.DbSize, m.status.DbSizeQuota
	f := locker.Finding{Check: "space", Remedy: "Compact the history and defragment the member; set --auto-compaction-retention, and raise --quota-backend-bytes if need be."}
	told := quota > 0 // since etcd 3.6
	if !told {
		quota = defaultQuota
	}
	f.Observed = fmt.Sprintf("%d of %d MB", size>>20, quota>>20)
	if !told {
		f.Observed = fmt.Sprintf("%d MB", size>>20)
	}
	switch {
	case size > quota/5*4:
		f.Severity = locker.SeverityWarning
		f.Reason = "When the database reaches its quota no lock can be taken. Its file does not shrink by itself."
		if !told {
			f.Reason += " The quota is not told, and 2 GB unless it was set."
		}
	case !told:
		f.Severity = locker.SeverityInfo
		f.Reason = "The quota, at which no more lock can be taken, is not told by this version: it is 2 GB unless it was set."
		f.Remedy = ""
	default:
		f.Severity, f.Remedy = locker.SeverityOK, ""
	}
	return f
}
