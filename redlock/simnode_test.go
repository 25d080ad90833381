package redlock

import (
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"maps"
	"time"

	"github.com/locker-go/locker"
	"github.com/locker-go/locker/internal/redisnode"
)

// The bounds of the scripts, as limits.lua has them.
const (
	scriptLead = 10_000_000 // us
	scriptStep = 1 << 20
	scriptLag  = 20_000_000 // us
)

// modelNode does what one Redis server does with the scripts of redisnode, by a clock
// of its own. TestModelNode compares the two. Each method is one request.
type modelNode struct {
	clock func() int64 // us since 1970
	keep  int64        // for how long fences are kept, ms; 0 is for ever

	run     string // of the process
	started int64  // when, in s since 1970
	saved   int64  // when it last saved its data, likewise
	changed bool   // whether its data have changed since then
	onDisk  bool   // whether its disk has all that it answered for, in a log
	logged  bool   // whether the log has any changes
	data    modelData

	// What the broken variants leave out.
	unfenced  bool // tokens are not compared with the fence
	forgetful bool // it votes at once after it has lost its data
}

// modelData are what goes to the disk of a node.
type modelData struct {
	locks  map[string]modelLock
	fences map[string]modelFence
	counts map[string]int64 // for the broken variant that counts
	marker modelMarker
}

// modelValue is the value of a lock: who was granted it.
type modelValue struct {
	holder string
	token  int64
}

type modelLock struct {
	value modelValue
	until int64 // ms since 1970, by the node's clock
}

type modelFence struct {
	token int64
	until int64 // likewise; 0 is for ever
}

// modelMarker is empty where there is no marker.
type modelMarker struct {
	redisnode.Marker
	durable bool
}

func newModelData() modelData {
	return modelData{locks: make(map[string]modelLock), fences: make(map[string]modelFence), counts: make(map[string]int64)}
}

func (d modelData) clone() modelData {
	d.locks, d.fences, d.counts = maps.Clone(d.locks), maps.Clone(d.fences), maps.Clone(d.counts)
	return d
}

// start starts a process on the data. The log of one that has all on its disk begins
// with them, if it is new; else they are what was read from it, which counts as changes.
func (n *modelNode) start(run string, data modelData, onDisk, newLog bool) {
	n.run, n.data, n.onDisk = run, data, onDisk
	n.started = n.clock() / 1e6
	n.saved = n.started
	n.logged = n.logged && !newLog
	n.changed = n.logged
}

// wrote says that the data have changed.
func (n *modelNode) wrote() { n.changed, n.logged = true, n.onDisk }

// flush is FLUSHALL.
func (n *modelNode) flush() {
	n.data = newModelData()
	n.wrote()
}

// save is SAVE.
func (n *modelNode) save() modelData {
	n.saved, n.changed = n.clock()/1e6, false
	return n.data.clone()
}

func valueOf(g redisnode.Grant) modelValue { return modelValue{g.Holder, int64(g.Token)} }

func millis(d time.Duration) int64 { return int64((d + time.Millisecond - 1) / time.Millisecond) }

// lock returns a lock unless it is free, and for how many ms it is kept. One whose time is
// over is gone, also if the clock is set back then.
func (n *modelNode) lock(k redisnode.Keys) (l modelLock, left int64, held bool) {
	l, held = n.data.locks[k.Lock]
	if left = l.until - n.clock()/1000; !held || left < 0 {
		delete(n.data.locks, k.Lock)
		return modelLock{}, 0, false
	}
	return l, left, true
}

func (n *modelNode) setLock(k redisnode.Keys, v modelValue, ttl int64) {
	n.data.locks[k.Lock] = modelLock{v, n.clock()/1000 + ttl}
	n.wrote()
}

func (n *modelNode) deleteLock(k redisnode.Keys) {
	delete(n.data.locks, k.Lock)
	n.wrote()
}

// fence returns a fence, or the zero value and false.
func (n *modelNode) fence(k redisnode.Keys) (modelFence, bool) {
	f, ok := n.data.fences[k.Fence]
	if ok && f.until != 0 && f.until < n.clock()/1000 {
		delete(n.data.fences, k.Fence)
		return modelFence{}, false
	}
	return f, ok
}

// setFence stores a fence until a time in ms; 0 is for ever.
func (n *modelNode) setFence(k redisnode.Keys, token, until int64) {
	n.data.fences[k.Fence] = modelFence{token, until}
	n.wrote()
}

