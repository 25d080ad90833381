package zookeeper

import "time"

// touches remember the signs of life that a client gave in its session: the beginning
// of the connection, and the pings that were answered.
//
// A follower answers pings by itself, also one that is cut from its leader. But the
// leader asks it twice a tick which sessions were touched, and expires a session by what
// it is told. So of a ping that was answered half a tick ago or more, the leader knows
// by the time at which it confirms a request through that follower; and of the beginning
// of a connection it knows at once, since the follower asks it then.
type touches struct {
	began    moment
	pending  []moment // pings without an answer, the oldest first
	answered []touch  // at most the last two, the last one first
}

type touch struct{ sent, answered moment }

// maxPending bounds the pings without an answer; the driver gives up a connection with
// two of them.
const maxPending = 16

func (t *touches) reset(began moment) { *t = touches{began: began} }

func (t *touches) ping(now moment) {
	if len(t.pending) < maxPending {
		t.pending = append(t.pending, now)
	}
}

func (t *touches) answer(now moment) {
	if len(t.pending) == 0 {
		return
	}
	last := touch{t.pending[0], now}
	t.pending = t.pending[1:]
	t.answered = append([]touch{last}, t.answered[:min(len(t.answered), 1)]...)
}

// known returns when the last touch was sent of which the leader knows when it confirms
// a request that is sent now.
func (t *touches) known(now moment, tick time.Duration) moment {
	for _, p := range t.answered {
		if now.since(p.answered) >= tick/2 {
			return p.sent
		}
	}
	return t.began
}
