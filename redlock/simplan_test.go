package redlock

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"
)

// assumptions say what a world keeps to, and so what must hold in it.
type assumptions int

const (
	// sound: clocks run at the same rate within 1 %, none is set, nodes keep their
	// data. What the clocks show does not matter. Everything must hold.
	sound assumptions = iota

	// forgets: nodes lose data, and the clocks of nodes and clients agree within seconds,
	// those of clients exactly, as only they keep tokens in order then. Everything
	// must hold.
	forgets

	// untimed: a node's clock is set or runs at another rate. Two may hold the lock,
	// but tokens must rise, and none is renewed after its successor was granted.
	untimed
)

func (a assumptions) String() string { return [...]string{"sound", "forgets", "untimed"}[a] }

// How a node comes back when it is started again.
const (
	withData     = iota // its disk had all that it answered for
	withSnapshot        // with what it had when it last saved
	withNothing
)

// event is what happens to a node at a time.
type event struct {
	at   time.Duration
	node int
	kind eventKind

	lasts  time.Duration // stall, restart
	how    int           // restart
	onDisk bool          // restart: of the new process
	by     time.Duration // set
}

type eventKind int

const (
	stall   eventKind = iota // it does nothing for a while, as when stopped
	restart                  // it is down for a while
	flush                    // it loses its data, and its connections stay
	save                     // of its data, for a restart with a snapshot
	set                      // of its clock, by so much
)

func (e event) String() string {
	name := [...]string{"stall", "restart", "flush", "save", "set"}[e.kind]
	return fmt.Sprintf("%s for %s, how %d, on disk %t, by %s", name, e.lasts, e.how, e.onDisk, e.by)
}

// span is a time in which something is so.
type span struct{ from, to time.Duration }

func (s span) has(at time.Duration) bool { return s.from <= at && at < s.to }

// plan is a world as drawn from its seed, before it runs.
type plan struct {
	seed    uint64
	assumes assumptions

	maxTTL, requestTimeout time.Duration
	retention              time.Duration
	keys                   []string
	horizon                time.Duration // clients begin nothing after it

	nodes   []nodePlan
	clients []clientPlan
	events  []event
	firstly int // how many clients declare the first use

	// How often messages have a fate.
	slow, late, lost, twice, reset, raise float64
}

type nodePlan struct {
	offset time.Duration // of its clock
	rate   float64       // likewise
	age    time.Duration // of its process at the beginning
	used   bool          // for something else before
	onDisk bool
	far    time.Duration // typical delay of a message
}

type clientPlan struct {
	offset  time.Duration // of the clock that its tokens are proposed by
	workers int
	pauses  []span
	cuts    [][]span // of the network, by node
}

// draw returns the plan of a seed.
func draw(seed uint64) *plan {
	r := roll(seed, 0)
	p := &plan{seed: seed, assumes: sound, retention: time.Hour, keys: []string{"a"}}
	if r.chance(0.5) {
		p.assumes = forgets
	} else if r.chance(0.4) {
		p.assumes = untimed
	}
	p.maxTTL = r.log(80*time.Millisecond, 3*time.Second)
	p.requestTimeout = r.log(minRequestTimeout, max(p.maxTTL/2, 20*time.Millisecond))
	p.horizon = time.Duration(float64(p.maxTTL) * (3 + 5*r.Float64()))
	if p.assumes == forgets && r.chance(0.2) {
		p.horizon += 3 * time.Second // a node that was started without data waits for two seconds more
	}
	if r.chance(0.2) {
		p.keys = []string{"a", "b"}
	}
	if r.chance(0.2) {
		p.retention = -1
	}
	if r.chance(0.3) {
		p.firstly = 1 + r.IntN(4)
	}
	for _, f := range []*float64{&p.slow, &p.late, &p.lost, &p.twice, &p.reset} {
		if r.chance(0.6) {
			*f = 0.2 * r.Float64() * r.Float64()
		}
	}
	if p.assumes != forgets && r.chance(0.2) {
		p.raise = 0.1
	}
	p.drawNodes(r)
	p.drawClients(r)
	p.drawEvents(r)
	return p
}

// offset returns how far a clock is from the true time.
func (p *plan) offset(r dice) time.Duration {
	switch {
	case p.assumes == forgets || r.chance(0.5):
		return r.around(2 * time.Second)
	case r.chance(0.5):
		return r.around(30 * time.Second)
	default:
		return r.around(2 * time.Hour)
	}
}

