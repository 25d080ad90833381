package redis

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/locker-go/locker"
	"github.com/locker-go/locker/internal/redisnode"
)

// Options configure a Locker. The zero value, and nil, are good.
type Options struct {
	// Namespace separates the locks of one store: the Redis key of a lock is
	// namespace:key. Letters, digits, and . _ - are allowed. Default "locker".
	Namespace string

	// RawKeys takes keys as they are, without a namespace, to share locks with
	// programs that use another library. It refuses keys of the form name:rest,
	// since they would be locks of the namespace name: for them, use that namespace.
	RawKeys bool

	// RequestTimeout bounds every request, whatever timeouts the client has.
	// Default 1 s.
	RequestTimeout time.Duration

	// MinReplicas is how many replicas must have confirmed a grant, or a renewal,
	// within RequestTimeout; otherwise it fails and is undone. Default 0.
	MinReplicas int

	// FenceRetention is for how long the fencing token of a key is remembered
	// after the last lease on it would have ended. After that, tokens
	// rise by the clock. Negative is for ever. Default 1 h.
	FenceRetention time.Duration

	// OnEvent is told of clocks and fences that are more than 10 s apart.
	OnEvent func(locker.Event)
}

// Limits of the options.
const (
	minRequestTimeout = 10 * time.Millisecond
	maxRequestTimeout = time.Minute
	minFenceRetention = time.Minute
	maxMinReplicas    = 100
)

// maxAttempts bounds the requests of one Acquire on a lock that is free: two are
// enough where the fence is ahead of the clock, one more for a lost connection,
// and one more for a rival that came and went in between.
const maxAttempts = 4

// Locker keeps locks on Redis. It implements [locker.Waiter] and [locker.Admin].
type Locker struct {
	client    redis.UniversalClient
	owned     bool // opened by Open: Close closes it
	opts      Options
	namespace string
	node      *redisnode.Node
	tokens    redisnode.Proposer
	wakes     *redisnode.Wakes
}

var (
	_ locker.Locker = (*Locker)(nil)
	_ locker.Waiter = (*Locker)(nil)
	_ locker.Admin  = (*Locker)(nil)
)

// New returns a Locker on a client of a server (*redis.Client, also one made by
// redis.NewFailoverClient) or of a cluster (*redis.ClusterClient). Anything else is
// refused: a *redis.Ring moves keys to other servers when one is down, and a cluster
// client that reads from replicas hears of a grant late. Close the Locker before the
// client.
func New(client redis.UniversalClient, opts *Options) (*Locker, error) {
	l := &Locker{client: client}
	if opts != nil {
		l.opts = *opts
	}
	if err := l.opts.check(); err != nil {
		return nil, err
	}
	run, err := newRunner(client, l.opts)
	if err != nil {
		return nil, err
	}
	l.namespace = l.opts.Namespace
	l.node = redisnode.New(run, max(l.opts.FenceRetention, 0), run.cluster)
	l.tokens.Clock, l.tokens.Random = time.Now, rand.Int64N
	l.tokens.Jumped = func(key string, err error) {
		if l.opts.OnEvent != nil {
			l.opts.OnEvent(locker.Event{Kind: locker.EventFenceJumped, Holding: locker.Holding{Key: key}, Err: err})
		}
	}
	l.wakes = redisnode.NewWakes(client)
	return l, nil
}

// check completes the options, or says what they may be.
func (o *Options) check() error {
	if o.RawKeys && o.Namespace != "" {
		return fmt.Errorf("%w: RawKeys goes with an empty Namespace", locker.ErrInvalid)
	}
	if !o.RawKeys && o.Namespace == "" {
		o.Namespace = "locker"
	}
	if o.RequestTimeout == 0 {
		o.RequestTimeout = time.Second
	}
	if o.FenceRetention == 0 {
		o.FenceRetention = time.Hour
	}
	switch {
	case o.RequestTimeout < minRequestTimeout || o.RequestTimeout > maxRequestTimeout:
		return fmt.Errorf("%w: RequestTimeout is %s; it must be from %s to %s", locker.ErrInvalid, o.RequestTimeout, minRequestTimeout, maxRequestTimeout)
	case o.FenceRetention > 0 && o.FenceRetention < minFenceRetention || o.FenceRetention > locker.MaxTTL:
		return fmt.Errorf("%w: FenceRetention is %s; it must be from %s to %s, or negative", locker.ErrInvalid, o.FenceRetention, minFenceRetention, locker.MaxTTL)
	case o.MinReplicas < 0 || o.MinReplicas > maxMinReplicas:
		return fmt.Errorf("%w: MinReplicas is %d; it must be from 0 to %d", locker.ErrInvalid, o.MinReplicas, maxMinReplicas)
	}
	return locker.ValidateNamespace(o.Namespace)
}

