package redisnode

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// Reason says what a node may have forgotten.
type Reason string

const (
	First     Reason = "first"     // nothing: it was declared that there has never been a grant
	Kept      Reason = "kept"      // nothing: what it answered for was on its disk when it was started again
	Empty     Reason = "empty"     // what was before it was started, when it had nothing
	Fresh     Reason = "new"       // what was before it was marked, when it had no marker
	Restarted Reason = "restarted" // what was just before it was started again
)

// RunID returns the id of the process that a connection leads to.
func RunID(ctx context.Context, conn *redis.Conn) (string, error) {
	info, err := conn.Info(ctx, "server").Result()
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(info) {
		if id, ok := strings.CutPrefix(line, "run_id:"); ok {
			return strings.TrimSpace(id), nil
		}
	}
	return "", errors.New("INFO does not tell run_id: is the server a Redis?")
}

// Marker is what a node of several is marked with. It goes with the data that the
// node keeps, and names the process that the node ran as when it was written: so it
// shows whether the node was wiped, or started again.
type Marker struct {
	Run        string    // the process's run id
	Since      time.Time // since when the node remembers, by its clock
	Reason     Reason
	Membership string // which nodes, with which limits, the node is one of

	key, text string
	from      int64
}

// Identity is what a node is.
type Identity struct {
	Run    string // changes when the server is started again
	Role   string // master or slave
	Time   time.Time
	Marked bool
	Marker Marker
}

// markerKey returns the name of a namespace's marker, which no lock and no fence can have.
func markerKey(namespace string) string { return "\x00member:" + LockPrefix(namespace) }

// Look returns what the node is, and changes nothing.
func (n *Node) Look(ctx context.Context, namespace string) (Identity, error) {
	return n.mark(ctx, namespace, "", "", 0)
}

// Mark marks the node, which was looked at before, as one of a membership, unless it is
// one of another, and returns what it is. A node without a marker may have forgotten
// grants, but not if it is known that there was none when it was looked at, and this comes
// until the time first, by its clock: it could be flushed in between.
func (n *Node) Mark(ctx context.Context, namespace, membership string, looked Identity, first time.Time) (Identity, error) {
	onDisk := ""
	if n.onDisk(ctx) {
		onDisk = looked.Run // it may be another process by now
	}
	until := int64(0)
	if !first.IsZero() {
		until = first.UnixMicro()
	}
	return n.mark(ctx, namespace, membership, onDisk, until)
}

// onDisk says whether the server has on its disk all that it has answered for. One
// that does not tell is not relied on.
func (n *Node) onDisk(ctx context.Context) bool {
	var on, always bool
	for name, value := range n.config(ctx, "append*") {
		on = on || name == "appendonly" && value == "yes"
		always = always || name == "appendfsync" && value == "always"
	}
	return on && always
}

// config returns parameters of the server's configuration, none if it does not tell.
func (n *Node) config(ctx context.Context, pattern string) map[string]string {
	cmd := redis.NewCmd(ctx, "config", "get", pattern)
	if err := n.run.Run(ctx, cmd, "", !durable); err != nil {
		return nil
	}
	values := make(map[string]string)
	switch reply := cmd.Val().(type) {
	case map[any]any:
		for name, value := range reply {
			values[fmt.Sprint(name)] = fmt.Sprint(value)
		}
	case []any: // of a server that speaks RESP2
		for i := 0; i+1 < len(reply); i += 2 {
			values[fmt.Sprint(reply[i])] = fmt.Sprint(reply[i+1])
		}
	}
	return values
}

func (n *Node) mark(ctx context.Context, namespace, membership, onDisk string, first int64) (Identity, error) {
	key := markerKey(namespace)
	reply, err := n.eval(ctx, markScript, !durable, []any{nil, nil, 1, key, membership, onDisk, first})
	if err != nil {
		return Identity{}, err
	}
	parts, ok := reply.([]any)
	if !ok || len(parts) != 4 {
		return Identity{}, unexpected(reply)
	}
	var texts [4]string
	for i, part := range parts {
		if texts[i], ok = part.(string); !ok {
			return Identity{}, unexpected(reply)
		}
	}
	micros, err := strconv.ParseInt(texts[2], 10, 64)
	if err != nil {
		return Identity{}, unexpected(reply)
	}
	id := Identity{Run: texts[0], Role: texts[1], Time: time.UnixMicro(micros)}
	if m, ok := parseMarker(texts[3]); ok {
		m.key = key
		id.Marker, id.Marked = m, true
	}
	return id, nil
}

func parseMarker(text string) (Marker, bool) {
	var m Marker
	words := strings.Split(text, " ")
	if len(words) != 5 {
		return m, false
	}
	since, err := strconv.ParseInt(words[1], 10, 64)
	if err != nil {
		return m, false
	}
	m = Marker{Run: words[0], Since: time.UnixMicro(since), Reason: Reason(words[3]), Membership: words[4], text: text}
	return m, true
}

// From returns the marker for a node that must not vote before that time, by its
// clock. The zero time is for one that may.
func (m Marker) From(t time.Time) Marker {
	m.from = 0
	if !t.IsZero() {
		m.from = t.UnixMicro()
	}
	return m
}

// VotesFrom returns the time that From was given.
func (m Marker) VotesFrom() time.Time {
	if m.from == 0 {
		return time.Time{}
	}
	return time.UnixMicro(m.from)
}

// String is for messages.
func (m Marker) String() string {
	return fmt.Sprintf("membership %s, since %s (%s)", m.Membership, m.Since.UTC().Format(time.RFC3339), m.Reason)
}