func (p *plan) drawNodes(r dice) {
	agree := r.chance(0.8) // most clocks agree, or no lock can be taken
	count := []int{3, 3, 3, 3, 3, 3, 5, 5, 5, 7}[r.IntN(10)]
	onDisk := r.chance(0.6)
	for i := range count {
		n := nodePlan{
			rate:   1 + 0.02*(r.Float64()-0.5),
			offset: p.offset(r),
			age:    time.Hour,
			used:   r.chance(0.1),
			onDisk: onDisk != r.chance(0.2),
			far:    r.log(50*time.Microsecond, 2*time.Millisecond),
		}
		if agree && i <= count/2 {
			n.offset = r.around(2 * time.Second)
		}
		if r.chance(0.2) {
			n.age = r.below(3 * time.Second)
		}
		if p.assumes == untimed && r.chance(0.3) {
			n.rate = math.Exp(2 * (r.Float64() - 0.5))
		}
		p.nodes = append(p.nodes, n)
	}
}

func (p *plan) drawClients(r dice) {
	for range 2 + r.IntN(3) {
		c := clientPlan{workers: 1, cuts: make([][]span, len(p.nodes))}
		if r.chance(0.2) {
			c.workers = 2
		}
		if p.assumes != forgets {
			c.offset = p.offset(r)
		}
		for r.chance(0.4) {
			c.pauses = append(c.pauses, r.span(p.horizon, 3*p.maxTTL))
		}
		for i := range c.cuts {
			for r.chance(0.1) {
				c.cuts[i] = append(c.cuts[i], r.span(p.horizon, 2*p.maxTTL))
			}
		}
		p.clients = append(p.clients, c)
	}
}

func (p *plan) drawEvents(r dice) {
	kinds, how := []eventKind{stall, restart}, r.IntN(3)
	switch p.assumes {
	case forgets:
		// Most often one kind of loss, so that a world has many of it.
		kinds = [][]eventKind{{restart}, {flush}, {stall, restart, flush, save}}[r.IntN(3)]
		if how == withSnapshot {
			for i := range p.nodes {
				p.nodes[i].onDisk = p.nodes[i].onDisk && r.chance(0.2)
				for r.chance(0.7) {
					p.events = append(p.events, p.event(r, i, save, r.below(p.horizon), 0))
				}
			}
		}
	case untimed:
		kinds = []eventKind{stall, restart, set, set, set}
	}
	for r.chance(0.75) {
		at, node := r.below(p.horizon), r.IntN(len(p.nodes))
		count, within := 1, time.Duration(1)
		if r.chance(0.7) { // several nodes, one soon after the other; or one several times
			count, within = 1+r.IntN(len(p.nodes)), r.log(time.Millisecond, p.maxTTL/2)
		}
		kind, same := kinds[r.IntN(len(kinds))], r.chance(0.2)
		for range count {
			p.events = append(p.events, p.event(r, node, kind, at+r.below(within), how))
			if !same {
				node = (node + 1) % len(p.nodes)
			}
		}
	}
	slices.SortStableFunc(p.events, func(a, b event) int { return int(a.at - b.at) })
}

func (p *plan) event(r dice, node int, kind eventKind, at time.Duration, how int) event {
	e := event{at: at, node: node, kind: kind}
	switch kind {
	case stall:
		e.lasts = r.log(time.Millisecond, 2*p.maxTTL)
	case restart:
		e.lasts = r.log(100*time.Microsecond, p.maxTTL/4)
		e.onDisk = p.nodes[node].onDisk != r.chance(0.2)
		if e.how = how; r.chance(0.2) {
			e.how = r.IntN(3)
		}
	case set:
		e.by = r.log(time.Millisecond, 30*time.Minute)
		if r.chance(0.3) {
			e.by = -e.by
		}
	}
	return e
}

// dice draw what a world is made of.
type dice struct{ *rand.Rand }

// roll returns dice of a seed for one purpose.
func roll(seed, purpose uint64) dice {
	// The finalizer of SplitMix64: purposes that are much alike get dice that are not.
	purpose += 0x9E3779B97F4A7C15
	purpose = (purpose ^ purpose>>30) * 0xBF58476D1CE4E5B9
	purpose = (purpose ^ purpose>>27) * 0x94D049BB133111EB
	return dice{rand.New(rand.NewPCG(seed, purpose^purpose>>31))}
}

func (r dice) chance(p float64) bool { return r.Float64() < p }

func (r dice) below(d time.Duration) time.Duration { return time.Duration(r.Int64N(int64(d))) }

func (r dice) around(d time.Duration) time.Duration { return r.below(2*d) - d }

// log draws from lo to hi, each order of magnitude as often.
func (r dice) log(lo, hi time.Duration) time.Duration {
	return time.Duration(float64(lo) * math.Pow(float64(hi)/float64(lo), r.Float64()))
}

// span draws a time within the horizon, which may be as long as most.
func (r dice) span(horizon, most time.Duration) span {
	from := r.below(horizon)
	return span{from, from + r.log(time.Millisecond, most)}
}
