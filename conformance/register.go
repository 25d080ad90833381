package conformance

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/locker-go/locker"
)

// register is the resource that a lock guards: a counter that refuses stale tokens.
type register struct {
	mu      sync.Mutex
	highest locker.Token
	value   int
}

// read returns the value, unless the token is stale. Reading carries the token too:
// else a holder could read, lose the lock to one that has not written yet, and write.
func (r *register) read(token locker.Token) (value int, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if token < r.highest {
		return 0, false
	}
	r.highest = token
	return r.value, true
}

// write sets the value, unless the token is stale.
func (r *register) write(token locker.Token, value int) (ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if token < r.highest {
		return false
	}
	r.highest, r.value = token, value
	return true
}

// increments records what clients did to a register: each read a value under the
// lock and wrote one more. All of that must look as if the increments had happened
// one after the other, each at some moment between its beginning and its end.
type increments struct {
	tick atomic.Int64 // orders the beginnings and ends
	mu   sync.Mutex
	ops  []porcupine.Operation
}

func (i *increments) now() int64 { return i.tick.Add(1) }

// add records an increment by client from one value, which was not refused.
func (i *increments) add(client int, from int, began int64) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.ops = append(i.ops, porcupine.Operation{ClientId: client, Call: began, Output: from, Return: i.now()})
}

// String lists the increments.
func (i *increments) String() string {
	i.mu.Lock()
	defer i.mu.Unlock()
	var b strings.Builder
	for _, op := range i.ops {
		fmt.Fprintf(&b, "; client %d read %v and wrote one more, from moment %d to %d", op.ClientId, op.Output, op.Call, op.Return)
	}
	return strings.TrimPrefix(b.String(), "; ")
}

// check returns whether the increments can have happened one after the other.
func (i *increments) check() porcupine.CheckResult {
	i.mu.Lock()
	defer i.mu.Unlock()
	counter := porcupine.Model{
		Init: func() any { return 0 },
		Step: func(state, _, from any) (bool, any) { return state == from, state.(int) + 1 },
	}
	return porcupine.CheckOperationsTimeout(counter, i.ops, 30*time.Second)
}
