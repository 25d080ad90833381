package redlock

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"github.com/locker-go/locker"
	"github.com/locker-go/locker/internal/redisnode"
	"github.com/locker-go/locker/internal/testbed"
)

// slack is how far times on a server and on its model may be apart. What the test draws is
// further apart, so that no slow machine changes an answer.
const slack = 4 * time.Second

// The simulation speaks of the real thing: a model node and a Redis server, asked the same, answer
// and keep the same.
func TestModelNode(t *testing.T) {
	t.Parallel()
	servers := []*testbed.Server{
		testbed.Redis(t, "--appendonly", "yes", "--appendfsync", "always"),
		testbed.Redis(t),
	}
	started := time.Now()
	rapid.Check(t, func(rt *rapid.T) {
		onDisk := rapid.IntRange(0, 1).Draw(rt, "server")
		p := newPair(rt, servers[1-onDisk], started, onDisk == 1)
		defer p.client.Close()
		rt.Repeat(map[string]func(*rapid.T){
			"":        p.same,
			"look":    p.look,
			"mark":    p.mark,
			"vote":    p.vote,
			"vote 2":  p.vote,
			"undo":    p.undo,
			"renew":   p.renew,
			"fill":    p.fill,
			"drop":    p.drop,
			"holds":   p.holds,
			"break":   p.breakUp,
			"raise":   p.raise,
			"expire":  p.expire,
			"flush":   p.flush,
			"save":    p.save,
			"restart": p.restart,
		})
	})
}

// pair is a server, its model, and what was learned from each, at the same places.
type pair struct {
	t      *rapid.T
	ctx    context.Context
	server *testbed.Server
	client *redis.Client
	real   *redisnode.Node
	model  *modelNode

	begun    time.Time // the process
	snapshot modelData
	keys     []redisnode.Keys
	grants   []redisnode.Grant
	known    [][2]redisnode.Identity
	free     []freed
}

// freed is what a renewal was told.
type freed struct {
	g    redisnode.Grant
	both [2]redisnode.Answer
}

const simNamespace = "model"

func newPair(t *rapid.T, server *testbed.Server, started time.Time, onDisk bool) *pair {
	p := &pair{t: t, ctx: context.Background(), server: server, begun: started, snapshot: newModelData()}
	retention := rapid.SampledFrom([]time.Duration{0, time.Hour}).Draw(t, "retention")
	p.model = &modelNode{clock: func() int64 { return time.Now().UnixMicro() }, keep: millis(retention)}
	p.client = redis.NewClient(&redis.Options{Addr: server.Addr(), DisableIdentity: true, MaxRetries: -1})
	p.real = redisnode.NewVoter(redisnode.OnServer(p.client, time.Minute), retention)
	for _, key := range []string{"a", "b"} {
		p.keys = append(p.keys, redisnode.KeysOf(simNamespace, key))
	}
	// What an earlier run of the property left behind is away, and with it all memory of it.
	// Where there is nothing, or only what has expired, it may change nothing.
	p.require(p.client.Set(p.ctx, "something", "", 0).Err())
	p.require(p.client.FlushAll(p.ctx).Err())
	p.require(p.client.Save(p.ctx).Err())
	p.model.start(p.run(), newModelData(), onDisk, true)
	p.model.wrote() // as one that is used for something else
	p.model.saved += 60
	p.require(p.client.Set(p.ctx, "other", "1", 0).Err())
	return p
}

func (p *pair) require(err error) {
	p.t.Helper()
	if err != nil && !errors.Is(err, redis.Nil) {
		p.t.Fatalf("%s: %v", p.server, err)
	}
}

func (p *pair) run() string {
	p.t.Helper()
	id, err := p.real.Look(p.ctx, simNamespace)
	p.require(err)
	return id.Run
}

// expect fails unless two values are the same.
func expectSame[T comparable](t *rapid.T, what string, real, model T) {
	t.Helper()
	if real != model {
		t.Fatalf("%s: the server says %+v, the model %+v", what, real, model)
	}
}

func expectNear(t *rapid.T, what string, real, model time.Duration) {
	t.Helper()
	if (real - model).Abs() > slack {
		t.Fatalf("%s: the server says %s, the model %s", what, real, model)
	}
}

