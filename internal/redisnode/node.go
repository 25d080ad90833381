// Package redisnode keeps locks on Redis: the scripts, each of them one request
// and atomic, the names of their keys, and the meaning of their answers. Which
// token to propose, when to try again and how to wait is for its users to decide.
package redisnode

import (
	"context"
	"crypto/sha1"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/locker-go/locker"
)

//go:embed *.lua
var sources embed.FS

// script is a Lua script, and the name that the server has for it. They are words of
// a request.
type script struct{ source, sha any }

// load returns the script that the files make together.
func load(files ...string) *script {
	var source []byte
	for _, file := range files {
		b, err := sources.ReadFile(file)
		if err != nil {
			panic(err) // not in the binary: cannot happen
		}
		source = append(source, b...)
	}
	sum := sha1.Sum(source)
	return &script{string(source), hex.EncodeToString(sum[:])}
}

var (
	acquireScript = load("limits.lua", "record.lua", "acquire.lua")
	renewScript   = load("limits.lua", "fence.lua", "renew.lua")
	releaseScript = load("release.lua")
	undoScript    = load("limits.lua", "fence.lua", "wake.lua", "undo.lua")
	breakScript   = load("wake.lua", "break.lua")
	raiseScript   = load("limits.lua", "fence.lua", "raise.lua")
	inspectScript = load("inspect.lua")
	voteScript    = load("limits.lua", "vote.lua", "acquire.lua")
	fillScript    = load("limits.lua", "fence.lua", "fill.lua")
	dropScript    = load("limits.lua", "fence.lua", "pass.lua", "wake.lua", "drop.lua")
	markScript    = load("mark.lua")
)

// Runner sends a request to the node that has the key and waits for the reply. It
// must not send it again unless the server refused it. A durable one gives or
// extends a grant, and may have to reach replicas too before it counts.
type Runner interface {
	Run(ctx context.Context, cmd *redis.Cmd, key string, durable bool) error
}

const durable = true

// Node is where locks are kept.
type Node struct {
	run  Runner
	keep int64 // ms
	far  int   // 1 if those that listen may be connected to other servers

	votes bool // it is one of several
}

// New returns a Node that keeps fences for the retention after their last use; 0
// is for ever. In a cluster those that wait may listen at other servers.
func New(run Runner, retention time.Duration, cluster bool) *Node {
	n := &Node{run: run, keep: millis(retention)}
	if cluster {
		n.far = 1
	}
	return n
}

// NewVoter returns a Node that is one of several, which vote.
func NewVoter(run Runner, retention time.Duration) *Node {
	n := New(run, retention, false)
	n.votes = true
	return n
}

// Grant identifies one grant, or the attempt at one.
type Grant struct {
	Keys
	Holder string
	Token  locker.Token
}

// request is what a request about a grant says. Its words point into it, which
// saves an allocation for each.
type request struct {
	Keys
	value, id        string
	ttl, keep, until int64 // ms
}

func (n *Node) request(g Grant, ttl time.Duration) *request {
	return &request{Keys: g.Keys, value: valueOf(g.Holder, g.Token), ttl: millis(ttl), keep: n.keep}
}

// Status says how an attempt to acquire ended.
type Status int

const (
	Granted Status = iota
	Held           // by somebody else
	Stale          // free, but the token is not above the fence, or far behind the clock
	Ahead          // free, but the token is too far ahead of the clock and the fence

	// Of a node that votes only.
	Unmarked    // the marker is another one, or gone
	Quarantined // it is too early

	Free // to a renewal: nobody holds it
)

// Answer is a node's answer to an attempt.
type Answer struct {
	Status Status
	Kept   time.Duration  // Granted: for how long
	Holder locker.Holding // Held: by whom; its Key is not set
	Fence  locker.Token   // Stale, Ahead, Free
	Time   time.Time      // Stale, Ahead, Free, Quarantined: the server's
}

// Acquire attempts to take a lock. After an error it may have been taken, or be
// taken later, unless Undo succeeds.
func (n *Node) Acquire(ctx context.Context, g Grant, ttl time.Duration) (Answer, error) {
	r := n.acquisition(g, ttl)
	return answerOf(n.eval(ctx, acquireScript, durable, []any{nil, nil, 2, &r.Lock, &r.Fence, &r.value, &r.ttl, &r.until}))
}

// Vote is Acquire on one node of several, which answers otherwise than Acquire if it
// is not marked as m says, or may have forgotten grants that still stand.
func (n *Node) Vote(ctx context.Context, g Grant, ttl time.Duration, m Marker) (Answer, error) {
	r := n.acquisition(g, ttl)
	return answerOf(n.eval(ctx, voteScript, durable,
		[]any{nil, nil, 3, &r.Lock, &r.Fence, m.key, &r.value, &r.ttl, &r.until, m.text, m.from}))
}