// Close stops what waits for wake-ups, and closes the client if Open made it. End the
// contexts of AcquireWait before: from then on it only asks now and then, and does
// not fail at once when the client is closed.
func (l *Locker) Close() error {
	err := l.wakes.Close()
	if l.owned {
		err = errors.Join(err, l.client.Close())
	}
	return err
}

func fail(op, key string, err error) error {
	return &locker.OpError{Op: op, Backend: "redis", Key: key, Err: err}
}

// keys returns the names of a lock, or why a call for it cannot be made.
func (l *Locker) keys(ctx context.Context, key string) (redisnode.Keys, error) {
	if err := locker.ValidateKey(key); err != nil {
		return redisnode.Keys{}, err
	}
	if l.namespace == "" {
		if err := redisnode.CheckRawKey(key); err != nil {
			return redisnode.Keys{}, err
		}
	}
	if ctx.Err() != nil {
		return redisnode.Keys{}, redisnode.Unavailable(ctx, ctx.Err())
	}
	return redisnode.KeysOf(l.namespace, key), nil
}

// wholeMillis rounds up to the unit in which Redis counts.
func wholeMillis(ttl time.Duration) time.Duration {
	return (ttl + time.Millisecond - 1).Truncate(time.Millisecond)
}

// Acquire takes one request: two if the fence is ahead of this process's clock.
func (l *Locker) Acquire(ctx context.Context, key string, ttl time.Duration) (locker.Lease, error) {
	if err := locker.ValidateTTL(ttl); err != nil {
		return locker.Lease{}, fail("acquire", key, err)
	}
	keys, err := l.keys(ctx, key)
	if err != nil {
		return locker.Lease{}, fail("acquire", key, err)
	}
	lease, err := l.acquire(ctx, key, keys, wholeMillis(ttl))
	if err != nil {
		return locker.Lease{}, fail("acquire", key, err)
	}
	return lease, nil
}

func (l *Locker) acquire(ctx context.Context, key string, keys redisnode.Keys, ttl time.Duration) (locker.Lease, error) {
	token := l.tokens.Next()
	reconnected := false
	for range maxAttempts {
		g := redisnode.Grant{Keys: keys, Holder: locker.NewHolder(), Token: token}
		asked := locker.Now()
		answer, err := l.node.Acquire(ctx, g, ttl)
		if err != nil {
			if err := l.undo(ctx, g, ttl, err); err != nil {
				return locker.Lease{}, err
			}
			if ctx.Err() != nil || reconnected || !redisnode.ConnectionLost(err) {
				return locker.Lease{}, err
			}
			reconnected = true
			token = l.tokens.Next()
			continue
		}
		switch answer.Status {
		case redisnode.Granted:
			lease := locker.Lease{Key: key, Holder: g.Holder, Token: g.Token}.Granted(asked, ttl, answer.Kept)
			// Remaining, which also knows of a suspend, is dear: the caller sees that one.
			if !time.Now().Before(lease.Deadline) {
				late := fmt.Errorf("%w: the answer took longer than the lease: use a longer TTL", locker.ErrUnavailable)
				if err := l.undo(ctx, g, ttl, late); err != nil {
					return locker.Lease{}, err
				}
				return locker.Lease{}, late
			}
			l.tokens.Saw(token)
			return lease, nil
		case redisnode.Held:
			answer.Holder.Key = key
			return locker.Lease{}, &locker.HeldError{Holding: answer.Holder}
		default:
			if token = l.tokens.After(key, answer); token > locker.MaxToken {
				return locker.Lease{}, fmt.Errorf("%w: the fence %d, beyond which there are no tokens, is damaged: delete its record %q",
					locker.ErrUnavailable, answer.Fence, keys.Fence)
			}
		}
	}
	return locker.Lease{}, fmt.Errorf("%w: others took and gave back the lock during each of %d attempts", locker.ErrHeld, maxAttempts)
}