// answers compares two answers, and returns them.
func (p *pair) answers(what string, real, model redisnode.Answer, err error) {
	p.t.Helper()
	p.require(err)
	expectNear(p.t, what+": time", time.Duration(real.Time.UnixNano()), time.Duration(model.Time.UnixNano()))
	expectNear(p.t, what+": kept", real.Kept, model.Kept)
	expectNear(p.t, what+": remaining", real.Holder.Remaining, model.Holder.Remaining)
	for _, a := range []*redisnode.Answer{&real, &model} {
		a.Time, a.Kept, a.Holder.Remaining = time.Time{}, 0, 0
	}
	expectSame(p.t, what, real, model)
}

func (p *pair) identities(what string, real, model redisnode.Identity, err error) {
	p.t.Helper()
	p.require(err)
	p.known = append(p.known, [2]redisnode.Identity{real, model})
	type same struct {
		run, role, markedBy, membership string
		marked                          bool
		reason                          redisnode.Reason
	}
	of := func(i redisnode.Identity) same {
		return same{i.Run, i.Role, i.Marker.Run, i.Marker.Membership, i.Marked, i.Marker.Reason}
	}
	expectSame(p.t, what, of(real), of(model))
	expectNear(p.t, what+": time", time.Duration(real.Time.UnixNano()), time.Duration(model.Time.UnixNano()))
	if real.Marked {
		expectNear(p.t, what+": since", time.Duration(real.Marker.Since.UnixNano()), time.Duration(model.Marker.Since.UnixNano()))
	}
}

// same compares what the two keep.
func (p *pair) same(t *rapid.T) {
	p.t = t
	for _, k := range p.keys {
		l, _, held := p.model.lock(k)
		value, err := p.client.Get(p.ctx, k.Lock).Result()
		p.require(err)
		want := ""
		if held {
			want = fmt.Sprintf("%s:%016d", l.value.holder, l.value.token)
			expectNear(t, "lock: expiry", p.client.PTTL(p.ctx, k.Lock).Val(), time.Duration(l.until)*time.Millisecond-time.Duration(time.Now().UnixNano()))
		}
		expectSame(t, "lock", value, want)
		f, fenced := p.model.fence(k)
		record, err := p.client.Get(p.ctx, k.Fence).Result()
		p.require(err)
		if want = ""; fenced {
			p.adopt(k, f, record)
			f, _ = p.model.fence(k)
			want = fmt.Sprintf("%016d", f.token)
			left := -time.Nanosecond // as go-redis tells that it is for ever
			if f.until != 0 {
				left = time.Duration(f.until)*time.Millisecond - time.Duration(time.Now().UnixNano())
			}
			expectNear(t, "fence: expiry", p.client.PTTL(p.ctx, k.Fence).Val(), left)
		}
		expectSame(t, "fence", record, want)
	}
}

// adopt has the model take over a fence that each of the two has made from its own clock.
func (p *pair) adopt(k redisnode.Keys, f modelFence, record string) {
	token, err := strconv.ParseInt(record, 10, 64)
	made := time.Now().Add(-scriptLag * time.Microsecond).UnixMicro()
	if err == nil && max(f.token-token, token-f.token, made-token, token-made) < slack.Microseconds() {
		f.token = token
		p.model.data.fences[k.Fence] = f
	}
}

// token draws a token near the fence of a lock or the clock, or at the bounds of what is taken.
func (p *pair) token(k redisnode.Keys) locker.Token {
	now := time.Now()
	at := func(d time.Duration) int64 { return now.Add(d).UnixMicro() }
	tokens := []int64{at(0), at(0), at(-time.Hour), at(-28 * time.Second), at(-12 * time.Second), at(4 * time.Second), at(18 * time.Second), at(time.Hour)}
	if f, ok := p.model.fence(k); ok {
		tokens = append(tokens, f.token-1, f.token, f.token+1, f.token+1, f.token+scriptStep, f.token+scriptStep+1)
	}
	return locker.Token(rapid.SampledFrom(tokens).Draw(p.t, "token"))
}