func (n *Node) acquisition(g Grant, ttl time.Duration) *request {
	r := n.request(g, ttl)
	if n.keep != 0 {
		r.until = int64(g.Token)/1000 + r.ttl + n.keep
	}
	return r
}

// answerOf reads the reply to an attempt.
func answerOf(reply any, err error) (Answer, error) {
	if err != nil {
		return Answer{}, err
	}
	if kept, ok := reply.(int64); ok {
		return Answer{Status: Granted, Kept: time.Duration(kept) * time.Millisecond}, nil
	}
	parts, ok := reply.([]any)
	if !ok || len(parts) != 3 {
		return Answer{}, unexpected(reply)
	}
	if parts[0] == "held" {
		value, ok1 := parts[1].(string)
		pttl, ok2 := parts[2].(int64)
		if ok1 && ok2 {
			return Answer{Status: Held, Holder: holdingOf("", value, pttl)}, nil
		}
		return Answer{}, unexpected(reply)
	}
	return fenced(parts)
}

// answers are those that tell of the fence and the clock.
var answers = map[any]Status{"stale": Stale, "ahead": Ahead, "unmarked": Unmarked, "quarantined": Quarantined, "free": Free}

// fenced reads the answers that tell of the fence and the clock.
func fenced(parts []any) (Answer, error) {
	status, known := answers[parts[0]]
	if !known {
		return Answer{}, unexpected(parts)
	}
	var numbers [2]uint64
	for i := range numbers {
		text, _ := parts[i+1].(string)
		v, err := strconv.ParseUint(text, 10, 63)
		if err != nil {
			return Answer{}, unexpected(parts)
		}
		numbers[i] = v
	}
	return Answer{Status: status, Fence: locker.Token(numbers[0]), Time: time.UnixMicro(int64(numbers[1]))}, nil
}

// Undo makes sure that the attempt g holds nothing and never will.
func (n *Node) Undo(ctx context.Context, g Grant) error {
	r := n.request(g, 0)
	_, err := n.eval(ctx, undoScript, !durable, []any{nil, nil, 2, &r.Lock, &r.Fence, &r.value, &r.keep, &r.Channel, n.far})
	return err
}

// Renew extends a lock, or, unless the node is one of several, makes its time shorter. The answer is Granted; Held, without the holder, if another
// grant holds it; or Free.
func (n *Node) Renew(ctx context.Context, g Grant, ttl time.Duration) (Answer, error) {
	r := n.request(g, ttl)
	reply, err := n.eval(ctx, renewScript, durable, []any{nil, nil, 2, &r.Lock, &r.Fence, &r.value, &r.ttl, &r.keep, n.votes})
	if err == nil && reply == int64(0) {
		return Answer{Status: Held}, nil
	}
	return answerOf(reply, err)
}

// Fill puts back the lock of a grant that other nodes keep until that time, by this
// node's clock, if the lock has been free, and its fence the same, since this node
// answered so to Renew. It says whether it did.
func (n *Node) Fill(ctx context.Context, g Grant, free Answer, until time.Time) (bool, error) {
	r := n.request(g, 0)
	count, err := n.count(ctx, fillScript, durable, []any{nil, nil, 2, &r.Lock, &r.Fence, &r.value, digitsOf(free.Fence), until.UnixMicro(), &r.keep})
	return count > 0, err
}

// Release gives a lock back; false if g does not hold it. The id stands for one
// call of the caller: the same id sent again succeeds again. It also returns how
// many listen to the lock's channel, as far as the server knows.
func (n *Node) Release(ctx context.Context, g Grant, id uint64) (released bool, listeners int, err error) {
	r := n.request(g, 0)
	r.id = releaseID(id)
	count, err := n.count(ctx, releaseScript, !durable, []any{nil, nil, 2, &r.Lock, &r.Fence, &r.value, &r.id, &r.keep, &r.Channel, n.far})
	return count > 0, int(max(count-1, 0)), err
}

// Drop is Release on one node of several, with a message for those who listen there
// if that is said. Sent again it does not succeed again. Fill does not bring the grant
// back after it, whether the node had it or not.
func (n *Node) Drop(ctx context.Context, g Grant, tell bool) (released bool, listeners int, err error) {
	r := n.request(g, 0)
	if !tell {
		r.Channel = ""
	}
	count, err := n.count(ctx, dropScript, !durable, []any{nil, nil, 2, &r.Lock, &r.Fence, &r.value, &r.Channel, &r.keep})
	return count > 0, int(max(count-1, 0)), err
}

