package redisnode

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"
)

// once is a command that the client never sends twice. A request that it repeated
// after a lost reply could still arrive, and take the lock, after the second reply.
type once struct{ *redis.Cmd }

func (once) NoRetry() bool { return true }

// Once returns a command as one that the client never sends twice.
func Once(cmd *redis.Cmd) redis.Cmder { return once{cmd} }

// Heeding returns a client on the same connections that ends a request at the
// limit, or at its context's deadline.
func Heeding(c *redis.Client, limit time.Duration) *redis.Client {
	c = c.WithTimeout(limit)
	c.Options().ContextTimeoutEnabled = true // the options are the copy's own
	return c
}

// server is one server, the Runner of a Node that needs no more.
type server struct {
	client  *redis.Client
	limiter *Limiter
}

// OnServer returns a Runner that sends requests to one server, with a limit on each.
func OnServer(c *redis.Client, limit time.Duration) Runner {
	return &server{Heeding(c, limit), NewLimiter(limit)}
}

func (s *server) Run(ctx context.Context, cmd *redis.Cmd, _ string, _ bool) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	call := s.limiter.Begin(ctx)
	return s.limiter.End(call, s.client.Process(call, once{cmd}))
}