func (p *pair) key() redisnode.Keys { return rapid.SampledFrom(p.keys).Draw(p.t, "key") }

func (p *pair) ttl() time.Duration {
	return rapid.SampledFrom([]time.Duration{30 * time.Second, time.Minute, 10 * time.Minute}).Draw(p.t, "ttl")
}

// grant draws a grant that was asked for before.
func (p *pair) grant() redisnode.Grant {
	if len(p.grants) == 0 {
		p.t.Skip("there is no grant yet")
	}
	// The later ones more often.
	n := len(p.grants)
	return p.grants[n-1-min(rapid.IntRange(0, n-1).Draw(p.t, "grant"), rapid.IntRange(0, n-1).Draw(p.t, "or grant"))]
}

func (p *pair) look(t *rapid.T) {
	p.t = t
	id, err := p.real.Look(p.ctx, simNamespace)
	p.identities("look", id, p.model.mark("", "", time.Time{}), err)
}

func (p *pair) mark(t *rapid.T) {
	p.t = t
	if len(p.known) == 0 {
		p.look(t)
	}
	looked := p.known[max(0, len(p.known)-rapid.IntRange(1, 3).Draw(t, "looked"))]
	membership := rapid.SampledFrom([]string{"3/1m0s/abc", "3/1m0s/abc", "3/1m0s/abc", "5/1m0s/def"}).Draw(t, "membership")
	first := rapid.SampledFrom([]time.Time{{}, {}, time.Now().Add(time.Minute), time.Now().Add(-time.Minute)}).Draw(t, "first")
	onDisk := ""
	if p.model.onDisk {
		onDisk = looked[1].Run
	}
	id, err := p.real.Mark(p.ctx, simNamespace, membership, looked[0], first)
	model := p.model.mark(membership, onDisk, first)
	if id.Marker.Reason == redisnode.Fresh && model.Marker.Reason == redisnode.Empty {
		// The server counts changes that the model does not see, such as a key that it found
		// to have expired. Then it waits for longer than it has to.
		model.Marker.Reason, model.Marker.Since = redisnode.Fresh, time.UnixMicro(p.model.clock())
		p.model.data.marker.Marker = model.Marker
	}
	p.identities("mark", id, model, err)
}

func (p *pair) vote(t *rapid.T) {
	p.t = t
	if len(p.known) == 0 || !p.known[len(p.known)-1][1].Marked {
		p.mark(t)
	}
	if len(p.grants) == 0 || rapid.IntRange(0, 3).Draw(t, "again") != 0 {
		k := p.key()
		p.grants = append(p.grants, redisnode.Grant{Keys: k, Holder: fmt.Sprintf("h.1.%026d", len(p.grants)), Token: p.token(k)})
	}
	g := p.grants[len(p.grants)-1]
	if rapid.IntRange(0, 3).Draw(t, "other") == 0 {
		g = p.grant()
	}
	id := p.known[max(0, len(p.known)-rapid.SampledFrom([]int{1, 1, 1, 2, 3}).Draw(t, "marker"))]
	from := rapid.SampledFrom([]time.Time{{}, {}, {}, time.Now().Add(time.Hour), time.Now().Add(-time.Hour)}).Draw(t, "from")
	ttl := p.ttl()
	a, err := p.real.Vote(p.ctx, g, ttl, id[0].Marker.From(from))
	p.answers("vote", a, p.model.vote(g, ttl, id[1].Marker.From(from)), err)
}

func (p *pair) undo(t *rapid.T) {
	p.t = t
	g := p.grant()
	p.require(p.real.Undo(p.ctx, g))
	p.model.undo(g)
}

func (p *pair) renew(t *rapid.T) {
	p.t = t
	g, ttl := p.grant(), p.ttl()
	a, err := p.real.Renew(p.ctx, g, ttl)
	b := p.model.renew(g, ttl)
	p.answers("renew", a, b, err)
	if b.Status == redisnode.Free {
		p.free = append(p.free, freed{g, [2]redisnode.Answer{a, b}})
	}
}

