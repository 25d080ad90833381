package redisnode

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/locker-go/locker"
)

// Examination says what a server is examined as.
type Examination struct {
	Limit      time.Duration // of each request
	Clustered  bool          // the client is one of a cluster
	Confirming int           // the replicas that must confirm a grant
	Votes      bool          // it is one of several nodes that vote
}

// report is what one server told.
type report struct {
	Examination
	addr string

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

// Examine asks a server for INFO, for some parameters by CONFIG GET, for its time and,
// in a cluster, for CLUSTER INFO, and returns what that says of locks. It returns the
// server's address too. It fails as soon as there is no answer, while a refusal is one.
func Examine(ctx context.Context, server *redis.Client, how Examination) (addr string, findings []locker.Finding, err error) {
	r := report{Examination: how, addr: server.Options().Addr}
	if err := r.ask(ctx, server); err != nil {
		return r.addr, nil, err
	}
	return r.addr, r.findings(), nil
}

// ask collects what the server tells.
func (r *report) ask(ctx context.Context, server *redis.Client) error {
	r.knock(ctx, server.Options())
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
			if !r.Clustered && r.info["cluster_enabled"] != "1" {
				return nil
			}
			text, err := server.ClusterInfo(ctx).Result()
			r.cluster = fields(text)
			return err
		}},
	}
	for _, step := range steps {
		limited, cancel := context.WithTimeout(ctx, r.Limit)
		err := step.request(limited)
		late := limited.Err() != nil && ctx.Err() == nil
		cancel()
		switch {
		case err == nil, Answered(err):
		case late:
			return Unavailable(ctx, fmt.Errorf("no answer within %s: %w", r.Limit, err))
		default:
			return Unavailable(ctx, err)
		}
		*step.refusal = err
	}
	return nil
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
func (r *report) knock(ctx context.Context, opts *redis.Options) {
	const failover = "FailoverClient" // what the driver has in the place of an address
	ctx, cancel := context.WithTimeout(ctx, r.Limit)
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
