package redlock

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/locker-go/locker"
	"github.com/locker-go/locker/internal/redisnode"
)

// peer is a node as a client reaches it, over a pool of connections. It fails as
// go-redis with the options of Locker.connect does: a request goes out once, over a
// connection that carries nothing else until its reply is there; after an error the
// connection is given up. What TCP allows is what may happen to a request: it is
// carried out at most once, unless a proxy sends it twice, perhaps long after
// the client gave it up, but only by the process that the connection led to.
type peer struct {
	w      *world
	node   *worldNode
	client *client
	member *member

	mu     sync.Mutex
	idle   int    // connections that are free
	leads  string // the process that they lead to
	counts [ops]int
}

var _ node = (*peer)(nil)

// op is a kind of message.
type op int

const (
	opLook op = iota
	opConfig
	opMark
	opVote
	opUndo
	opRenew
	opFill
	opDrop
	opHolds
	opInspect
	opBreak
	opRaise
	opCount
	ops
)

func (o op) String() string {
	return [...]string{"look", "config", "mark", "vote", "undo", "renew", "fill", "drop", "holds", "inspect", "break", "raise", "count"}[o]
}

// fate is what happens to a message. It depends on the seed, the client, the node, the kind
// of message, and how many of those there have been, and on nothing that the order in which
// goroutines run could change.
type fate struct {
	connect, told time.Duration // to the node and back, to connect
	there, back   time.Duration // of the request and its reply
	again         time.Duration // when it is carried out a second time; 0: it is not
	reset         time.Duration // when the connection breaks, which the request survives; 0: it does not
	lost, silent  bool          // the request, or its reply, is lost
	unnoticed     bool          // that an idle connection is broken
	spread        time.Duration // how much later than others it goes on when what held all up is over
	limit         time.Duration // how much later than at the limit its end is noticed
	held          bool          // where the network is cut, until it is whole again
}

// fate draws what happens to the next message of a kind.
func (p *peer) fate(o op) fate {
	p.mu.Lock()
	count := p.counts[o]
	p.counts[o]++
	p.mu.Unlock()
	w := p.w
	r := roll(w.seed, uint64(1+p.client.id)<<56|uint64(p.node.id)<<48|uint64(o)<<40|uint64(count))
	far := p.node.plan.far
	delay := func() time.Duration {
		d := far/2 + r.below(far)
		switch {
		case w.calm.Load():
		case r.chance(w.slow):
			d += r.log(time.Millisecond, 2*w.requestTimeout)
		case r.chance(w.late):
			d += r.log(time.Millisecond, latest)
		}
		return d
	}
	f := fate{connect: delay(), told: delay(), there: delay(), back: delay(), spread: r.below(time.Millisecond), limit: r.below(w.requestTimeout / 10), held: r.chance(0.5), unnoticed: r.chance(0.1)}
	if w.calm.Load() {
		return f
	}
	if w.meddle != nil {
		w.meddle(p, o, count, &f)
		return f
	}
	f.lost, f.silent = r.chance(w.lost), r.chance(w.lost)
	if r.chance(w.twice) {
		f.again = r.log(time.Microsecond, latest)
	}
	if r.chance(w.reset) {
		f.reset = f.there/2 + r.below(f.there+f.back)
	}
	return f
}

// request has the node carry out a request, and returns the reply.
func (p *peer) request(ctx context.Context, o op, do func(*worldNode) any) (any, error) {
	f := p.fate(o)
	p.client.awake(f.spread)
	deadline := p.w.since() + p.w.requestTimeout + f.limit
	run, err := p.connection(f, deadline)
	if err == nil {
		var reply any
		if reply, err = p.send(o, run, f, deadline, do); err == nil {
			p.client.awake(f.spread)
			p.free(run)
			p.logf(o, reply)
			return reply, nil
		}
	}
	p.client.awake(f.spread)
	p.logf(o, err)
	return nil, redisnode.Unavailable(ctx, err)
}

