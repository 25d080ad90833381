package redlock

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/locker-go/locker"
	"github.com/locker-go/locker/internal/redisnode"
)

// client is a process that takes locks.
type client struct {
	w     *world
	id    int
	plan  clientPlan
	peers []*peer
	ctx   context.Context

	locker locker.Locker
	core   *Locker // nil if the variant has its own

	mu   sync.Mutex
	dice dice // for what the core draws
}

func newClient(w *world, id int, p clientPlan) *client {
	c := &client{w: w, id: id, plan: p, ctx: context.Background(), dice: roll(w.seed, uint64(1000+id))}
	l := &Locker{opts: Options{RequestTimeout: w.requestTimeout, MaxTTL: w.maxTTL, FenceRetention: w.retention}}
	if err := l.opts.check(); err != nil {
		panic(err)
	}
	names := make([]string, len(w.nodes))
	for i := range names {
		names[i] = fmt.Sprintf("node%d", i)
	}
	l.init(names)
	l.random = c.draw
	l.tokens.Random = c.draw
	l.tokens.Clock = func() time.Time { return epoch.Add(w.since() + p.offset) }
	for i, n := range w.nodes {
		m := &member{group: &l.group, addr: names[i]}
		peer := &peer{w: w, node: n, client: c, member: m}
		m.node = peer
		l.members = append(l.members, m)
		c.peers = append(c.peers, peer)
	}
	c.locker, c.core = l, l
	if w.variant == counting {
		c.locker, c.core = &counter{client: c}, nil
	}
	return c
}

// draw is where the core gets its random numbers from.
func (c *client) draw(below int64) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.dice.Int64N(below)
}

func (c *client) close() {
	if closer, ok := c.locker.(interface{ Close() error }); ok {
		if err := closer.Close(); err != nil {
			c.w.broke("close: %v", err)
		}
	}
}

// awake waits until the client is not paused, and then for the spread: nothing goes out
// or comes in until then.
func (c *client) awake(spread time.Duration) {
	for paused := true; paused; {
		paused = false
		now := c.w.since()
		for _, s := range c.plan.pauses {
			if s.has(now) && !c.w.calm.Load() {
				paused = true
				time.Sleep(c.w.alone(s.to - now + spread))
				break
			}
		}
	}
}

// call is one call of a client that has returned.
type call struct {
	kind     callKind
	client   int
	key      string
	token    locker.Token // as granted, or of the lease that it was made with; the floor of a raise
	first    int          // its place among all that was asked and answered
	last     int          // that of its answer
	asked    time.Duration
	answered time.Duration
	deadline time.Duration     // of a lease that was granted or renewed
	attempts []redisnode.Grant // that an acquire made
	err      error
}

type callKind int

const (
	acquired callKind = iota
	renewed
	released
	fenced
	raised
)

func (k callKind) String() string {
	return [...]string{"acquire", "renew", "release", "fence", "raise"}[k]
}

func (c *call) String() string {
	s := fmt.Sprintf("%s of %s by client %d with token %d, asked at %s, answered at %s", c.kind, c.key, c.client, c.token, c.asked, c.answered)
	if c.deadline != 0 {
		s += fmt.Sprintf(", deadline %s", c.deadline)
	}
	if c.err != nil {
		s += fmt.Sprintf(": %v", c.err)
	}
	return s
}

// underCall is where a context has the call that it was made for.
type underCall struct{}

// record makes a call and takes it down. It returns the lease that comes of it.
func (c *client) record(ctx context.Context, kind callKind, lease locker.Lease, do func(context.Context) (locker.Lease, error)) (locker.Lease, error) {
	w := c.w
	entry := &call{kind: kind, client: c.id, key: lease.Key, token: lease.Token, asked: w.since()}
	w.mu.Lock()
	entry.first = w.place()
	w.mu.Unlock()
	l, err := do(context.WithValue(ctx, underCall{}, entry))
	entry.answered, entry.err = w.since(), err
	switch {
	case kind == acquired && err != nil:
		w.nothingLeft(entry)
	case err == nil && (kind == acquired || kind == renewed):
		entry.token, entry.deadline = l.Token, l.Deadline.Sub(w.begun)
	}
	w.mu.Lock()
	entry.last = w.place()
	w.history = append(w.history, entry)
	w.mu.Unlock()
	if w.log != nil {
		w.logf("%s", entry)
	}
	return l, err
}

