//go:build linux || darwin

package file

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/locker-go/locker"
	"github.com/locker-go/locker/conformance"
)

// disk is a directory that the suite disturbs, with the machine that it is in.
type disk struct {
	dir      string
	delay    atomic.Int64 // of a change
	lose     atomic.Bool  // the outcome of the next change
	boots    atomic.Int64
	booted   atomic.Int64 // since the real boot
	readings atomic.Int64 // of the clock, of which each attempt makes one at least
}

func (d *disk) open(context.Context) (locker.Locker, error) {
	l, err := New(d.dir, nil)
	if err != nil {
		return nil, err
	}
	clock := l.clock
	l.clock = func() moment {
		d.readings.Add(1)
		now := clock()
		return moment{fmt.Sprint("boot ", d.boots.Load()), now.up - time.Duration(d.booted.Load()), now.wall}
	}
	l.sync = func(f *os.File) error {
		if f.Name() != l.dir {
			time.Sleep(time.Duration(d.delay.Load()))
		} else if d.lose.CompareAndSwap(true, false) {
			return errors.New("an I/O error after the change")
		}
		return f.Sync()
	}
	return l, nil
}

func (d *disk) faults(t *testing.T) conformance.Faults {
	real, err := machineClock()
	if err != nil {
		t.Fatal(err)
	}
	return conformance.Faults{
		// As if the file system was not mounted any more.
		Cut: func(context.Context) (func() error, error) {
			away := d.dir + " away"
			return func() error { return os.Rename(away, d.dir) }, os.Rename(d.dir, away)
		},
		Delay: func(_ context.Context, by time.Duration) (func() error, error) {
			d.delay.Store(int64(by))
			return func() error { d.delay.Store(0); return nil }, nil
		},
		LoseReply: func(context.Context) error { d.lose.Store(true); return nil },
		Restart: func(context.Context) error {
			d.booted.Store(int64(real().up))
			d.boots.Add(1)
			return nil
		},
		Wipe: func(context.Context) error {
			states, err := filepath.Glob(filepath.Join(d.dir, "*", "*.state"))
			for _, path := range states {
				err = errors.Join(err, os.Remove(path))
			}
			return err
		},
		Requests: func(context.Context) (int64, error) { return d.readings.Load(), nil },
	}
}

func TestConformance(t *testing.T) {
	d := &disk{dir: filepath.Join(t.TempDir(), "locks")}
	conformance.Run(t, conformance.Backend{Open: d.open, TTL: 500 * time.Millisecond, Faults: d.faults(t)})
}
