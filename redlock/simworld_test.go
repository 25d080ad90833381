package redlock

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/locker-go/locker/internal/redisnode"
)

// variant is what the clients and nodes of a world run.
type variant int

const (
	genuine     variant = iota
	counting            // tokens are the highest of counters of the nodes that answered first
	unfenced            // nodes do not compare tokens with the fence
	unprotected         // a node that lost its data votes at once
)

// epoch is the true time when a world begins: tokens have 16 digits only since 2001,
// and a bubble begins before.
var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// latest is how late a message may come, after it was sent or the network healed.
const latest = 20 * time.Second

// world is a run of a plan, in a bubble.
type world struct {
	*plan
	variant variant
	begun   time.Time
	nodes   []*worldNode
	clients []*client
	log     *strings.Builder                        // nil: nobody reads it
	meddle  func(p *peer, o op, count int, f *fate) // changes what happens to messages; may be nil
	calm    atomic.Bool                             // nothing goes wrong any more

	mu      sync.Mutex
	taken   map[time.Duration]bool // times at which something is to happen
	history []*call
	places  int
	broken  []string // what was seen to be wrong while it ran
}

// worldNode is a node with what happens to it.
type worldNode struct {
	mu sync.Mutex
	*modelNode
	plan      nodePlan
	w         *world
	id        int
	up        bool
	processes int
	set       time.Duration       // how far its clock was set in all
	stalled   time.Duration       // until when it does nothing
	snapshot  modelData           // what it saved last
	over      map[modelValue]op   // grants that were undone or dropped here
	repeats   bool                // a request that it has carried out is carried out again
	repeated  map[modelValue]bool // grants that it has by such a request
}

// simulate runs the world of a seed. It returns an error that tells what broke in it.
func simulate(t *testing.T, seed uint64, v variant, log *strings.Builder) (*world, error) {
	w := &world{plan: draw(seed), variant: v, log: log}
	return w, w.run(t, w.live)
}

// run runs a world, in which the clients live as said, and returns what broke.
func (w *world) run(t *testing.T, live func()) error {
	synctest.Test(t, func(*testing.T) {
		w.begin()
		live()
		w.end()
	})
	return w.check()
}

// since returns the true time since the world began.
func (w *world) since() time.Duration { return time.Since(w.begun) }

// alone returns a duration that ends at about d from now, when nothing else does: what
// happens at one time would happen in the order in which goroutines run.
func (w *world) alone(d time.Duration) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.since()
	at := now + d
	for w.taken[at] {
		at++
	}
	w.taken[at] = true
	return at - now
}

func (w *world) logf(format string, args ...any) {
	if w.log == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	fmt.Fprintf(w.log, "%12s  %s\n", w.since(), fmt.Sprintf(format, args...))
}

// broke takes down what must not be.
func (w *world) broke(format string, args ...any) {
	w.logf("BROKEN: "+format, args...)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.broken = append(w.broken, fmt.Sprintf(format, args...))
}

func (w *world) begin() {
	w.begun, w.taken = time.Now(), make(map[time.Duration]bool)
	for i, p := range w.plan.nodes {
		n := &worldNode{plan: p, w: w, id: i, over: make(map[modelValue]op), repeated: make(map[modelValue]bool), snapshot: newModelData()}
		n.modelNode = &modelNode{
			clock:     n.now,
			keep:      max(w.retention, 0).Milliseconds(),
			unfenced:  w.variant == unfenced,
			forgetful: w.variant == unprotected,
		}
		n.run(newModelData(), p.onDisk, true)
		n.started -= int64(p.age.Seconds())
		if n.saved = n.started; p.used {
			n.wrote()
		}
		w.nodes = append(w.nodes, n)
	}
	for i, p := range w.plan.clients {
		w.clients = append(w.clients, newClient(w, i, p))
	}
	for _, e := range w.events {
		time.AfterFunc(w.alone(e.at), func() { w.nodes[e.node].suffer(e) })
	}
}

// live has the clients work, with all that the plan has in store.
func (w *world) live() {
	var all sync.WaitGroup
	for _, c := range w.clients {
		all.Go(func() {
			if c.id < w.firstly && c.core != nil {
				_ = c.core.FirstUse(c.ctx) // else they wait
			}
			var workers sync.WaitGroup
			for i := range c.plan.workers {
				workers.Go(newWorker(c, i).work)
			}
			workers.Wait()
		})
	}
	all.Wait()
}

