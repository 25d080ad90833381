package memory

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/locker-go/locker"
	"github.com/locker-go/locker/conformance"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// backend returns a new store, of which each client is a Locker.
func backend() conformance.Backend {
	store := new(Store)
	return conformance.Backend{
		Open: func(context.Context) (locker.Locker, error) { return New(store), nil },
		TTL:  100 * time.Millisecond,
	}
}

func TestConformance(t *testing.T) { conformance.Run(t, backend()) }

// TestConformanceInBubbles runs each case in a bubble, in which time is exact.
func TestConformanceInBubbles(t *testing.T) {
	for _, c := range conformance.Cases() {
		t.Run(c.Name, func(t *testing.T) {
			var result conformance.Result
			synctest.Test(t, func(t *testing.T) { result = backend().Run(t.Context(), c) })
			result.Report(t)
		})
	}
}
