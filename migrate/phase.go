package migrate

import (
	"fmt"

	"github.com/locker-go/locker"
)

// Phase says which stores a process takes locks in. Processes in neighbouring phases
// exclude each other.
type Phase string

const (
	PhaseOld  Phase = "old"  // in the store that is left
	PhaseBoth Phase = "both" // in both, the old one first
	PhaseNew  Phase = "new"  // in the store that is moved to
)

// phases in their order.
var phases = []Phase{PhaseOld, PhaseBoth, PhaseNew}

// ParsePhase returns the phase of that name.
func ParsePhase(name string) (Phase, error) {
	for _, p := range phases {
		if string(p) == name {
			return p, nil
		}
	}
	return "", fmt.Errorf("%w: a phase is old, both or new", locker.ErrInvalid)
}

// distance returns how many steps lie between two phases.
func (p Phase) distance(q Phase) int {
	var at, to int
	for i, r := range phases {
		if r == p {
			at = i
		}
		if r == q {
			to = i
		}
	}
	return max(at-to, to-at)
}

// side is one of the two stores.
type side int

const (
	from side = iota
	to
)

func (s side) other() side { return 1 - s }

func (s side) String() string { return [...]string{"old", "new"}[s] }

// sides returns the stores that a phase takes locks in, in the order in which it does.
func (p Phase) sides() []side {
	switch p {
	case PhaseOld:
		return []side{from}
	case PhaseNew:
		return []side{to}
	default:
		return []side{from, to}
	}
}