// writeFence is write_fence of fence.lua.
func (n *modelNode) writeFence(k redisnode.Keys, token, ttl, retention, least int64) {
	if retention == 0 {
		n.setFence(k, token, 0)
		return
	}
	now := n.clock()
	keep := (max(0, token-now)+999)/1000 + ttl + retention
	n.setFence(k, token, now/1000+max(keep, least))
}

// needless is needless of fence.lua.
func (n *modelNode) needless(token, fence int64) bool {
	return fence == 0 && token < n.clock()-scriptLag
}

// liftFence is lift_fence of fence.lua.
func (n *modelNode) liftFence(k redisnode.Keys, token int64) {
	retention, left := n.keep, int64(-2)
	if f, ok := n.fence(k); !ok {
		token = max(token, n.clock()-scriptLag)
	} else {
		if left = f.until - n.clock()/1000; f.until == 0 {
			retention, left = 0, -1
		}
	}
	n.writeFence(k, token, 0, retention, left)
}

func (n *modelNode) tooFar(token, fence int64) bool {
	return token > max(n.clock()+scriptLead, fence+scriptStep)
}

// vote is vote.lua and acquire.lua.
func (n *modelNode) vote(g redisnode.Grant, ttl time.Duration, m redisnode.Marker) redisnode.Answer {
	now := n.clock()
	if n.data.marker.Run == "" || n.data.marker.Marker != m.From(time.Time{}) {
		return redisnode.Answer{Status: redisnode.Unmarked, Time: time.UnixMicro(0)}
	}
	if from := m.VotesFrom(); !from.IsZero() && now < from.UnixMicro() {
		return redisnode.Answer{Status: redisnode.Quarantined, Time: time.UnixMicro(now)}
	}
	f, fenced := n.fence(g.Keys)
	v := valueOf(g)
	refused := redisnode.Answer{Status: redisnode.Granted, Fence: locker.Token(f.token), Time: time.UnixMicro(now)}
	dated := !(fenced && v.token > f.token && v.token <= f.token+scriptStep)
	if dated {
		switch {
		case v.token <= f.token && !n.unfenced, v.token < now-scriptLag:
			refused.Status = redisnode.Stale
		case v.token > now+scriptLead && v.token > f.token+scriptStep:
			refused.Status = redisnode.Ahead
		}
	}
	l, left, held := n.lock(g.Keys)
	switch {
	case !held && refused.Status == redisnode.Granted:
		left = millis(ttl)
		n.setLock(g.Keys, v, left)
		until := v.token/1000 + left + n.keep
		switch {
		case n.keep == 0:
			n.setFence(g.Keys, v.token, 0)
		case dated:
			n.setFence(g.Keys, v.token, now/1000+until-min(v.token, now)/1000)
		default:
			n.setFence(g.Keys, v.token, until)
		}
		return redisnode.Answer{Status: redisnode.Granted, Kept: time.Duration(left) * time.Millisecond}
	case held && l.value == v:
		return redisnode.Answer{Status: redisnode.Granted, Kept: time.Duration(left) * time.Millisecond}
	case held:
		return redisnode.Answer{Status: redisnode.Held, Holder: holdingOf(l.value, left)}
	default:
		return refused
	}
}

// holdingOf returns what others may see of a lock.
func holdingOf(v modelValue, left int64) locker.Holding {
	sum := sha1.Sum(fmt.Appendf(nil, "%s:%016d", v.holder, v.token))
	return locker.Holding{
		Holder:    locker.ShowHolder(v.holder),
		Token:     locker.Token(v.token),
		Handle:    hex.EncodeToString(sum[:]),
		Remaining: time.Duration(left) * time.Millisecond,
	}
}

// undo is undo.lua.
func (n *modelNode) undo(g redisnode.Grant) {
	v := valueOf(g)
	if l, _, held := n.lock(g.Keys); held && l.value == v {
		n.deleteLock(g.Keys)
	}
	if f, _ := n.fence(g.Keys); v.token > f.token && !n.tooFar(v.token, f.token) {
		n.liftFence(g.Keys, v.token)
	}
}

// renew is renew.lua.
func (n *modelNode) renew(g redisnode.Grant, ttl time.Duration) redisnode.Answer {
	f, _ := n.fence(g.Keys)
	l, left, held := n.lock(g.Keys)
	v := valueOf(g)
	switch {
	case !held:
		return redisnode.Answer{Status: redisnode.Free, Fence: locker.Token(f.token), Time: time.UnixMicro(n.clock())}
	case l.value != v:
		return redisnode.Answer{Status: redisnode.Held}
	}
	if ttl := millis(ttl); ttl > left {
		n.setLock(g.Keys, v, ttl)
		left = ttl
	}
	if !n.needless(v.token, f.token) {
		n.writeFence(g.Keys, max(f.token, v.token), left, n.keep, 0)
	}
	return redisnode.Answer{Status: redisnode.Granted, Kept: time.Millisecond}
}

