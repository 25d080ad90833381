package redlock

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/locker-go/locker"
	"github.com/locker-go/locker/internal/redisnode"
)

// Options configure a Locker. The zero value, and nil, are good.
type Options struct {
	// Namespace separates the locks of one set of nodes. The Redis key of a lock is
	// namespace:key. Letters, digits, and . _ - are allowed. Default "locker".
	Namespace string

	// RawKeys takes keys as they are, without a namespace, to share locks with
	// programs that use another library. See the package redis.
	RawKeys bool

	// RequestTimeout bounds every request to a node. It should be far below the TTLs,
	// and above what a good node needs. Default 500 ms.
	RequestTimeout time.Duration

	// MaxTTL is the longest TTL that may be asked for. A node that may have forgotten
	// grants gives no votes for as long. All clients must have the same. Default 1 min.
	MaxTTL time.Duration

	// FenceRetention is for how long the fencing token of a key is remembered after
	// the last lease on it would have ended. After that, tokens rise by the clock.
	// Negative is for ever. Default 1 h.
	FenceRetention time.Duration

	// Members names the nodes, in the order of the clients, where not all clients
	// reach them by the same addresses. Nodes refuse a client that names others. Default: the
	// addresses.
	Members []string

	// OnEvent is told of nodes that give no votes, and of clocks and fences that are
	// more than 10 s apart.
	OnEvent func(locker.Event)
}

// Limits of the options.
const (
	minRequestTimeout = 10 * time.Millisecond
	maxRequestTimeout = time.Minute
	minFenceRetention = time.Minute

	defaultRequestTimeout = 500 * time.Millisecond
	defaultMaxTTL         = time.Minute
	defaultFenceRetention = time.Hour

	minNodes = 3
	maxNodes = 31
)

// Locker keeps locks on a majority of several Redis servers. It implements
// [locker.Waiter] and [locker.Admin].
type Locker struct {
	group
	opts   Options
	tokens redisnode.Proposer
	random func(below int64) int64

	calls sync.WaitGroup
	crew  *crew // for requests, some of which calls leave to the background

	mu     sync.Mutex
	closed bool
}

var (
	_ locker.Locker = (*Locker)(nil)
	_ locker.Waiter = (*Locker)(nil)
	_ locker.Admin  = (*Locker)(nil)
)

// New returns a Locker on an odd number of servers, at least three, most often five.
// It connects by itself, with the options of the clients; these stay as they are, and
// may be closed. They must not be of a Sentinel, of a Cluster, or replicas of each
// other. Nothing is sent before the first call.
func New(clients []*redis.Client, opts *Options) (*Locker, error) {
	l := new(Locker)
	if opts != nil {
		l.opts = *opts
	}
	if err := l.opts.check(); err != nil {
		return nil, err
	}
	var addrs []string
	for _, c := range clients {
		if c == nil {
			return nil, fmt.Errorf("%w: a client is nil", locker.ErrInvalid)
		}
		addr := c.Options().Addr
		if addr == "FailoverClient" {
			return nil, fmt.Errorf("%w: a failover, as of Sentinel, forgets grants: name the servers themselves, without replicas that may take over", locker.ErrInvalid)
		}
		addrs = append(addrs, addr)
	}
	names := addrs
	if len(l.opts.Members) > 0 {
		names = l.opts.Members
	}
	if err := checkNodes(addrs, names); err != nil {
		return nil, err
	}
	l.init(names)
	for i, c := range clients {
		l.members = append(l.members, l.connect(c, addrs[i]))
	}
	return l, nil
}

// init sets up what does not depend on servers.
func (l *Locker) init(names []string) {
	l.namespace = l.opts.Namespace
	l.maxTTL = l.opts.MaxTTL
	l.membership = membershipOf(names, l.maxTTL)
	l.report = func(e locker.Event) {
		if l.opts.OnEvent != nil {
			l.opts.OnEvent(e)
		}
	}
	l.crew = newCrew()
	l.random = rand.Int64N
	l.tokens.Clock, l.tokens.Random = time.Now, rand.Int64N
	l.tokens.Jumped = func(key string, err error) {
		l.report(locker.Event{Kind: locker.EventFenceJumped, Holding: locker.Holding{Key: key}, Err: err})
	}
}

