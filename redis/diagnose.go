package redis

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/locker-go/locker"
	"github.com/locker-go/locker/internal/redisnode"
)

var _ locker.Diagnoser = (*Locker)(nil)

// Diagnose asks each server that keeps locks, all of them at once, for INFO, for some
// parameters by CONFIG GET, for its time and, in a cluster, for CLUSTER INFO. What a
// user may not run makes findings unknown (an access control list allows it by +info,
// +config|get and +cluster|info; many managed servers have no CONFIG). A server of
// several that does not answer is a finding; if none does it is an error. Replicas, and
// Sentinels, are seen as their master sees them.
func (l *Locker) Diagnose(ctx context.Context) ([]locker.Finding, error) {
	var servers []*redis.Client
	err := l.eachMaster(ctx, func(server *redis.Client) error {
		servers = append(servers, server)
		return nil
	})
	if err != nil {
		return nil, fail("diagnose", "", err)
	}
	_, clustered := l.client.(*redis.ClusterClient)
	how := redisnode.Examination{Limit: l.opts.RequestTimeout, Clustered: clustered, Confirming: l.opts.MinReplicas}
	reports, errs := make([]report, len(servers)), make([]error, len(servers))
	var asking sync.WaitGroup
	for i, server := range servers {
		asking.Go(func() {
			r := &reports[i]
			if r.addr, r.findings, errs[i] = redisnode.Examine(ctx, server, how); errs[i] != nil {
				r.findings = []locker.Finding{{
					Check: "reachable", Target: r.addr, Severity: locker.SeverityDanger, Observed: "no answer",
					Reason: fmt.Sprintf("Locks on its keys cannot be taken: %v.", errs[i]),
					Remedy: "Start the server, or let the cluster fail over to a replica of it.",
				}}
			}
		})
	}
	asking.Wait()
	if !slices.Contains(errs, nil) {
		return nil, fail("diagnose", "", errors.Join(errs...))
	}
	slices.SortFunc(reports, func(a, b report) int { return cmp.Compare(a.addr, b.addr) })
	var findings []locker.Finding
	for _, r := range reports {
		findings = append(findings, r.findings...)
	}
	return findings, nil
}

// report is what was found about one server.
type report struct {
	addr     string
	findings []locker.Finding
}
