package redlock

import (
	"strings"
	"testing"
	"time"

	"github.com/locker-go/locker"
	"github.com/locker-go/locker/internal/redisnode"
)

// plain returns a world of three nodes that keep all on their disks, and three clients,
// where nothing goes wrong by itself.
func plain(a assumptions) *world {
	p := &plan{
		assumes: a, maxTTL: 5 * time.Second, requestTimeout: 50 * time.Millisecond, retention: time.Hour,
		keys: []string{"a"}, horizon: 10 * time.Second,
	}
	for range 3 {
		p.nodes = append(p.nodes, nodePlan{rate: 1, age: time.Hour, onDisk: true, far: time.Millisecond})
		p.clients = append(p.clients, clientPlan{cuts: make([][]span, 3)})
	}
	return &world{plan: p}
}

// must fails the world if a call did.
func (w *world) must(what string, err error) {
	if err != nil {
		w.broke("%s: %v", what, err)
	}
}

// take has a client take the lock.
func (w *world) take(client int, ttl time.Duration) locker.Lease {
	lease, err := w.clients[client].acquire(w.clients[client].ctx, "a", ttl)
	w.must("acquire", err)
	return lease
}

// fails has a client try for the lock in vain.
func (w *world) fails(client int, ttl time.Duration) error {
	_, err := w.clients[client].acquire(w.clients[client].ctx, "a", ttl)
	if err == nil {
		w.broke("the client %d got the lock", client)
	}
	return err
}

// until waits until a time of the world.
func (w *world) until(at time.Duration) { time.Sleep(at - w.since()) }

// happens has something happen to a node.
func (w *world) happens(node int, e event) { w.nodes[node].suffer(e) }

// What the simulation found, each as the shortest way to it.
func TestSimulationCases(t *testing.T) {
	for _, tt := range []struct {
		name    string
		assumes assumptions
		change  func(p *plan)
		meddle  func(p *peer, o op, count int, f *fate)
		live    func(w *world)
	}{
		{
			// A renewal that came late set its shorter TTL where a longer one had been answered.
			name: "a late renewal does not end a longer one",
			meddle: func(p *peer, o op, count int, f *fate) {
				if o == opRenew && count == 0 {
					f.there = 150 * time.Millisecond
				}
			},
			live: func(w *world) {
				lease := w.take(0, 200*time.Millisecond)
				if _, err := w.clients[0].renew(lease, 20*time.Millisecond); err == nil {
					w.broke("a renewal without any reply succeeded")
				}
				_, err := w.clients[0].renew(lease, time.Second)
				w.must("renew", err)
				w.until(300 * time.Millisecond)
				w.fails(1, time.Second)
			},
		},
		{
			// The vote was undone when no reply came, though the grant had been won by the others,
			// and meanwhile renewed there in place of one of them.
			name: "a vote without a reply is not taken back from a grant that was won",
			meddle: func(p *peer, o op, count int, f *fate) {
				f.silent = p.client.id == 0 && p.node.id == 2 && o == opVote
				f.lost = p.client.id == 0 && p.node.id == 0 && o == opRenew
			},
			live: func(w *world) {
				lease := w.take(0, 100*time.Millisecond)
				_, err := w.clients[0].renew(lease, time.Second)
				w.must("renew", err)
				w.until(200 * time.Millisecond)
				w.fails(1, time.Second)
			},
		},
		{
			name: "a vote that is asked for late does not take the lock when the grant is over",
			meddle: func(p *peer, o op, count int, f *fate) {
				if p.node.id == 2 && o == opVote {
					f.there = 500 * time.Millisecond
				}
			},
			live: func(w *world) {
				lease := w.take(0, 100*time.Millisecond)
				w.until(600 * time.Millisecond)
				n := w.nodes[2]
				n.mu.Lock()
				defer n.mu.Unlock()
				if n.holds(grantOf(lease, redisnode.KeysOf("locker", "a"))) {
					w.broke("a node has a grant that is over")
				}
			},
		},
		{
			// The error told of a holder, which was the same call's first attempt.
			name: "an acquire that could not undo its attempt says so, also after another attempt",
			meddle: func(p *peer, o op, count int, f *fate) {
				f.silent = p.client.id == 0 && p.node.id == 1 && o == opVote && count == 0
				f.lost = o == opUndo
			},
			live: func(w *world) {
				w.must("release", w.clients[1].release(w.take(1, time.Second)))
				n := w.nodes[2]
				n.mu.Lock()
				n.setLock(redisnode.KeysOf("locker", "a"), modelValue{"h.1.other", n.clock()}, 5000)
				n.mu.Unlock()
				if err := w.fails(0, 5*time.Second); !strings.Contains(err.Error(), "may have been taken all the same") {
					w.broke("acquire: %v", err)
				}
			},
		},
		{
			// A node whose clock is more than the retention ahead of a token that it voted for
			// forgets the fence. A message of an older grant made a lower one, and that let tokens
			// just above it in.
			name: "a message that comes late makes no low fence where a higher one has expired",
			change: func(p *plan) {
				p.nodes[2].offset = time.Hour + 2*time.Minute
				p.clients[1].offset = -300 * time.Millisecond
			},
			meddle: func(p *peer, o op, count int, f *fate) {
				f.lost = p.client.id == 0 && p.node.id == 1 && (o == opVote && count == 1 || o == opRaise || o == opUndo)
				if p.node.id == 2 && o == opDrop {
					f.again = 300 * time.Millisecond
				}
			},
			live: func(w *world) {
				w.must("release", w.clients[0].release(w.take(0, time.Second)))
				w.until(200 * time.Millisecond)
				_, _ = w.clients[0].acquire(w.clients[0].ctx, "a", 100*time.Millisecond)
				w.until(350 * time.Millisecond)
				_, _ = w.clients[1].acquire(w.clients[1].ctx, "a", 100*time.Millisecond)
			},
		},
		{
			// What the process before it had on its disk was taken for what it started from.
			name:    "a node that starts from a snapshot does not vote, whatever the process before it had on its disk",
			assumes: forgets,
			live: func(w *world) {
				w.must("release", w.clients[0].release(w.take(0, time.Second)))
				for i := range 2 {
					w.happens(i, event{kind: save})
				}
				w.take(0, 5*time.Second)
				for i := range 2 {
					w.happens(i, event{kind: restart, how: withSnapshot, lasts: time.Millisecond})
				}
				w.until(100 * time.Millisecond)
				w.fails(1, time.Second)
			},
		},
		{
			// It marked a node that had been flushed since as one that had never voted.
			name:    "a declaration of the first use that comes late is not believed",
			assumes: forgets,
			meddle: func(p *peer, o op, count int, f *fate) {
				if p.client.id == 1 && p.node.id < 2 && o == opMark {
					f.there = 2 * time.Second
				}
			},
			live: func(w *world) {
				go func() { _ = w.clients[1].core.FirstUse(w.clients[1].ctx) }()
				w.until(10 * time.Millisecond)
				w.must("first use", w.clients[0].core.FirstUse(w.clients[0].ctx))
				w.take(0, 5*time.Second)
				w.until(time.Second)
				for i := range 2 {
					w.happens(i, event{kind: flush})
				}
				w.until(2500 * time.Millisecond)
				w.fails(2, time.Second)
			},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := plain(tt.assumes)
			w.meddle = tt.meddle
			if tt.change != nil {
				tt.change(w.plan)
			}
			w.log = new(strings.Builder)
			if err := w.run(t, func() { tt.live(w) }); err != nil {
				t.Errorf("%v\n%s", err, w.log)
			}
		})
	}
}