// undo makes sure that an attempt of which the outcome is unknown takes nothing. It
// returns an error only if it cannot be sure.
func (l *Locker) undo(ctx context.Context, g redisnode.Grant, ttl time.Duration, cause error) error {
	_, written := errors.AsType[*unconfirmedError](cause)
	if !written && (redisnode.Refused(cause) || redisnode.NeverSent(cause)) {
		return nil
	}
	ctx = context.WithoutCancel(ctx) // the request has a limit of its own
	if err := l.node.Undo(ctx, g); err != nil && (!redisnode.ConnectionLost(err) || l.node.Undo(ctx, g) != nil) {
		return fmt.Errorf("%w; the lock may have been taken all the same, and then frees itself after %s, since undoing failed too: %w", cause, ttl, err)
	}
	return nil
}

func grantOf(lease locker.Lease, keys redisnode.Keys) redisnode.Grant {
	return redisnode.Grant{Keys: keys, Holder: lease.Holder, Token: lease.Token}
}

// Renew takes one request. One that failed may still arrive, and set the TTL that it
// asked for: after a failure do not count on a longer one.
func (l *Locker) Renew(ctx context.Context, lease locker.Lease, ttl time.Duration) (locker.Lease, error) {
	if err := locker.ValidateTTL(ttl); err != nil {
		return lease, fail("renew", lease.Key, err)
	}
	keys, err := l.keys(ctx, lease.Key)
	if err != nil {
		return lease, fail("renew", lease.Key, err)
	}
	ttl = wholeMillis(ttl)
	var asked locker.Instant
	answer, err := redisnode.Twice(ctx, func() (redisnode.Answer, error) {
		asked = locker.Now()
		return l.node.Renew(ctx, grantOf(lease, keys), ttl)
	})
	if err == nil && answer.Status != redisnode.Granted {
		err = locker.ErrNotHeld
	}
	if err != nil {
		return lease, fail("renew", lease.Key, err)
	}
	return lease.Granted(asked, ttl, ttl), nil
}

// Release takes one request.
func (l *Locker) Release(ctx context.Context, lease locker.Lease) error {
	keys, err := l.keys(ctx, lease.Key)
	if err != nil {
		return fail("release", lease.Key, err)
	}
	id := rand.Uint64()
	listeners := 0
	held, err := redisnode.Twice(ctx, func() (held bool, err error) {
		held, listeners, err = l.node.Release(ctx, grantOf(lease, keys), id)
		return held, err
	})
	if err == nil && !held {
		err = locker.ErrNotHeld
	}
	if err != nil {
		return fail("release", lease.Key, err)
	}
	l.wakes.Released(keys.Channel, lease.Token, listeners)
	return nil
}

// FenceToken takes one request.
func (l *Locker) FenceToken(ctx context.Context, lease locker.Lease) (locker.Token, error) {
	keys, err := l.keys(ctx, lease.Key)
	if err != nil {
		return 0, fail("fence", lease.Key, err)
	}
	held, err := redisnode.Twice(ctx, func() (bool, error) { return l.node.Holds(ctx, grantOf(lease, keys)) })
	if err == nil && !held {
		err = locker.ErrNotHeld
	}
	if err != nil {
		return 0, fail("fence", lease.Key, err)
	}
	return lease.Token, nil
}

// AcquireWait is woken when the lock is released, by a message that the release
// publishes. One connection serves all that wait with this Locker. Those that wait
// with other Lockers have their turn first if this one held the lock just before.
func (l *Locker) AcquireWait(ctx context.Context, key string, ttl time.Duration) (locker.Lease, error) {
	keys, err := l.keys(ctx, key)
	if err != nil {
		return locker.Lease{}, fail("acquire", key, err)
	}
	wake := make(chan struct{}, 1)
	w := l.wakes.Watch(keys.Channel, wake)
	defer l.wakes.Leave(w)
	if err := w.Yield(ctx); err != nil {
		held := &locker.HeldError{Holding: locker.Holding{Key: key}}
		return locker.Lease{}, fail("acquire", key, fmt.Errorf("%w; gave up waiting: %w", held, err))
	}
	return locker.Wait(ctx, wake, func(ctx context.Context) (locker.Lease, error) {
		lease, err := l.Acquire(ctx, key, ttl)
		if held, ok := errors.AsType[*locker.HeldError](err); ok {
			l.wakes.Held(w, held.Token)
		}
		return lease, err
	})
}