// membershipOf returns what tells a set of nodes from all others. The longest TTL
// belongs to it: a client that knows of a shorter one would count on a node too early.
func membershipOf(names []string, maxTTL time.Duration) string {
	sorted := slices.Sorted(slices.Values(names))
	sum := sha256.Sum256([]byte(strings.Join(sorted, "\n")))
	return fmt.Sprintf("%d/%s/%s", len(names), maxTTL, hex.EncodeToString(sum[:6]))
}

// connect returns a member that is reached with the options of a client.
func (l *Locker) connect(c *redis.Client, addr string) *member {
	m := &member{group: &l.group, addr: addr}
	opts := *c.Options()
	before := opts.OnConnect
	opts.OnConnect = func(ctx context.Context, conn *redis.Conn) error {
		if before != nil {
			if err := before(ctx, conn); err != nil {
				return err
			}
		}
		run, err := redisnode.RunID(ctx, conn)
		if err != nil {
			return err
		}
		return m.connected(run)
	}
	opts.ReadTimeout, opts.WriteTimeout, opts.DialTimeout = l.opts.RequestTimeout, l.opts.RequestTimeout, l.opts.RequestTimeout
	opts.DialerRetries, opts.MaxRetries = 1, -1
	opts.PushNotificationProcessor = nil // it belongs to the client
	opts.ContextTimeoutEnabled = true
	m.client = redis.NewClient(&opts)
	m.node = redisnode.NewVoter(redisnode.OnServer(m.client, l.opts.RequestTimeout), max(l.opts.FenceRetention, 0))
	m.wakes = redisnode.NewWakes(m.client)
	return m
}

// checkNodes refuses a set of nodes that cannot agree on anything.
func checkNodes(addrs, names []string) error {
	n := len(addrs)
	switch {
	case n < minNodes || n > maxNodes || n%2 == 0:
		return fmt.Errorf("%w: there are %d nodes; it must be an odd number from %d to %d, such as five: "+
			"an even one bears no more failures than one less", locker.ErrInvalid, n, minNodes, maxNodes)
	case len(names) != n:
		return fmt.Errorf("%w: Members names %d nodes, and there are %d", locker.ErrInvalid, len(names), n)
	}
	for _, list := range [][]string{addrs, names} {
		seen := make(map[string]bool)
		for _, name := range list {
			if seen[name] {
				return fmt.Errorf("%w: the node %s is named twice, and would have two votes", locker.ErrInvalid, name)
			}
			if name == "" || strings.ContainsAny(name, "\n") {
				return fmt.Errorf("%w: a node must have a name, on one line", locker.ErrInvalid)
			}
			seen[name] = true
		}
	}
	return nil
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
		o.RequestTimeout = defaultRequestTimeout
	}
	if o.MaxTTL == 0 {
		o.MaxTTL = defaultMaxTTL
	}
	if o.FenceRetention == 0 {
		o.FenceRetention = defaultFenceRetention
	}
	switch {
	case o.RequestTimeout < minRequestTimeout || o.RequestTimeout > maxRequestTimeout:
		return fmt.Errorf("%w: RequestTimeout is %s; it must be from %s to %s", locker.ErrInvalid, o.RequestTimeout, minRequestTimeout, maxRequestTimeout)
	case o.MaxTTL < locker.MinTTL || o.MaxTTL > locker.MaxTTL:
		return fmt.Errorf("%w: MaxTTL is %s; it must be from %s to %s", locker.ErrInvalid, o.MaxTTL, locker.MinTTL, locker.MaxTTL)
	case o.FenceRetention > 0 && o.FenceRetention < minFenceRetention || o.FenceRetention > locker.MaxTTL:
		return fmt.Errorf("%w: FenceRetention is %s; it must be from %s to %s, or negative", locker.ErrInvalid, o.FenceRetention, minFenceRetention, locker.MaxTTL)
	}
	return locker.ValidateNamespace(o.Namespace)
}

