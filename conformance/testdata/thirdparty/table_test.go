package thirdparty

import (
	"context"
	"testing"
	"time"

	"github.com/locker-go/locker"
	"github.com/locker-go/locker/conformance"
)

func TestConformance(t *testing.T) {
	table := new(Table)
	conformance.Run(t, conformance.Backend{
		Open: func(context.Context) (locker.Locker, error) { return &Client{table}, nil },
		TTL:  100 * time.Millisecond,
	})
}
