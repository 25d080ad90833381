package memory

import (
	"context"
	"errors"
	"testing"

	"github.com/locker-go/locker"
)

func TestDiagnose(t *testing.T) {
	findings, err := New(nil).Diagnose(t.Context())
	if err != nil || locker.Worst(findings) != locker.SeverityDanger {
		t.Errorf("got %+v, %v; want a danger, since nobody else sees these locks", findings, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := New(nil).Diagnose(ctx); !errors.Is(err, locker.ErrUnavailable) || !errors.Is(err, context.Canceled) {
		t.Errorf("with a context that has ended: %v", err)
	}
}