// end waits until everything is over and the nodes vote, and then has every client
// take each lock once: nothing may be left that stops them.
func (w *world) end() {
	w.logf("calm")
	w.calm.Store(true)
	time.Sleep(2*latest + 3*w.horizon + 2*w.maxTTL + 3*time.Second)
	for _, c := range w.clients {
		for _, key := range w.keys {
			if w.variant == genuine && w.seed%2 == 0 && c.agreed() {
				c.finish(key)
			}
		}
	}
	for _, c := range w.clients {
		c.close()
	}
	time.Sleep(latest) // until no message is under way
}

// now returns the time by the node's clock, in us since 1970.
func (n *worldNode) now() int64 {
	ran := time.Duration(float64(n.w.since()) * n.plan.rate)
	return epoch.Add(ran + n.plan.offset + n.set).UnixMicro()
}

// run starts a process of the node.
func (n *worldNode) run(data modelData, onDisk, newLog bool) {
	n.processes++
	n.modelNode.start(fmt.Sprintf("node%d.%d", n.id, n.processes), data, onDisk, newLog)
	n.up = true
}

// suffer does to the node what was planned.
func (n *worldNode) suffer(e event) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.up {
		return
	}
	n.w.logf("node %d: %s", n.id, e)
	switch e.kind {
	case stall:
		n.stalled = max(n.stalled, n.w.since()+e.lasts)
	case flush:
		n.flush()
		n.forget()
	case save:
		n.snapshot = n.save()
	case set:
		n.set += e.by
	case restart:
		n.up, n.stalled = false, 0
		data, logged := n.restored(e), n.onDisk && e.onDisk && e.how != withNothing
		time.AfterFunc(n.w.alone(e.lasts), func() {
			n.mu.Lock()
			defer n.mu.Unlock()
			n.run(data.clone(), e.onDisk, !logged)
			n.w.logf("node %d: runs as %s with %d locks, marker %+v, on disk %t", n.id, n.modelNode.run, len(data.locks), data.marker, e.onDisk)
		})
	}
}

// ended takes down that a grant is undone or dropped. That has no effect on the fence if the
// token is too far ahead of the node's clock.
func (n *worldNode) ended(g redisnode.Grant, by op) {
	f, _ := n.fence(g.Keys)
	if v := valueOf(g); !n.tooFar(v.token+1, f.token) {
		n.over[v] = max(n.over[v], by)
	}
}

// back is told of a grant that a request of a peer has just put on the node. What was undone, no
// vote may take, and what was dropped, no fill either.
func (n *worldNode) back(p *peer, by op, g redisnode.Grant) {
	if how := n.over[valueOf(g)]; how == opDrop || how == opUndo && by == opVote {
		n.w.broke("clean-up: node %d has the grant %d of client %d again by a late %s, after its %s", n.id, g.Token, p.client.id, by, how)
	}
}

// forget says that data are lost. With the fences go what stops a late fill.
func (n *worldNode) forget() {
	for v := range n.over {
		n.over[v] = opUndo
	}
}

// restored returns the data that a node has when it is started again. In worlds that
// do not forget it always has all.
func (n *worldNode) restored(e event) modelData {
	if n.w.assumes != forgets || n.onDisk && e.onDisk && e.how != withNothing {
		return n.data
	}
	if e.how == withData && !e.onDisk { // it was shut down in order, and saved
		n.snapshot = n.data
		return n.data
	}
	n.forget()
	switch {
	case e.how == withNothing:
		n.snapshot = newModelData()
	case e.onDisk: // it goes by its log alone, which is new
		return newModelData()
	}
	return n.snapshot
}

// carry has the node carry out a request that came over a connection to a process,
// unless that is no more.
func (n *worldNode) carry(run string, request func(*worldNode) any) (any, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.up || n.modelNode.run != run {
		return nil, false
	}
	return request(n), true
}

// stall returns for how long the node does nothing yet.
func (n *worldNode) stall() time.Duration {
	n.mu.Lock()
	defer n.mu.Unlock()
	return max(n.stalled-n.w.since(), 0)
}

// process returns the process that runs, if one does.
func (n *worldNode) process() (string, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.modelNode.run, n.up
}