// releaseID returns a space and 19 digits, as the scripts expect.
func releaseID(id uint64) string {
	const lowest = 1_000_000_000_000_000_000
	return " " + string(strconv.AppendUint(make([]byte, 0, 20), lowest+id%(8*lowest), 10))
}

// ParseMessage reads what is published on a lock's channel: the token of the grant
// that ended, and how many listened. What cannot be read is zero.
func ParseMessage(payload string) (ended locker.Token, listeners int) {
	token, count, _ := strings.Cut(payload, " ")
	t, _ := strconv.ParseUint(token, 10, 53)
	n, _ := strconv.Atoi(count)
	return locker.Token(t), n
}

// Holds says whether g holds its lock.
func (n *Node) Holds(ctx context.Context, g Grant) (bool, error) {
	cmd := redis.NewCmd(ctx, "get", g.Lock)
	err := n.run.Run(ctx, cmd, g.Lock, !durable)
	if errors.Is(err, redis.Nil) {
		return false, nil
	}
	if err != nil {
		return false, Unavailable(ctx, err)
	}
	return cmd.Val() == valueOf(g.Holder, g.Token), nil
}

// Inspect tells who holds a lock; false if it is free. The Holding's Key is not set.
func (n *Node) Inspect(ctx context.Context, k Keys) (locker.Holding, bool, error) {
	reply, err := n.eval(ctx, inspectScript, !durable, []any{nil, nil, 1, k.Lock})
	if err != nil || reply == nil {
		return locker.Holding{}, false, err
	}
	if parts, ok := reply.([]any); ok && len(parts) == 2 {
		value, ok1 := parts[0].(string)
		pttl, ok2 := parts[1].(int64)
		if ok1 && ok2 {
			return holdingOf("", value, pttl), true, nil
		}
	}
	return locker.Holding{}, false, unexpected(reply)
}

// Break ends the grant that was seen; false if it no longer stands. On one node of
// several Fill does not bring it back.
func (n *Node) Break(ctx context.Context, k Keys, seen locker.Holding) (bool, error) {
	count, err := n.count(ctx, breakScript, !durable, []any{nil, nil, 2, k.Lock, k.Fence, seen.Handle, uint64(seen.Token), k.Channel, n.far, n.votes})
	return count > 0, err
}

// Raise lifts the fence to floor. If that is too far ahead the answer's Status is
// Ahead, and nothing was changed.
func (n *Node) Raise(ctx context.Context, k Keys, floor locker.Token) (Answer, error) {
	reply, err := n.eval(ctx, raiseScript, !durable, []any{nil, nil, 1, k.Fence, uint64(floor), n.keep})
	if err != nil {
		return Answer{}, err
	}
	if reply == int64(1) {
		return Answer{Status: Granted}, nil
	}
	if parts, ok := reply.([]any); ok && len(parts) == 3 {
		return fenced(parts)
	}
	return Answer{}, unexpected(reply)
}

// count runs a script that answers with a number that is not negative.
func (n *Node) count(ctx context.Context, s *script, durable bool, words []any) (int64, error) {
	reply, err := n.eval(ctx, s, durable, words)
	if err != nil {
		return 0, err
	}
	count, ok := reply.(int64)
	if !ok || count < 0 {
		return 0, unexpected(reply)
	}
	return count, nil
}

// eval runs a script, which it sends to a server that does not know it, as after
// SCRIPT FLUSH or on a new master. The words begin with two places for its name,
// and with the keys' number.
func (n *Node) eval(ctx context.Context, s *script, durable bool, words []any) (any, error) {
	key, ok := words[3].(*string)
	if !ok {
		text := words[3].(string)
		key = &text
	}
	words[0], words[1] = "evalsha", s.sha
	cmd := redis.NewCmd(ctx, words...)
	err := n.run.Run(ctx, cmd, *key, durable)
	if err == nil {
		return cmd.Val(), nil
	}
	if redis.HasErrorPrefix(err, "NOSCRIPT") {
		words[0], words[1] = "eval", s.source
		cmd = redis.NewCmd(ctx, words...)
		err = n.run.Run(ctx, cmd, *key, durable)
	}
	if errors.Is(err, redis.Nil) {
		return nil, nil
	}
	if err != nil {
		return nil, Unavailable(ctx, err)
	}
	return cmd.Val(), nil
}

// millis rounds up to whole milliseconds, the unit of Redis.
func millis(d time.Duration) int64 {
	return int64((d + time.Millisecond - 1) / time.Millisecond)
}

func unexpected(reply any) error {
	return fmt.Errorf("%w: unexpected reply of type %T from a script: is the server a Redis?", locker.ErrUnavailable, reply)
}