// fill is fill.lua.
func (n *modelNode) fill(g redisnode.Grant, free redisnode.Answer, until time.Time) bool {
	f, _ := n.fence(g.Keys)
	v := valueOf(g)
	if f.token != int64(free.Fence) || v.token < f.token {
		return false
	}
	now := n.clock()
	left := (until.UnixMicro() - now) / 1000
	if _, _, held := n.lock(g.Keys); held || until.UnixMicro() < now || left <= 0 || n.tooFar(v.token, f.token) {
		return false
	}
	n.setLock(g.Keys, v, left)
	if !n.needless(v.token, f.token) {
		n.writeFence(g.Keys, v.token, left, n.keep, 0)
	}
	return true
}

// drop is drop.lua.
func (n *modelNode) drop(g redisnode.Grant) bool {
	held := n.holds(g)
	f, fenced := n.fence(g.Keys)
	switch above := int64(g.Token) + 1; {
	case held && fenced:
		n.setFence(g.Keys, f.token+1, f.until)
	case above > f.token && !n.tooFar(above, f.token):
		n.liftFence(g.Keys, above)
	}
	if held {
		n.deleteLock(g.Keys)
	}
	return held
}

func (n *modelNode) holds(g redisnode.Grant) bool {
	l, _, held := n.lock(g.Keys)
	return held && l.value == valueOf(g)
}

// inspect is inspect.lua.
func (n *modelNode) inspect(k redisnode.Keys) (locker.Holding, bool) {
	l, left, held := n.lock(k)
	if !held {
		return locker.Holding{}, false
	}
	return holdingOf(l.value, left), true
}

// breakUp is break.lua.
func (n *modelNode) breakUp(k redisnode.Keys, seen locker.Holding) bool {
	if h, held := n.inspect(k); !held || h.Handle != seen.Handle {
		return false
	}
	n.deleteLock(k)
	if f, fenced := n.fence(k); fenced {
		n.setFence(k, f.token+1, f.until)
	}
	return true
}

// raise is raise.lua.
func (n *modelNode) raise(k redisnode.Keys, floor locker.Token) redisnode.Answer {
	f, _ := n.fence(k)
	switch {
	case int64(floor) <= f.token:
	case n.tooFar(int64(floor), f.token):
		return redisnode.Answer{Status: redisnode.Ahead, Fence: locker.Token(f.token), Time: time.UnixMicro(n.clock())}
	default:
		n.liftFence(k, int64(floor))
	}
	return redisnode.Answer{Status: redisnode.Granted}
}

// mark is mark.lua. A membership of "" is to look only.
func (n *modelNode) mark(membership, onDisk string, first time.Time) redisnode.Identity {
	now, old := n.clock(), n.data.marker
	if membership == "" || old.Run == n.run || old.Run != "" && old.Membership != membership {
		return n.identity()
	}
	since, reason := now, redisnode.Fresh
	switch {
	case old.Run != "" && old.durable && onDisk == n.run:
		since, reason = old.Since.UnixMicro(), redisnode.Kept
	case old.Run != "":
		reason = redisnode.Restarted
	case !first.IsZero() && now <= first.UnixMicro():
		since, reason = 0, redisnode.First
	case !n.changed && n.saved <= n.started+1:
		since, reason = (n.started+2)*1e6, redisnode.Empty
	}
	if n.forgetful {
		since = 0
	}
	n.data.marker = modelMarker{
		Marker:  redisnode.Marker{Run: n.run, Since: time.UnixMicro(since), Reason: reason, Membership: membership},
		durable: onDisk == n.run,
	}
	n.wrote()
	return n.identity()
}

func (n *modelNode) identity() redisnode.Identity {
	m := n.data.marker
	return redisnode.Identity{Run: n.run, Role: "master", Time: time.UnixMicro(n.clock()), Marked: m.Run != "", Marker: m.Marker}
}

// count is what the broken variant that counts asks for: SET NX PX, and INCR if that
// took the lock. It returns 0 if the lock is held.
func (n *modelNode) count(g redisnode.Grant, ttl time.Duration) int64 {
	if _, _, held := n.lock(g.Keys); held {
		return 0
	}
	n.setLock(g.Keys, valueOf(g), millis(ttl))
	n.data.counts[g.Lock]++
	return n.data.counts[g.Lock]
}