// connection returns the process that a connection leads to, which is a free one or new.
func (p *peer) connection(f fate, deadline time.Duration) (run string, err error) {
	process, up := p.node.process()
	p.mu.Lock()
	if up = up && p.leads == process; p.idle > 0 && (up || f.unnoticed) {
		p.idle--
		run = p.leads
	} else if !up {
		p.idle = 0
	}
	p.mu.Unlock()
	if run != "" {
		return run, nil
	}
	if p.cut() || p.w.since()+f.connect >= deadline {
		p.until(deadline)
		return "", &net.OpError{Op: "dial", Net: "tcp", Err: context.DeadlineExceeded}
	}
	p.sleep(f.connect)
	for s := p.node.stall(); s > 0; s = p.node.stall() {
		if p.w.since()+s >= deadline {
			return "", p.silence(deadline)
		}
		p.sleep(s + f.spread)
	}
	run, up = p.node.process()
	if p.cut() || p.w.since()+f.told >= deadline {
		return "", p.silence(deadline)
	}
	p.sleep(f.told)
	if !up {
		return "", &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("connection refused")}
	}
	p.client.awake(f.spread)
	return run, p.member.connected(run)
}

// free takes a connection back.
func (p *peer) free(run string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.leads != run {
		p.leads, p.idle = run, 0
	}
	p.idle++
}

// send sends a request over a connection to a process.
func (p *peer) send(o op, run string, f fate, deadline time.Duration, do func(*worldNode) any) (any, error) {
	later := func(d time.Duration, do func(*worldNode) any) {
		time.AfterFunc(p.w.alone(d), func() {
			if s := p.node.stall(); s > 0 {
				time.Sleep(p.w.alone(s + f.spread))
			}
			if reply, done := p.node.carry(run, do); done {
				p.logf(o, "late or again", reply)
			}
		})
	}
	if f.again > 0 {
		later(f.there+f.again, func(n *worldNode) any {
			n.repeats = true
			defer func() { n.repeats = false }()
			return do(n)
		})
	}
	switch cut := p.cut(); {
	case cut && f.held: // it is sent on when the network is whole again
		later(p.healed()+f.spread, do)
		return nil, p.silence(deadline)
	case cut || f.lost:
		return nil, p.silence(deadline)
	case f.reset > 0:
		later(f.there, do)
		p.sleep(f.reset)
		return nil, io.EOF
	case p.w.since()+f.there >= deadline:
		later(f.there, do)
		return nil, p.silence(deadline)
	}
	p.sleep(f.there)
	for s := p.node.stall(); s > 0; s = p.node.stall() {
		if p.w.since()+s >= deadline {
			later(s, do)
			return nil, p.silence(deadline)
		}
		p.sleep(s + f.spread)
	}
	reply, done := p.node.carry(run, do)
	if f.silent || p.cut() || p.w.since()+f.back >= deadline {
		return nil, p.silence(deadline)
	}
	p.sleep(f.back)
	if !done {
		return nil, io.EOF
	}
	return reply, nil
}

func (p *peer) sleep(d time.Duration) { time.Sleep(p.w.alone(d)) }

func (p *peer) until(at time.Duration) { p.sleep(at - p.w.since()) }

// silence waits for a reply that does not come in time.
func (p *peer) silence(deadline time.Duration) error {
	p.until(deadline)
	return fmt.Errorf("no answer within %s: %w", p.w.requestTimeout, context.DeadlineExceeded)
}

// cut says whether the network between the two is.
func (p *peer) cut() bool { return p.healed() > 0 }

// healed returns in how long the network is whole again.
func (p *peer) healed() time.Duration {
	now := p.w.since()
	for _, s := range p.client.plan.cuts[p.node.id] {
		if s.has(now) && !p.w.calm.Load() {
			return s.to - now
		}
	}
	return 0
}

// ask sends a request, of which the reply is a T.
func askPeer[T any](p *peer, ctx context.Context, o op, do func(*worldNode) T) (T, error) {
	reply, err := p.request(ctx, o, func(n *worldNode) any { return do(n) })
	if err != nil {
		var none T
		return none, err
	}
	return reply.(T), nil
}

func (p *peer) Look(ctx context.Context, _ string) (redisnode.Identity, error) {
	return askPeer(p, ctx, opLook, func(n *worldNode) redisnode.Identity { return n.mark("", "", time.Time{}) })
}

