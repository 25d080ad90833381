package zookeeper

import (
	"fmt"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/locker-go/locker"
)

// findings returns those about the ensemble, and then those about each server.
func (r *report) findings() []locker.Finding {
	var all []locker.Finding
	for _, check := range []struct {
		name string
		look func(*report) locker.Finding
	}{
		{"quorum", (*report).quorum},
		{"members", (*report).size},
		{"sessions", (*report).sessions},
		{"tick", (*report).tick},
		{"tokens", (*report).tokens},
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
	for _, s := range r.servers {
		findings := []locker.Finding{s.health()}
		if s.version != "" {
			findings = append(findings, s.supported())
		}
		for _, f := range findings {
			f.Target = s.addr
			all = append(all, f)
		}
	}
	return all
}

// fine is the finding of a check that found nothing wrong.
func fine(observed string) locker.Finding {
	return locker.Finding{Severity: locker.SeverityOK, Observed: observed}
}

// unknown is the finding about what a request did not tell.
func unknown(err error, remedy string) locker.Finding {
	return locker.Finding{
		Severity: locker.SeverityUnknown, Observed: "not told",
		Reason: fmt.Sprintf("The request failed: %v.", err),
		Remedy: remedy,
	}
}

func (r *report) quorum() locker.Finding {
	if r.noQuorum != nil {
		return locker.Finding{
			Severity: locker.SeverityDanger, Observed: "the leader does not answer",
			Reason: fmt.Sprintf("Without it no lock can be taken: %v.", r.noQuorum),
			Remedy: "Start the servers that are down.",
		}
	}
	return fine("the leader answers")
}

// standalone says whether there is one server, which is no ensemble.
func (r *report) standalone() bool {
	return len(r.servers) > 0 && r.servers[0].mode == "standalone"
}

func (r *report) size() locker.Finding {
	if r.noQuorum != nil {
		return locker.Finding{}
	}
	voters := r.voters
	if r.standalone() {
		voters = 1
	}
	observed := fmt.Sprintf("%d that vote", voters)
	f := locker.Finding{Observed: observed, Remedy: "Use three servers, or five, on different machines."}
	switch {
	case voters == 0 && r.noConfig != nil:
		return unknown(r.noConfig, "Let this user read "+configNode+", or look into the servers' configuration.")
	case voters == 0:
		f.Severity, f.Observed = locker.SeverityUnknown, "not told"
		f.Reason = configNode + " names no servers."
		f.Remedy = "Look into the servers' configuration."
	case voters == 1:
		f.Severity = locker.SeverityWarning
		f.Reason = "The loss of this server ends locking until it is back, and if its disk is lost, later tokens are above earlier ones only as far as clocks agree."
	case voters == 2:
		f.Severity = locker.SeverityWarning
		f.Reason = "The loss of either server ends locking until it is back, which is more likely than with one."
	case voters%2 == 0:
		f.Severity = locker.SeverityInfo
		f.Reason = fmt.Sprintf("It may lose %d, as with %d servers, but has one more that can fail and must confirm.", (voters-1)/2, voters-1)
		f.Remedy = "Use an odd number of servers; others can be observers."
	case r.named && len(r.servers) < voters:
		f.Severity = locker.SeverityInfo
		f.Reason = fmt.Sprintf("The URL names %d of them. While those are down, no other is found.", len(r.servers))
		f.Remedy = "Name all servers in the URL."
	default:
		return fine(fmt.Sprintf("%s, of which it may lose %d", observed, (voters-1)/2))
	}
	return f
}

func (r *report) sessions() locker.Finding {
	observed := fmt.Sprintf("%s granted, which is good for a TTL of up to %s", r.session.timeout, r.longest.Round(time.Millisecond))
	if r.longest < locker.MinTTL {
		return locker.Finding{
			Severity: locker.SeverityDanger, Observed: observed,
			Reason: "A session so short cannot promise any TTL, so no lock can be taken.",
			Remedy: "Ask for a longer session_timeout, or raise maxSessionTimeout on the servers.",
		}
	}
	if r.noQuorum != nil {
		return locker.Finding{}
	}
	if r.noSession != nil {
		f := unknown(r.noSession, "Look into the servers' configuration.")
		f.Observed = observed
		return f
	}
	return fine(fmt.Sprintf("%s; the servers allow from %s to %s", observed, r.least, r.most))
}

// tick compares that of the servers with what deadlines go by.
func (r *report) tick() locker.Finding {
	if r.noQuorum != nil {
		return locker.Finding{}
	}
	longest, told := time.Duration(0), true
	for _, s := range r.servers {
		longest = max(longest, s.tick)
		told = told && (s.tick > 0 || s.err != nil)
	}
	observed := fmt.Sprintf("at most %s, told by the servers", longest)
	if !told || longest == 0 {
		if r.noSession != nil {
			return unknown(r.noSession, "Compare tickTime of the servers with tick_time in the URL.")
		}
		longest = r.least / 2
		observed = fmt.Sprintf("%s, if minSessionTimeout was not set", longest)
	}
	if longest <= r.assumed {
		return fine(fmt.Sprintf("%s; deadlines go by %s", observed, r.assumed))
	}
	return locker.Finding{
		Severity: locker.SeverityWarning, Observed: fmt.Sprintf("%s; deadlines go by %s", observed, r.assumed),
		Reason: "A follower that is cut from its leader goes on answering for up to half a tick; a deadline that allows for less can come after another has the lock.",
		Remedy: fmt.Sprintf("Set tick_time=%s in the URL.", longest),
	}
}

// manyElections is how far ahead tokens may be as a matter of course: the election of a
// leader adds 72 minutes.
const manyElections = 24 * time.Hour

func (r *report) tokens() locker.Finding {
	switch {
	case r.noQuorum != nil:
		return locker.Finding{}
	case r.unused:
		return fine("none were given out yet")
	case r.noBase != nil:
		return locker.Finding{
			Severity: locker.SeverityDanger, Observed: "their base cannot be read",
			Reason: fmt.Sprintf("No lock can be taken: %v.", r.noBase),
			Remedy: "If it is damaged, remove it; then tokens go by the clock, so do that when clocks agree.",
		}
	}
	ahead := time.Duration(r.base.value+r.zxid-r.asked.UnixMicro()) * time.Microsecond
	if ahead <= maxLag {
		return fine("not ahead of this machine's clock")
	}
	f := locker.Finding{
		Severity: locker.SeverityInfo, Observed: fmt.Sprintf("%s ahead of this machine's clock", ahead.Round(time.Second)),
		Reason: "Each election of a leader adds 72 minutes. Tokens rise all the same while the ensemble keeps its data; once it is lost, resources refuse the next ones for so long.",
	}
	if ahead > manyElections {
		f.Severity = locker.SeverityWarning
		f.Remedy = "Find out why leaders are elected so often, or whose clock was ahead. Keep backups of the servers' data."
	}
	return f
}

// clock says what cannot be known, and that it does not matter.
func (r *report) clock() locker.Finding {
	return locker.Finding{
		Severity: locker.SeverityInfo, Observed: "not told by ZooKeeper",
		Reason: "Whether the servers' clocks agree with this machine's cannot be known. Locks do not depend on it: sessions are measured by how much time passes, and tokens go by the clients' clocks, if by any.",
	}
}

func (r *report) access() locker.Finding {
	if r.noQuorum != nil {
		return locker.Finding{}
	}
	if r.noACL != nil {
		return unknown(r.noACL, "Look by getAcl.")
	}
	for _, entry := range r.acl {
		if entry.Scheme == "world" && entry.Perms&^zk.PermRead != 0 {
			return locker.Finding{
				Severity: locker.SeverityWarning, Observed: "open to the world",
				Reason: "Whoever can connect to a server can break every lock.",
				Remedy: "Give user and password in the URL, for nodes that are this user's alone, before the first lock is taken; or setAcl on what is there.",
			}
		}
	}
	return fine("by an ACL")
}

func (s *server) health() locker.Finding {
	f := locker.Finding{Check: "member", Severity: locker.SeverityWarning}
	switch {
	case s.err != nil:
		f.Observed = "no answer"
		f.Reason = fmt.Sprintf("Its place counts as a loss: fewer of the others may fail. %v.", s.err)
		f.Remedy = "Start it, or let this machine reach it."
	case strings.Contains(s.silent, "whitelist"):
		f.Severity, f.Observed = locker.SeverityUnknown, "not told"
		f.Reason = "The server does not answer the command srvr."
		f.Remedy = "Set 4lw.commands.whitelist=srvr, conf on the servers."
	case s.mode == "":
		f.Observed = "it does not serve"
		f.Reason = fmt.Sprintf("It says: %s", s.silent)
		f.Remedy = "See whether it can reach the others."
	case s.mode == "read-only":
		f.Severity, f.Observed = locker.SeverityDanger, s.mode
		f.Reason = "It is cut from the others and takes no lock."
		f.Remedy = "Start the others, or see whether it can reach them."
	default:
		f.Severity, f.Observed = locker.SeverityOK, s.mode
	}
	return f
}

func (s *server) supported() locker.Finding {
	f := fine("ZooKeeper " + s.version)
	f.Check = "version"
	if strings.HasPrefix(s.version, "3.4.") || strings.HasPrefix(s.version, "3.3.") {
		f.Severity = locker.SeverityWarning
		f.Reason = "Locks are tested on newer servers; this version has not been maintained since 2020."
		f.Remedy = "Use ZooKeeper 3.8 or newer."
	}
	return f
}
