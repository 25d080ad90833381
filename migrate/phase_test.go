package migrate_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/locker-go/locker"
	"github.com/locker-go/locker/internal/testbed"
	"github.com/locker-go/locker/memory"
	"github.com/locker-go/locker/migrate"
)

const ttl = 30 * time.Second

func open(t *testing.T, from, to string, phase migrate.Phase) *whole {
	t.Helper()
	w, err := openURLs(t.Context(), from, to, phase)
	if err != nil {
		t.Fatalf("open in phase %s: %v", phase, err)
	}
	t.Cleanup(func() {
		if err := w.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return w
}

// held says in which of the two stores a key is held.
func (w *whole) held(t *testing.T, key string) (old, renewed bool) {
	t.Helper()
	var in [2]bool
	for s, b := range w.backends {
		_, err := b.(locker.Admin).Inspect(t.Context(), key)
		if err != nil && !errors.Is(err, locker.ErrNotHeld) {
			t.Fatalf("inspect: %v", err)
		}
		in[s] = err == nil
	}
	return in[0], in[1]
}

// Two processes go from the old store to the new one and back, one after the other, with a
// hold that lasts throughout. At each step they exclude each other, the hold goes on
// with its token, and tokens rise.
func TestThereAndBack(t *testing.T) {
	t.Parallel()
	from, to := "redis://"+testbed.Redis(t).Addr(), "redis://"+testbed.Redis(t).Addr()
	a, b := open(t, from, to, migrate.PhaseOld), open(t, from, to, migrate.PhaseOld)
	ctx := t.Context()
	long, err := a.Acquire(ctx, "long", ttl)
	if err != nil {
		t.Fatal(err)
	}
	var last locker.Token
	check := func(phases string) {
		t.Helper()
		if _, err := b.Acquire(ctx, "long", ttl); !errors.Is(err, locker.ErrHeld) {
			t.Errorf("%s: acquire of what the other holds = %v, want ErrHeld", phases, err)
		}
		if token, err := a.FenceToken(ctx, long); err != nil || token != long.Token {
			t.Errorf("%s: the hold has token %d, %v; want %d", phases, token, err, long.Token)
		}
		for _, pair := range [][2]*whole{{a, b}, {b, a}} {
			lease, err := pair[0].Acquire(ctx, "k", ttl)
			if err != nil {
				t.Fatalf("%s: acquire: %v", phases, err)
			}
			if lease.Token <= last {
				t.Errorf("%s: token %d after %d", phases, lease.Token, last)
			}
			last = lease.Token
			if _, err := pair[1].Acquire(ctx, "k", ttl); !errors.Is(err, locker.ErrHeld) {
				t.Errorf("%s: a rival's acquire = %v, want ErrHeld", phases, err)
			}
			if err := pair[0].Release(ctx, lease); err != nil {
				t.Errorf("%s: release: %v", phases, err)
			}
		}
	}
	check("old, old")
	for _, phase := range []migrate.Phase{migrate.PhaseBoth, migrate.PhaseNew, migrate.PhaseBoth, migrate.PhaseOld} {
		for name, w := range map[string]*whole{"first": b, "second": a} {
			if err := w.SetPhase(ctx, phase); err != nil {
				t.Fatalf("to %s: %v", phase, err)
			}
			check(string(a.Phase()) + ", " + string(b.Phase()))
			_ = name
		}
		if long, err = a.Renew(ctx, long, ttl); err != nil {
			t.Fatalf("renew in phase %s: %v", phase, err)
		}
		old, renewed := a.held(t, "long")
		if wantOld, wantNew := phase != migrate.PhaseNew, phase != migrate.PhaseOld; old != wantOld || renewed != wantNew {
			t.Errorf("renewed in phase %s it is held in the old store: %v, in the new one: %v; want %v and %v", phase, old, renewed, wantOld, wantNew)
		}
		check(string(a.Phase()) + ", " + string(b.Phase()))
	}
	if err := a.Release(ctx, long); err != nil {
		t.Errorf("release: %v", err)
	}
	if old, renewed := a.held(t, "long"); old || renewed {
		t.Errorf("released it is held in the old store: %v, in the new one: %v", old, renewed)
	}
}

// Two steps at once are refused: by one process, and where another lives two phases away.
func TestTwoSteps(t *testing.T) {
	t.Parallel()
	from, to := "redis://"+testbed.Redis(t).Addr(), "redis://"+testbed.Redis(t).Addr()
	ctx := t.Context()
	first := open(t, from, to, migrate.PhaseOld)
	if err := first.SetPhase(ctx, migrate.PhaseNew); !errors.Is(err, locker.ErrInvalid) || !strings.Contains(err.Error(), "both") {
		t.Errorf("from old to new = %v; want ErrInvalid that names both", err)
	}
	if _, err := openURLs(ctx, from, to, migrate.PhaseNew); !errors.Is(err, locker.ErrInvalid) || !strings.Contains(err.Error(), "(old)") {
		t.Errorf("opened in phase new beside one in phase old = %v; want ErrInvalid that names it", err)
	}
	second := open(t, from, to, migrate.PhaseBoth)
	if err := second.SetPhase(ctx, migrate.PhaseNew); !errors.Is(err, locker.ErrInvalid) {
		t.Errorf("to new while another is in old = %v, want ErrInvalid", err)
	}
	if second.Phase() != migrate.PhaseBoth {
		t.Errorf("after a step that was refused it is in phase %s", second.Phase())
	}
	// A hold that was not carried over keeps its process where it was.
	lease, err := first.Acquire(ctx, "k", ttl)
	if err != nil {
		t.Fatal(err)
	}
	if err := first.SetPhase(ctx, migrate.PhaseBoth); err != nil {
		t.Fatal(err)
	}
	soon, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
	defer cancel()
	if err := first.SetPhase(soon, migrate.PhaseNew); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), `"k"`) {
		t.Errorf("to new with a hold in the old store alone = %v; want the context's error, and the key", err)
	}
	if err := second.SetPhase(ctx, migrate.PhaseNew); !errors.Is(err, locker.ErrInvalid) {
		t.Errorf("another to new meanwhile = %v, want ErrInvalid", err)
	}
	if _, err := first.Renew(ctx, lease, ttl); err != nil {
		t.Fatal(err)
	}
	for _, w := range []*whole{first, second} {
		// What shows the phase of before is taken away in the background.
		for err = w.SetPhase(ctx, migrate.PhaseNew); errors.Is(err, locker.ErrInvalid); err = w.SetPhase(ctx, migrate.PhaseNew) {
			time.Sleep(10 * time.Millisecond)
		}
		if err != nil {
			t.Errorf("to new when the hold was carried over: %v", err)
		}
	}
}

// plain has no Admin.
type plain struct{ locker.Locker }

func TestRefused(t *testing.T) {
	m := memory.New(nil)
	for name, tt := range map[string]struct {
		from, to locker.Locker
		phase    migrate.Phase
		text     string
	}{
		"no Admin": {plain{m}, m, "", "does not implement locker.Admin"},
		"nil":      {m, nil, "", "nil"},
		"a phase":  {m, m, "halfway", "old, both or new"},
	} {
		l, err := migrate.New(t.Context(), tt.from, tt.to, &migrate.Options{Phase: tt.phase})
		if err == nil {
			_ = l.Close()
		}
		if !errors.Is(err, locker.ErrInvalid) || !strings.Contains(err.Error(), tt.text) {
			t.Errorf("%s: New = %v; want ErrInvalid with %q", name, err, tt.text)
		}
	}
}