func (p *pair) fill(t *rapid.T) {
	p.t = t
	if len(p.free) == 0 {
		t.Skip("no renewal was told that a lock is free")
	}
	f := p.free[len(p.free)-rapid.IntRange(1, min(3, len(p.free))).Draw(t, "free")]
	until := time.Now().Add(rapid.SampledFrom([]time.Duration{-time.Minute, 30 * time.Second, time.Minute, 10 * time.Minute}).Draw(t, "until"))
	filled, err := p.real.Fill(p.ctx, f.g, f.both[0], until)
	p.require(err)
	expectSame(t, "fill", filled, p.model.fill(f.g, f.both[1], until))
}

func (p *pair) drop(t *rapid.T) {
	p.t = t
	g := p.grant()
	released, _, err := p.real.Drop(p.ctx, g, rapid.Bool().Draw(t, "tell"))
	p.require(err)
	expectSame(t, "drop", released, p.model.drop(g))
}

func (p *pair) holds(t *rapid.T) {
	p.t = t
	g := p.grant()
	holds, err := p.real.Holds(p.ctx, g)
	p.require(err)
	expectSame(t, "holds", holds, p.model.holds(g))
}

func (p *pair) breakUp(t *rapid.T) {
	p.t = t
	k := p.key()
	a, held, err := p.real.Inspect(p.ctx, k)
	p.require(err)
	b, modelHeld := p.model.inspect(k)
	expectNear(t, "inspect: remaining", a.Remaining, b.Remaining)
	a.Remaining = b.Remaining
	expectSame(t, "inspect", a, b)
	expectSame(t, "inspect", held, modelHeld)
	if rapid.Bool().Draw(t, "another") {
		a.Handle, b.Handle = "x", "x"
	}
	broken, err := p.real.Break(p.ctx, k, a)
	p.require(err)
	expectSame(t, "break", broken, p.model.breakUp(k, b))
}

func (p *pair) raise(t *rapid.T) {
	p.t = t
	k := p.key()
	floor := p.token(k)
	a, err := p.real.Raise(p.ctx, k, floor)
	p.answers("raise", a, p.model.raise(k, floor), err)
}

// expire ends the time of a lock, or of a fence.
func (p *pair) expire(t *rapid.T) {
	p.t = t
	k := p.key()
	past := time.Now().Add(-time.Minute)
	if l, _, held := p.model.lock(k); held && rapid.IntRange(0, 3).Draw(t, "lock") != 0 {
		p.require(p.client.PExpireAt(p.ctx, k.Lock, past).Err())
		l.until = past.UnixMilli()
		p.model.data.locks[k.Lock] = l
	} else if f, fenced := p.model.fence(k); fenced && p.model.keep != 0 {
		p.require(p.client.PExpireAt(p.ctx, k.Fence, past).Err())
		f.until = past.UnixMilli()
		p.model.data.fences[k.Fence] = f
	}
}

func (p *pair) flush(t *rapid.T) {
	p.t = t
	if rapid.IntRange(0, 3).Draw(t, "really") != 0 {
		return
	}
	// Where there is nothing, or only what has expired, it may change nothing.
	p.require(p.client.Set(p.ctx, "something", "", 0).Err())
	p.require(p.client.FlushAll(p.ctx).Err())
	p.model.flush()
}

func (p *pair) save(t *rapid.T) {
	p.t = t
	if time.Since(p.begun) < slack { // the server counts in seconds
		t.Skip("it was started just now")
	}
	p.require(p.client.Save(p.ctx).Err())
	p.snapshot = p.model.save()
}

func (p *pair) restart(t *rapid.T) {
	p.t = t
	if rapid.IntRange(0, 3).Draw(t, "really") != 0 {
		return
	}
	keep := rapid.Bool().Draw(t, "keep")
	p.begun = time.Now()
	p.server.Restart(keep)
	if !keep {
		p.snapshot = newModelData()
	}
	data := p.snapshot
	if keep && p.model.onDisk {
		data = p.model.data
	}
	for p.client.Ping(p.ctx).Err() != nil { // connections to the process before
	}
	p.model.start(p.run(), data.clone(), p.model.onDisk, !keep || !p.model.onDisk)
}