func (p *peer) Mark(ctx context.Context, _, membership string, looked redisnode.Identity, first time.Time) (redisnode.Identity, error) {
	onDisk := ""
	if yes, _ := askPeer(p, ctx, opConfig, func(n *worldNode) bool { return n.onDisk }); yes {
		onDisk = looked.Run
	}
	return askPeer(p, ctx, opMark, func(n *worldNode) redisnode.Identity { return n.mark(membership, onDisk, first) })
}

func (p *peer) Vote(ctx context.Context, g redisnode.Grant, ttl time.Duration, m redisnode.Marker) (redisnode.Answer, error) {
	p.w.attempted(ctx, g)
	return askPeer(p, ctx, opVote, func(n *worldNode) redisnode.Answer {
		held := n.holds(g)
		a := n.vote(g, ttl, m)
		if a.Status == redisnode.Granted && !held {
			n.repeated[valueOf(g)] = n.repeats
			n.back(p, opVote, g)
		}
		return a
	})
}

func (p *peer) Undo(ctx context.Context, g redisnode.Grant) error {
	_, err := askPeer(p, ctx, opUndo, func(n *worldNode) bool { n.ended(g, opUndo); n.undo(g); return true })
	return err
}

func (p *peer) Renew(ctx context.Context, g redisnode.Grant, ttl time.Duration) (redisnode.Answer, error) {
	return askPeer(p, ctx, opRenew, func(n *worldNode) redisnode.Answer { return n.renew(g, ttl) })
}

func (p *peer) Fill(ctx context.Context, g redisnode.Grant, free redisnode.Answer, until time.Time) (bool, error) {
	return askPeer(p, ctx, opFill, func(n *worldNode) bool {
		filled := n.fill(g, free, until)
		if filled {
			n.back(p, opFill, g)
		}
		return filled
	})
}

func (p *peer) Drop(ctx context.Context, g redisnode.Grant, _ bool) (bool, int, error) {
	released, err := askPeer(p, ctx, opDrop, func(n *worldNode) bool { n.ended(g, opDrop); return n.drop(g) })
	return released, 0, err
}

func (p *peer) Holds(ctx context.Context, g redisnode.Grant) (bool, error) {
	return askPeer(p, ctx, opHolds, func(n *worldNode) bool { return n.holds(g) })
}

func (p *peer) Inspect(ctx context.Context, k redisnode.Keys) (locker.Holding, bool, error) {
	type found struct {
		locker.Holding
		held bool
	}
	f, err := askPeer(p, ctx, opInspect, func(n *worldNode) found { h, held := n.inspect(k); return found{h, held} })
	return f.Holding, f.held, err
}

func (p *peer) Break(ctx context.Context, k redisnode.Keys, seen locker.Holding) (bool, error) {
	return askPeer(p, ctx, opBreak, func(n *worldNode) bool { return n.breakUp(k, seen) })
}

func (p *peer) Raise(ctx context.Context, k redisnode.Keys, floor locker.Token) (redisnode.Answer, error) {
	return askPeer(p, ctx, opRaise, func(n *worldNode) redisnode.Answer { return n.raise(k, floor) })
}

// logf tells of a message, if anybody reads it.
func (p *peer) logf(o op, what ...any) {
	if p.w.log == nil {
		return
	}
	texts := make([]string, len(what))
	for i, w := range what {
		texts[i] = told(w)
	}
	p.w.logf("client %d node %d: %s: %s", p.client.id, p.node.id, o, strings.Join(texts, ": "))
}

// told returns a reply for the log.
func told(reply any) string {
	switch r := reply.(type) {
	case redisnode.Answer:
		s := [...]string{"granted", "held", "stale", "ahead", "unmarked", "quarantined", "free"}[r.Status]
		switch r.Status {
		case redisnode.Granted:
			return fmt.Sprintf("%s for %s", s, r.Kept)
		case redisnode.Held:
			return fmt.Sprintf("%s with token %d for %s", s, r.Holder.Token, r.Holder.Remaining)
		default:
			return fmt.Sprintf("%s, fence %d, time %d", s, r.Fence, r.Time.UnixMicro())
		}
	case redisnode.Identity:
		return fmt.Sprintf("runs as %s, time %d, marker of %s since %d (%s)", r.Run, r.Time.UnixMicro(), r.Marker.Run, r.Marker.Since.UnixMicro(), r.Marker.Reason)
	default:
		return fmt.Sprint(reply)
	}
}
