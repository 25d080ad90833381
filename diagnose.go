package locker

import (
	"context"
	"slices"
)

// Diagnoser is implemented by a backend that can tell what in the configuration and
// the state of its store endangers locks.
type Diagnoser interface {
	// Diagnose checks the store, each of its servers where it has several. It takes
	// no lock, changes nothing that lasts, and returns in bounded time.
	//
	// What the store would not tell, for want of rights or because it never does, is
	// a finding of SeverityUnknown, not an error. An error says that the store gave no
	// usable answer; what was found before is returned with it.
	Diagnose(ctx context.Context) ([]Finding, error)
}

// Finding is the result of one check, good or bad.
type Finding struct {
	// Check names what was checked by a word for programs, such as eviction. One
	// check has one finding for each target.
	Check string `json:"check"`

	// Target is what the check looked at: the address of a server, the name of a
	// member, a directory. It is empty for the store as a whole.
	Target string `json:"target,omitempty"`

	Severity Severity `json:"severity"`

	// Observed is what was seen, in a few words. It has no secret in it.
	Observed string `json:"observed"`

	// Reason says why that matters to locks, Remedy what to do about it. They are
	// empty where there is nothing to say.
	Reason string `json:"reason,omitempty"`
	Remedy string `json:"remedy,omitempty"`
}

// Severity says how much a [Finding] endangers locks.
type Severity string

// The severities, the best first. Whatever the severity, a holder that outlives its
// lease is what fencing tokens are for.
const (
	// SeverityOK: there is nothing to do.
	SeverityOK Severity = "ok"

	// SeverityInfo: good to know, and nothing that must be done.
	SeverityInfo Severity = "info"

	// SeverityUnknown: the store would not tell. It may be good or bad.
	SeverityUnknown Severity = "unknown"

	// SeverityWarning: locks hold as long as nothing fails. A failure that happens to
	// servers (a restart, a failover, a full disk) can give one lock to two, make
	// tokens depend on clocks, or stop all locking for longer than need be.
	SeverityWarning Severity = "warning"

	// SeverityDanger: locks do not keep their promise as things are. With no further
	// failure, one lock can go to two, or no lock can be taken.
	SeverityDanger Severity = "danger"
)

var severities = []Severity{SeverityOK, SeverityInfo, SeverityUnknown, SeverityWarning, SeverityDanger}

// Compare returns a negative number if s is better than other, a positive one if it is
// worse, and else 0. A word that is none of the above counts as SeverityUnknown.
func (s Severity) Compare(other Severity) int { return s.rank() - other.rank() }

func (s Severity) rank() int {
	if i := slices.Index(severities, s); i >= 0 {
		return i
	}
	return slices.Index(severities, SeverityUnknown)
}

// Worst returns the worst severity among findings, SeverityOK if there are none.
func Worst(findings []Finding) Severity {
	worst := SeverityOK
	for _, f := range findings {
		if f.Severity.Compare(worst) > 0 {
			worst = f.Severity
		}
	}
	return worst
}
