package redis

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

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
	reports, errs := make([]report, len(servers)), make([]error, len(servers))
	var asking sync.WaitGroup
	for i, server := range servers {
		asking.Go(func() { reports[i], errs[i] = l.ask(ctx, server) })
	}
	asking.Wait()
	if !slices.Contains(errs, nil) {
		return nil, fail("diagnose", "", errors.Join(errs...))
	}
	for i, err := range errs {
		reports[i].silent = err
	}
	slices.SortFunc(reports, func(a, b report) int { return cmp.Compare(a.addr, b.addr) })
	var findings []locker.Finding
	for _, r := range reports {
		findings = append(findings, r.findings()...)
	}
	return findings, nil
}

// report is what one server told.
type report struct {
	addr       string
	clustered  bool // the client is one of a cluster
	confirming int  // the replicas that must confirm a grant

	silent      error             // why it gave no answer at all
	info        map[string]string // by field
	noInfo      error             // why it told no INFO
	config      map[string]string // by parameter
	noConfig    error             // why it told no CONFIG
	cluster     map[string]string // CLUSTER INFO, by field
	noCluster   error             // why it told no CLUSTER INFO
	ahead       time.Duration     // of this machine, its clock
	uncertainty time.Duration     // of ahead
	noTime      error             // why it told no TIME
	open        bool              // to whoever connects, with the rights of this client
	noOpen      error             // why that is not known
}

// parameters are those of the configuration that INFO may not tell.
var parameters = []string{
	"appendonly", "appendfsync", "no-appendfsync-on-rewrite", "save", "stop-writes-on-bgsave-error",
	"maxmemory", "maxmemory-policy", "min-replicas-to-write",
}

// ask collects what a server tells. It fails as soon as there is no answer, while a
// refusal is one.
func (l *Locker) ask(ctx context.Context, server *redis.Client) (report, error) {
	r := report{addr: server.Options().Addr, confirming: l.opts.MinReplicas}
	_, r.clustered = l.client.(*redis.ClusterClient)
	l.knock(ctx, server.Options(), &r)
	steps := []struct {
		refusal *error
		request func(ctx context.Context) error
	}{
		{&r.noInfo, func(ctx context.Context) error {
			text, err := server.Info(ctx).Result()
			r.info = fields(text)
			return err
		}},
		{&r.noConfig, func(ctx context.Context) (err error) {
			r.config, err = configuration(ctx, server)
			return err
		}},
		{&r.noTime, func(ctx context.Context) error {
			asked := time.Now()
			now, err := server.Time(ctx).Result()
			r.uncertainty = time.Since(asked) / 2
			r.ahead = now.Sub(asked.Add(r.uncertainty))
			return err
		}},
		{&r.noCluster, func(ctx context.Context) error {
			if !r.clustered && r.info["cluster_enabled"] != "1" {
				return nil
			}
			text, err := server.ClusterInfo(ctx).Result()
			r.cluster = fields(text)
			return err
		}},
	}
	for _, step := range steps {
		limited, cancel := context.WithTimeout(ctx, l.opts.RequestTimeout)
		err := step.request(limited)
		late := limited.Err() != nil && ctx.Err() == nil
		cancel()
		switch {
		case err == nil, redisnode.Answered(err):
		case late:
			return r, redisnode.Unavailable(ctx, fmt.Errorf("no answer within %s: %w", l.opts.RequestTimeout, err))
		default:
			return r, redisnode.Unavailable(ctx, err)
		}
		*step.refusal = err
	}
	return r, nil
}

// configuration returns the parameters that the server has, of those that matter here.
// Older servers tell one at a time.
func configuration(ctx context.Context, server *redis.Client) (map[string]string, error) {
	pipe := server.Pipeline()
	answers := make([]*redis.MapStringStringCmd, len(parameters))
	for i, name := range parameters {
		answers[i] = pipe.ConfigGet(ctx, name)
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return nil, err
	}
	config := make(map[string]string)
	for i, name := range parameters {
		if value, ok := answers[i].Val()[name]; ok {
			config[name] = value
		}
	}
	return config, nil
}

// knock connects without a password to see whether the server wants one. The client of
// a master that Sentinel watches does not tell its address, but a connection does.
func (l *Locker) knock(ctx context.Context, opts *redis.Options, r *report) {
	const failover = "FailoverClient" // what the driver has in the place of an address
	ctx, cancel := context.WithTimeout(ctx, l.opts.RequestTimeout)
	defer cancel()
	conn, err := opts.Dialer(ctx, opts.Network, opts.Addr)
	if err != nil {
		r.noOpen = err
		return
	}
	defer conn.Close()
	if r.addr == failover {
		r.addr = conn.RemoteAddr().String()
	}
	if opts.Username != "" && opts.Username != "default" {
		return // what the user may do that has no password is not known, nor that there is one
	}
	if opts.TLSConfig != nil && (len(opts.TLSConfig.Certificates) > 0 || opts.TLSConfig.GetClientCertificate != nil) {
		return
	}
	deadline, _ := ctx.Deadline()
	answer := make([]byte, len("+PONG"))
	if err = conn.SetDeadline(deadline); err == nil {
		_, err = conn.Write([]byte("PING\r\n"))
	}
	if err == nil {
		_, err = io.ReadFull(conn, answer)
	}
	r.open, r.noOpen = string(answer) == "+PONG", err
}

// fields reads the answers of INFO and CLUSTER INFO.
func fields(text string) map[string]string {
	all := make(map[string]string)
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok && !strings.HasPrefix(name, "#") {
			all[name] = value
		}
	}
	return all
}

// findings returns one finding for each check.
func (r *report) findings() []locker.Finding {
	if r.silent != nil {
		return []locker.Finding{{
			Check: "reachable", Target: r.addr, Severity: locker.SeverityDanger, Observed: "no answer",
			Reason: fmt.Sprintf("Locks on its keys cannot be taken: %v.", r.silent),
			Remedy: "Start the server, or let the cluster fail over to a replica of it.",
		}}
	}
	all := make([]locker.Finding, 0, len(checks))
	for _, check := range checks {
		f := check.look(r)
		if f.Severity == "" {
			continue // it does not apply
		}
		f.Check, f.Target = check.name, r.addr
		all = append(all, f)
	}
	return all
}