// FirstUse declares that no lock has ever been taken on the nodes, so that they vote
// at once. Without it a node that has no memory waits for MaxTTL after it was started,
// or marked, since nothing tells five new nodes from five that lost everything. It
// fails unless all nodes answer, and does nothing if one of them was ever used in this
// namespace.
func (l *Locker) FirstUse(ctx context.Context) error {
	if err := l.enter(ctx); err != nil {
		return fail("mark", "", err)
	}
	defer l.calls.Done()
	all := len(l.members)
	looked, err := gather(l, ctx, all, func(ctx context.Context, m *member) (redisnode.Identity, error) {
		id, err := twice(ctx, func() (redisnode.Identity, error) { return m.Look(ctx, l.namespace) })
		if err == nil {
			err = m.fits(id)
		}
		return id, err
	})
	if err != nil {
		return fail("mark", "", err)
	}
	identities := make(map[*member]redisnode.Identity)
	for _, r := range looked {
		if r.value.Marked {
			return nil
		}
		identities[r.member] = r.value
	}
	_, err = gather(l, ctx, all, func(ctx context.Context, m *member) (*known, error) {
		q := m.inquire()
		defer m.forgetInquiry(q)
		// If it came late it could mark a node that was flushed since, and make it vote.
		looked := identities[m]
		id, err := m.Mark(ctx, l.namespace, l.membership, looked, looked.Time.Add(4*l.opts.RequestTimeout))
		if err == nil {
			err = m.fits(id)
		}
		if err != nil {
			return nil, err
		}
		return m.learn(q, id)
	})
	if err != nil {
		return fail("mark", "", err)
	}
	return nil
}

// enter begins a call. Its end is l.calls.Done.
func (l *Locker) enter(ctx context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return fmt.Errorf("%w: the Locker is closed", locker.ErrUnavailable)
	}
	if ctx.Err() != nil {
		return redisnode.Unavailable(ctx, ctx.Err())
	}
	l.calls.Add(1)
	return nil
}

// Close waits for what is under way, which is bounded by RequestTimeout, and closes the
// connections. Leases stand until they end or are released elsewhere.
func (l *Locker) Close() error {
	l.mu.Lock()
	was := l.closed
	l.closed = true
	l.mu.Unlock()
	if was {
		return nil
	}
	l.calls.Wait()
	l.crew.close()
	var errs []error
	for _, m := range l.members {
		if m.client == nil {
			continue
		}
		errs = append(errs, m.wakes.Close())
		if err := m.client.Close(); err != nil && !errors.Is(err, redis.ErrClosed) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

func fail(op, key string, err error) error {
	return &locker.OpError{Op: op, Backend: "redlock", Key: key, Err: err}
}

// begin returns the names of a lock and begins a call for it, of which the end is
// l.calls.Done.
func (l *Locker) begin(ctx context.Context, key string) (redisnode.Keys, error) {
	if err := locker.ValidateKey(key); err != nil {
		return redisnode.Keys{}, err
	}
	if l.namespace == "" {
		if err := redisnode.CheckRawKey(key); err != nil {
			return redisnode.Keys{}, err
		}
	}
	if err := l.enter(ctx); err != nil {
		return redisnode.Keys{}, err
	}
	return redisnode.KeysOf(l.namespace, key), nil
}

// validateTTL refuses a TTL that a node which forgot its grants would not wait for.
func (l *Locker) validateTTL(ttl time.Duration) error {
	if err := locker.ValidateTTL(ttl); err != nil {
		return err
	}
	if ttl > l.maxTTL {
		return fmt.Errorf("%w: the TTL is %s; with the MaxTTL of these nodes it must be at most %s", locker.ErrInvalid, ttl, l.maxTTL)
	}
	return nil
}

// wholeMillis rounds up to the unit in which Redis counts.
func wholeMillis(ttl time.Duration) time.Duration {
	return (ttl + time.Millisecond - 1).Truncate(time.Millisecond)
}
