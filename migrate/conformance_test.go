package migrate_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/locker-go/locker"
	"github.com/locker-go/locker/backends"
	"github.com/locker-go/locker/conformance"
	"github.com/locker-go/locker/internal/testbed"
	"github.com/locker-go/locker/migrate"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// whole is a migration with the backends that were opened for it.
type whole struct {
	*migrate.Locker
	backends []locker.Locker
}

func (w *whole) Close() error {
	err := w.Locker.Close()
	for _, b := range w.backends {
		if c, ok := b.(io.Closer); ok {
			err = errors.Join(err, c.Close())
		}
	}
	return err
}

// openURLs opens a migration between the backends of two URLs.
func openURLs(ctx context.Context, from, to string, phase migrate.Phase) (*whole, error) {
	w := new(whole)
	for _, u := range []string{from, to} {
		b, err := backends.OpenLocker(ctx, u)
		if err != nil {
			return nil, errors.Join(err, w.closeBackends())
		}
		w.backends = append(w.backends, b)
	}
	m, err := migrate.New(ctx, w.backends[0], w.backends[1], &migrate.Options{Phase: phase})
	if err != nil {
		return nil, errors.Join(err, w.closeBackends())
	}
	w.Locker = m
	return w, nil
}

func (w *whole) closeBackends() (err error) {
	for _, b := range w.backends {
		if c, ok := b.(io.Closer); ok {
			err = errors.Join(err, c.Close())
		}
	}
	return err
}

// Each phase keeps the contract, and so do two neighbouring ones whose processes are
// mixed.
func TestConformance(t *testing.T) {
	t.Parallel()
	for _, phases := range [][]migrate.Phase{
		{migrate.PhaseOld}, {migrate.PhaseBoth}, {migrate.PhaseNew},
		{migrate.PhaseOld, migrate.PhaseBoth}, {migrate.PhaseBoth, migrate.PhaseNew},
	} {
		t.Run(fmt.Sprint(phases), func(t *testing.T) {
			t.Parallel()
			from, to := "redis://"+testbed.Redis(t).Addr(), "redis://"+testbed.Redis(t).Addr()
			var opened atomic.Int64
			conformance.Run(t, conformance.Backend{
				Open: func(ctx context.Context) (locker.Locker, error) {
					n := opened.Add(1)
					return openURLs(ctx, from, to, phases[int(n)%len(phases)])
				},
				TTL:   300 * time.Millisecond,
				Grace: time.Second,
			})
		})
	}
}
