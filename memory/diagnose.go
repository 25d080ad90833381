package memory

import (
	"context"
	"fmt"

	"github.com/locker-go/locker"
)

var _ locker.Diagnoser = (*Locker)(nil)

// Diagnose finds what cannot be otherwise.
func (l *Locker) Diagnose(ctx context.Context) ([]locker.Finding, error) {
	if ctx.Err() != nil {
		return nil, fail("diagnose", "", fmt.Errorf("%w: %w", locker.ErrUnavailable, locker.Ended(ctx)))
	}
	return []locker.Finding{{
		Check: "scope", Severity: locker.SeverityDanger, Observed: "the memory of one process",
		Reason: "Its locks exclude no other process, and end with this one.",
		Remedy: "Use it for tests. For the processes of one machine use file://, for several machines a backend with servers.",
	}}, nil
}
