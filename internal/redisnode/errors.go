package redisnode

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/locker-go/locker"
)

// remedies tell what to do about the errors of a server, by how they begin after
// "ERR ".
var remedies = []struct{ prefix, text string }{
	{"WRONGTYPE", "the key is used by something else: it holds another type of value than a lock"},
	{"WRONGPASS", "the user name or the password is wrong"},
	{"NOAUTH", "the server wants a password"},
	{"NOPERM", "the user may not do this: it needs the commands and keys that the documentation names"},
	{"READONLY", "the server is a replica: connect to its master"},
	{"MASTERDOWN", "the server is a replica that lost its master: connect to the master"},
	{"LOADING", "the server is still loading its data"},
	{"OOM", "the server is out of memory and may not evict: make room or raise maxmemory"},
	{"CLUSTERDOWN", "the cluster does not serve all slots"},
	{"TRYAGAIN", "the cluster is moving the key's slot"},
	{"NOREPLICAS", "the server has fewer replicas than min-replicas-to-write asks for"},
	{"MISCONF", "the server cannot save its data and refuses writes"},
	{"BUSY", "the server is busy running a script"},
	{"EXECABORT", "the server refused the transaction"},
	{"max number of clients", "the server has too many clients"},
}

// refusals begin the errors of a server that has not run a request, and those of the
// scripts before they write. Others may come from a proxy that does not know whether
// the server did.
var refusals = []string{
	"NOSCRIPT", "WRONGTYPE", "WRONGPASS", "NOAUTH", "NOPERM", "READONLY", "MASTERDOWN", "LOADING", "OOM", "MOVED", "ASK ",
	"CROSSSLOT", "CLUSTERDOWN", "TRYAGAIN", "NOREPLICAS", "MISCONF", "BUSY", "EXECABORT", "max number of clients",
}

// Refused says whether err is a server's answer that it has not done what it was
// asked for.
func Refused(err error) bool {
	return Answered(err) && slices.ContainsFunc(refusals, func(prefix string) bool { return redis.HasErrorPrefix(err, prefix) })
}

// Unavailable wraps what a request failed with as an ErrUnavailable that says what
// to do. The context's error is beneath it if the context is what ended it.
func Unavailable(ctx context.Context, err error) error {
	if reason := contextError(ctx); reason != nil && !errors.Is(err, reason) {
		return fmt.Errorf("%w: %w: %w", locker.ErrUnavailable, reason, err)
	}
	answered := Answered(err)
	for _, r := range remedies {
		if answered && redis.HasErrorPrefix(err, r.prefix) {
			return fmt.Errorf("%w: %s: %w", locker.ErrUnavailable, r.text, err)
		}
	}
	return fmt.Errorf("%w: %w", locker.ErrUnavailable, err)
}

// contextError returns why ctx has ended, also where a socket that has the same
// deadline timed out a moment before the context's own timer.
func contextError(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		if cause := context.Cause(ctx); !errors.Is(cause, err) {
			return fmt.Errorf("%w: %w", err, cause)
		}
		return err
	}
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) <= 0 {
		return context.DeadlineExceeded
	}
	return nil
}

// Answered says whether a request failed with an error that the server answered.
func Answered(err error) bool {
	_, ok := errors.AsType[redis.Error](err)
	return ok
}

// NeverSent says whether a request that failed had not left this process.
func NeverSent(err error) bool {
	dial, ok := errors.AsType[*net.OpError](err)
	return ok && dial.Op == "dial" || errors.Is(err, redis.ErrPoolTimeout) || errors.Is(err, redis.ErrClosed)
}

// ConnectionLost says whether a request failed with its connection, so that it may
// succeed on another one: as when the server was restarted.
func ConnectionLost(err error) bool {
	if Answered(err) {
		return false
	}
	if t, ok := errors.AsType[net.Error](err); ok {
		return !t.Timeout() && !NeverSent(err)
	}
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}

// Twice calls an idempotent request once more if its connection was lost.
func Twice[T any](ctx context.Context, request func() (T, error)) (T, error) {
	v, err := request()
	if err != nil && ctx.Err() == nil && ConnectionLost(err) {
		v, err = request()
	}
	return v, err
}
