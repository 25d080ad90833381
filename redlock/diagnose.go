package redlock

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/locker-go/locker"
	"github.com/locker-go/locker/internal/redisnode"
)

var _ locker.Diagnoser = (*Locker)(nil)

// Diagnose asks each node, all at once, as a single Redis is asked (see the package
// redis), and what it remembers. A node that does not answer is a finding; if none
// does it is an error. It marks no node.
func (l *Locker) Diagnose(ctx context.Context) ([]locker.Finding, error) {
	if err := l.enter(ctx); err != nil {
		return nil, fail("diagnose", "", err)
	}
	defer l.calls.Done()
	how := redisnode.Examination{Limit: l.opts.RequestTimeout, Votes: true}
	replies := ask(l, ctx, func(ctx context.Context, m *member) ([]locker.Finding, error) {
		// What a node is comes first: a connection tells the member of the process that it leads to.
		id, err := twice(ctx, func() (redisnode.Identity, error) { return m.Look(ctx, l.namespace) })
		if err != nil && !redisnode.Answered(err) {
			return nil, err
		}
		_, findings, examined := redisnode.Examine(ctx, m.client, how)
		if examined != nil {
			return nil, examined
		}
		return append(findings, m.findings(id, err)...), nil
	})
	byMember, errs := make(map[*member][]locker.Finding), make(map[*member]error)
	for range l.members {
		select {
		case r := <-replies:
			if byMember[r.member] = r.value; r.err != nil {
				errs[r.member] = r.err
			}
		case <-ctx.Done():
			return nil, fail("diagnose", "", redisnode.Unavailable(ctx, ctx.Err()))
		}
	}
	if len(errs) == len(l.members) {
		return nil, fail("diagnose", "", l.noMajority(errs))
	}
	findings := []locker.Finding{l.quorum(errs, byMember), l.machines()}
	for _, m := range l.members {
		if err := errs[m]; err != nil {
			byMember[m] = []locker.Finding{{
				Check: "reachable", Severity: locker.SeverityWarning, Observed: "no answer",
				Reason: fmt.Sprintf("It has no vote: %s.", strings.TrimPrefix(err.Error(), locker.ErrUnavailable.Error()+": ")),
				Remedy: "Start the node. To replace it for good, move all clients to a new namespace with the new nodes.",
			}}
		}
		for _, f := range byMember[m] {
			f.Target = m.addr
			findings = append(findings, f)
		}
	}
	return findings, nil
}

// findings returns what a node remembers, and whether it votes.
func (m *member) findings(id redisnode.Identity, refused error) []locker.Finding {
	f := locker.Finding{Check: "votes", Severity: locker.SeverityOK, Observed: "votes"}
	why, misfits := errors.AsType[misfit](m.fits(id))
	from := m.votesFrom(id.Marker)
	switch {
	case refused != nil:
		f.Severity, f.Observed = locker.SeverityUnknown, "not told"
		f.Reason = fmt.Sprintf("The server refuses to say what it is: %v.", refused)
		f.Remedy = "Let this user run EVAL and INFO; see the documentation of the package redlock."
	case misfits:
		f.Severity, f.Observed = locker.SeverityDanger, "gives no votes"
		f.Reason, f.Remedy = sentence(string(why)), "Name an odd number of independent masters, the same in all clients."
	case !id.Marked:
		f.Severity, f.Observed = locker.SeverityInfo, "not marked yet"
		f.Reason = fmt.Sprintf("It was never used in this namespace, or was wiped. It votes %s after it was started, if it was never written to, else after a client first asked it.", m.group.maxTTL)
	case id.Marker.Run != id.Run:
		f.Severity, f.Observed = locker.SeverityInfo, "started again, not asked since"
		f.Reason = fmt.Sprintf("It votes at once if its disk had all that it had answered for, else %s after a client first asked it.", m.group.maxTTL)
	case id.Time.Before(from):
		f.Severity, f.Observed = locker.SeverityWarning, fmt.Sprintf("no votes for another %s", from.Sub(id.Time).Round(time.Second))
		f.Reason = sentence(reasons[id.Marker.Reason]) + " Until all that it may have granted is over, it counts as down."
	}
	return []locker.Finding{f}
}

// sentence returns a text as a sentence.
func sentence(text string) string {
	return strings.ToUpper(text[:1]) + text[1:] + "."
}

// quorum returns whether there is a majority, and what it still bears.
func (l *Locker) quorum(errs map[*member]error, found map[*member][]locker.Finding) locker.Finding {
	n, votes := len(l.members), 0
	for _, m := range l.members {
		silent := errs[m] != nil
		for _, f := range found[m] {
			silent = silent || f.Check == "votes" && (f.Severity == locker.SeverityDanger || f.Severity == locker.SeverityWarning)
		}
		if !silent {
			votes++
		}
	}
	f := locker.Finding{Check: "quorum", Severity: locker.SeverityOK, Observed: fmt.Sprintf("%d of %d nodes", votes, n)}
	spare := votes - majority(n)
	switch {
	case spare < 0:
		f.Severity = locker.SeverityDanger
		f.Reason = fmt.Sprintf("A lock needs the votes of %d nodes, so none can be taken.", majority(n))
		f.Remedy = "Start the nodes that do not answer, or wait for those that give no votes yet."
	case votes < n:
		f.Severity = locker.SeverityWarning
		f.Reason = fmt.Sprintf("Of those, %d more may fail before no lock can be taken.", spare)
		f.Remedy = "See the findings about the other nodes."
	}
	return f
}

// machines returns whether nodes share a machine, as far as their addresses show.
func (l *Locker) machines() locker.Finding {
	shared := make(map[string]int)
	most := 0
	for _, m := range l.members {
		host, _, err := net.SplitHostPort(m.addr)
		if err != nil {
			host = m.addr
		}
		shared[host]++
		most = max(most, shared[host])
	}
	f := locker.Finding{Check: "machines", Severity: locker.SeverityOK, Observed: "each node has an address of its own"}
	if most == 1 {
		return f
	}
	var hosts []string
	for host, n := range shared {
		if n == most {
			hosts = append(hosts, host)
		}
	}
	slices.Sort(hosts)
	f.Severity, f.Observed = locker.SeverityWarning, fmt.Sprintf("%d nodes at %s", most, hosts[0])
	f.Reason = "Nodes on one machine fail together, and have one clock and one disk: a majority bears no more than a single server then."
	f.Remedy = "Give each node a machine, and a disk, of its own."
	return f
}