// place returns the next place in the order of what was asked and answered.
func (w *world) place() int {
	w.places++
	return w.places
}

// attempted takes down what an acquire asks for.
func (w *world) attempted(ctx context.Context, g redisnode.Grant) {
	entry := ctx.Value(underCall{}).(*call)
	w.mu.Lock()
	defer w.mu.Unlock()
	if n := len(entry.attempts); n == 0 || entry.attempts[n-1] != g {
		entry.attempts = append(entry.attempts, g)
	}
}

// nothingLeft checks that an acquire that has failed holds nothing on a majority, unless it
// said so.
func (w *world) nothingLeft(c *call) {
	w.mu.Lock()
	attempts := c.attempts
	w.mu.Unlock()
	for _, g := range attempts {
		left := 0
		for _, n := range w.nodes {
			n.mu.Lock()
			if n.holds(g) && !n.repeated[valueOf(g)] { // a driver repeats no vote that was answered
				left++
			}
			n.mu.Unlock()
		}
		if left >= majority(len(w.nodes)) && !strings.Contains(c.err.Error(), "may have been taken all the same") {
			w.broke("clean-up: %d nodes have the grant %d, that %s", left, g.Token, c)
		}
	}
}

func (c *client) acquire(ctx context.Context, key string, ttl time.Duration) (locker.Lease, error) {
	return c.record(ctx, acquired, locker.Lease{Key: key}, func(ctx context.Context) (locker.Lease, error) {
		return c.locker.Acquire(ctx, key, ttl)
	})
}

func (c *client) renew(lease locker.Lease, ttl time.Duration) (locker.Lease, error) {
	return c.record(c.ctx, renewed, lease, func(ctx context.Context) (locker.Lease, error) { return c.locker.Renew(ctx, lease, ttl) })
}

func (c *client) release(lease locker.Lease) error {
	_, err := c.record(c.ctx, released, lease, func(ctx context.Context) (locker.Lease, error) {
		return lease, c.locker.Release(ctx, lease)
	})
	return err
}

func (c *client) fence(lease locker.Lease) {
	_, _ = c.record(c.ctx, fenced, lease, func(ctx context.Context) (locker.Lease, error) {
		token, err := c.locker.FenceToken(ctx, lease)
		if err == nil && token != lease.Token {
			c.w.broke("fence: the lease with the token %d has the token %d", lease.Token, token)
		}
		return lease, err
	})
}

func (c *client) raise(key string, floor locker.Token) {
	_, _ = c.record(c.ctx, raised, locker.Lease{Key: key, Token: floor}, func(ctx context.Context) (locker.Lease, error) {
		return locker.Lease{}, c.core.Raise(ctx, key, floor)
	})
}

// agreed says whether the clocks of most nodes agree so well that they accept tokens from
// each other's time, and the client's with them; or it is so wrong that the client
// hears of it.
func (c *client) agreed() bool {
	if c.w.assumes == untimed {
		return false
	}
	for _, n := range c.w.nodes {
		most := 0
		for _, other := range c.w.nodes {
			if d := time.Duration(n.now()-other.now()) * time.Microsecond; d.Abs() <= 2*time.Second {
				most++
			}
		}
		if most >= majority(len(c.w.nodes)) {
			apart := c.core.tokens.Clock().Sub(time.UnixMicro(n.now())).Abs()
			return apart < 4*time.Second || apart > 15*time.Second
		}
	}
	return false
}

// finish takes a lock when all is quiet. The first try may find that connections broke.
func (c *client) finish(key string) {
	var err error
	for range 3 {
		var lease locker.Lease
		if lease, err = c.acquire(c.ctx, key, c.w.maxTTL); err == nil {
			if err = c.release(lease); err != nil {
				c.w.broke("progress: release by client %d, when all is quiet: %v", c.id, err)
			}
			return
		}
		time.Sleep(c.w.maxTTL + latest)
	}
	c.w.broke("progress: client %d cannot take %s although all is quiet: %v", c.id, key, err)
}
