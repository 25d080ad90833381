package redis

import (
	"context"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/redis/go-redis/v9"

	"github.com/locker-go/locker"
	"github.com/locker-go/locker/internal/redisnode"
)

// processor is what all clients, and single connections, have.
type processor interface {
	Process(ctx context.Context, cmd redis.Cmder) error
}

// runner sends requests with a limit on each.
type runner struct {
	client   processor
	limit    time.Duration
	limiter  *redisnode.Limiter
	heedsCtx bool // the client ends a request in flight with its context
	cluster  bool

	// With replicas a request goes over one connection of the key's master, and
	// waits there for them.
	replicas int
	master   func(ctx context.Context, key string) (*redis.Client, error)
	reload   func(ctx context.Context)
}

func newRunner(client redis.UniversalClient, opts Options) (*runner, error) {
	r := &runner{limit: opts.RequestTimeout, limiter: redisnode.NewLimiter(opts.RequestTimeout), replicas: opts.MinReplicas}
	switch c := client.(type) {
	case *redis.Client:
		heeding := redisnode.Heeding(c, r.limit)
		r.client, r.heedsCtx = heeding, true
		r.master = func(context.Context, string) (*redis.Client, error) { return heeding, nil }
		r.reload = func(context.Context) {}
	case *redis.ClusterClient:
		if c.Options().ReadOnly {
			return nil, fmt.Errorf("%w: the client reads from replicas, which may not know of a grant yet: use one without ReadOnly, RouteByLatency and RouteRandomly", locker.ErrInvalid)
		}
		r.client, r.heedsCtx, r.cluster = c, c.Options().ContextTimeoutEnabled, true
		r.master = func(ctx context.Context, key string) (*redis.Client, error) {
			m, err := c.MasterForKey(ctx, key)
			if err != nil {
				return nil, err
			}
			return redisnode.Heeding(m, r.limit), nil
		}
		r.reload = c.ReloadState
	case nil:
		return nil, fmt.Errorf("%w: the client is nil", locker.ErrInvalid)
	default:
		return nil, fmt.Errorf("%w: a %T does not keep a key on one server: use a *redis.Client or a *redis.ClusterClient", locker.ErrInvalid, client)
	}
	return r, nil
}

// Run sends a command once. Where a cluster is moving the key's slot it asks again,
// as the server said, until the limit.
func (r *runner) Run(ctx context.Context, cmd *redis.Cmd, key string, durable bool) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	req := r.limiter.Begin(ctx)
	return r.limiter.End(req, r.send(req, cmd, key, durable))
}

func (r *runner) send(ctx context.Context, cmd *redis.Cmd, key string, durable bool) error {
	if r.replicas == 0 || !durable {
		return r.settle(ctx, cmd, func(ctx context.Context) error { return r.process(ctx, r.client, cmd) })
	}
	return r.settle(ctx, cmd, func(ctx context.Context) error {
		master, err := r.master(ctx, key)
		if err != nil {
			return err
		}
		conn := master.Conn()
		defer conn.Close()
		if err := conn.Process(ctx, redisnode.Once(cmd)); err != nil {
			return err
		}
		if n, _ := cmd.Val().(int64); n <= 0 {
			return nil // nothing was written
		}
		return r.replicated(ctx, conn)
	})
}

// settle repeats a request that was refused because its slot is on the move.
func (r *runner) settle(ctx context.Context, cmd *redis.Cmd, send func(context.Context) error) error {
	err := send(ctx)
	if !moving(err) {
		return err
	}
	delays := backoff.NewExponentialBackOff()
	delays.InitialInterval, delays.MaxInterval = 5*time.Millisecond, 100*time.Millisecond
	for moving(err) {
		r.reload(ctx)
		timer := time.NewTimer(delays.NextBackOff())
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return err
		}
		cmd.SetErr(nil)
		err = send(ctx)
	}
	return err
}

func moving(err error) bool {
	return err != nil && (redis.HasErrorPrefix(err, "TRYAGAIN") || redis.HasErrorPrefix(err, "MOVED") || redis.HasErrorPrefix(err, "ASK"))
}

// unconfirmedError is why the replicas could not be asked for what the master has
// written already: nothing that the master says then is a refusal of the request.
type unconfirmedError struct{ error }

func (e *unconfirmedError) Error() string { return "ask the replicas: " + e.error.Error() }
func (e *unconfirmedError) Unwrap() error { return e.error }

// replicated waits until the replicas have what was written over conn. They
// confirm only what was written over the connection that asks.
func (r *runner) replicated(ctx context.Context, conn *redis.Conn) error {
	wait := r.limit / 2
	if deadline, ok := ctx.Deadline(); ok {
		wait = min(wait, time.Until(deadline)/2)
	}
	ack := redis.NewCmd(ctx, "wait", r.replicas, max(wait.Milliseconds(), 1))
	if err := conn.Process(ctx, redisnode.Once(ack)); err != nil {
		return &unconfirmedError{err}
	}
	if n, _ := ack.Val().(int64); n < int64(r.replicas) {
		return fmt.Errorf("%d of the %d replicas that MinReplicas asks for confirmed within %s", n, r.replicas, wait.Round(time.Millisecond))
	}
	return nil
}

// process sends a command and returns when it is answered, or ctx ends.
func (r *runner) process(ctx context.Context, client processor, cmd *redis.Cmd) error {
	if r.heedsCtx {
		return client.Process(ctx, redisnode.Once(cmd))
	}
	// The client's own timeouts end what is left behind here; the caller must not
	// touch the command any more.
	own := redis.NewCmd(ctx, cmd.Args()...)
	done := make(chan error, 1)
	go func() { done <- client.Process(ctx, redisnode.Once(own)) }()
	select {
	case err := <-done:
		cmd.SetVal(own.Val())
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}
