package conformance_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/locker-go/locker"
	"github.com/locker-go/locker/conformance"
	"github.com/locker-go/locker/memory"
)

func good() conformance.Backend { return brokenBackend(func(*broken) {}) }

func TestCasesAreWellFormed(t *testing.T) {
	seen := make(map[string]bool)
	for _, c := range conformance.Cases() {
		method, condition, ok := strings.Cut(c.Name, "/")
		if !ok || method == "" || condition == "" || seen[c.Name] {
			t.Errorf("the name %q: want Method/condition, each once", c.Name)
		}
		seen[c.Name] = true
		if !strings.HasSuffix(c.Rule, ".") || len(c.Rule) < 20 {
			t.Errorf("%s: the rule %q is no sentence", c.Name, c.Rule)
		}
		if c.Level != conformance.Must && c.Level != conformance.Should {
			t.Errorf("%s: level %q", c.Name, c.Level)
		}
	}
	if len(seen) < 100 {
		t.Errorf("%d cases", len(seen))
	}
}

func TestValidate(t *testing.T) {
	tests := map[string]struct {
		change func(*conformance.Backend)
		want   string // none if empty
	}{
		"good":            {func(*conformance.Backend) {}, ""},
		"no Open":         {func(b *conformance.Backend) { b.Open = nil }, "no Open"},
		"no TTL":          {func(b *conformance.Backend) { b.TTL = 0 }, "the TTL is 0s"},
		"negative Grace":  {func(b *conformance.Backend) { b.Grace = -1 }, "Grace"},
		"a SHOULD case":   {waive("Waiter/few requests", "it polls"), ""},
		"a MUST case":     {waive("Release/twice", "it polls"), `"Release/twice", which no backend may break`},
		"an unknown name": {waive("Release/thrice", "it polls"), `"Release/thrice", which is no case`},
		"no reason":       {waive("Waiter/few requests", ""), "has no reason"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			b := good()
			test.change(&b)
			err := b.Validate()
			switch {
			case test.want == "" && err != nil:
				t.Error(err)
			case test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)):
				t.Errorf("Validate: %v; want one with %q", err, test.want)
			}
		})
	}
}

func waive(name, reason string) func(*conformance.Backend) {
	return func(b *conformance.Backend) { b.Waive = map[string]string{name: reason} }
}

func TestOutcomes(t *testing.T) {
	release := caseNamed(t, "Release/twice")
	requests := caseNamed(t, "Waiter/few requests")
	lost := caseNamed(t, "Acquire/lost reply")
	local := caseNamed(t, "Lease/JSON")
	waived := good()
	waive(requests.Name, "it polls")(&waived)
	bound := good()
	bound.Local = true
	closed := good()
	closed.Open = func(context.Context) (locker.Locker, error) { return nil, errors.New("no server") }
	tests := []struct {
		name    string
		backend conformance.Backend
		c       conformance.Case
		want    conformance.Outcome
		reason  string
	}{
		{"passed", good(), release, conformance.Passed, ""},
		{"waived", waived, requests, conformance.Waived, "it polls"},
		{"without a fault", good(), lost, conformance.NotApplicable, "no fault LoseReply offered"},
		{"local", bound, local, conformance.NotApplicable, "Local: leases are bound to their client"},
		{"no client", closed, release, conformance.Failed, "no server"},
		{"no Admin", withoutAdmin(), caseNamed(t, "Inspect/held"), conformance.NotApplicable, "no Admin"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			r := test.backend.Run(t.Context(), test.c)
			if r.Outcome != test.want || !strings.Contains(r.Reason, test.reason) || r.Case.Name != test.c.Name {
				t.Errorf("%s: %s %q; want %s with %q", r.Case.Name, r.Outcome, r.Reason, test.want, test.reason)
			}
			if (r.Err != nil) != (test.want == conformance.Failed) {
				t.Errorf("the error %v of a case that %s", r.Err, r.Outcome)
			}
		})
	}
}

// withoutAdmin returns a backend that has the four methods and no more.
func withoutAdmin() conformance.Backend {
	store := new(memory.Store)
	return conformance.Backend{
		TTL:  50 * time.Millisecond,
		Open: func(context.Context) (locker.Locker, error) { return struct{ locker.Locker }{memory.New(store)}, nil },
	}
}

// The smallest backend passes: what it lacks is reported, and is no failure.
func TestBackendWithFourMethods(t *testing.T) {
	for _, c := range conformance.Cases() {
		var r conformance.Result
		synctest.Test(t, func(t *testing.T) { r = withoutAdmin().Run(t.Context(), c) })
		if r.Outcome == conformance.Failed {
			t.Error(r.Reason)
		}
	}
}

func TestRunAllYieldsEveryCase(t *testing.T) {
	b := good()
	waive("Waiter/few requests", "it polls")(&b)
	missing := make(map[string]bool)
	var few []conformance.Case
	for i, c := range conformance.Cases() {
		if i%4 == 0 || c.Name == "Waiter/few requests" {
			few = append(few, c)
			missing[c.Name] = true
		}
	}
	outcomes := make(map[conformance.Outcome]int)
	for r := range b.RunAll(t.Context(), few) {
		delete(missing, r.Case.Name)
		outcomes[r.Outcome]++
	}
	if len(missing) > 0 || outcomes[conformance.Failed] > 0 || outcomes[conformance.Waived] != 1 || outcomes[conformance.NotApplicable] == 0 {
		t.Errorf("outcomes %v, without %v", outcomes, slices.Sorted(maps.Keys(missing)))
	}
}

func TestRunAllCanBeStopped(t *testing.T) {
	var keys []conformance.Case
	for _, c := range conformance.Cases() {
		if strings.HasPrefix(c.Name, "Keys/") {
			keys = append(keys, c)
		}
	}
	yielded := 0
	for range good().RunAll(t.Context(), keys) {
		if yielded++; yielded == 5 {
			break
		}
	}
	if yielded != 5 {
		t.Errorf("%d results", yielded)
	}
}

// A case that disturbs the store has it to itself.
func TestFaultCasesRunAlone(t *testing.T) {
	b := remoteBackend(flaws{})()
	var running, most atomic.Int32
	count := func(alone bool, check func(context.Context, *conformance.Env) error) func(context.Context, *conformance.Env) error {
		return func(ctx context.Context, e *conformance.Env) error {
			now := running.Add(1)
			defer running.Add(-1)
			if alone && now != 1 {
				most.Store(now)
			}
			return check(ctx, e)
		}
	}
	var cases []conformance.Case
	for _, c := range conformance.Cases() {
		if strings.HasPrefix(c.Name, "Keys/") || strings.HasSuffix(c.Name, "/lost reply") {
			c.Check = count(strings.HasSuffix(c.Name, "/lost reply"), c.Check)
			cases = append(cases, c)
		}
	}
	for r := range b.RunAll(t.Context(), cases) {
		if r.Outcome != conformance.Passed {
			t.Errorf("%s %s: %s", r.Case.Name, r.Outcome, r.Reason)
		}
	}
	if most.Load() != 0 {
		t.Errorf("%d cases ran beside one with a fault", most.Load()-1)
	}
}

// What a case leaves held, and its clients, are given back whatever its outcome.
func TestCasesLeaveNothingBehind(t *testing.T) {
	store := new(memory.Store)
	var mu sync.Mutex
	open := 0
	b := conformance.Backend{
		TTL: 50 * time.Millisecond,
		Open: func(context.Context) (locker.Locker, error) {
			mu.Lock()
			defer mu.Unlock()
			open++
			return &closing{memory.New(store), func() {
				mu.Lock()
				defer mu.Unlock()
				open--
			}}, nil
		},
	}
	for _, c := range conformance.Cases() {
		synctest.Test(t, func(t *testing.T) { b.Run(t.Context(), c) })
	}
	for h, err := range memory.New(store).Holdings(t.Context(), "") {
		t.Errorf("%q is still held: %v", h.Key, err)
	}
	if open != 0 {
		t.Errorf("%d clients are still open", open)
	}
}

type closing struct {
	*memory.Locker
	onClose func()
}

func (c *closing) Close() error {
	c.onClose()
	return nil
}

// A backend that does not return fails its case, and does not stop the run.
func TestStuckCallFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		free := make(chan struct{})
		b := brokenBackend(func(b *broken) {
			b.release = func(context.Context, locker.Lease) error {
				<-free
				return nil
			}
		})
		r := b.Run(t.Context(), caseNamed(t, "Release/twice"))
		if r.Outcome != conformance.Failed || !strings.Contains(r.Reason, "bounded time") {
			t.Errorf("%s: %s", r.Outcome, r.Reason)
		}
		close(free)
	})
}

func TestPanicFails(t *testing.T) {
	b := brokenBackend(func(b *broken) {
		b.release = func(context.Context, locker.Lease) error { panic("a bug") }
	})
	r := b.Run(t.Context(), caseNamed(t, "Exclusion/contention"))
	if r.Outcome != conformance.Failed || !strings.Contains(r.Reason, "panic: a bug") {
		t.Errorf("%s: %s", r.Outcome, r.Reason)
	}
}

func TestFailureSaysAll(t *testing.T) {
	b := brokenBackend(func(b *broken) {
		b.release = func(context.Context, locker.Lease) error { return nil }
	})
	c := caseNamed(t, "Release/twice")
	r := b.Run(t.Context(), c)
	for _, part := range []string{c.Name, "got:", "no error", "want:", locker.ErrNotHeld.Error(), "rule: " + c.Rule, "conformance/release.go:"} {
		if !strings.Contains(r.Reason, part) {
			t.Errorf("the failure lacks %q:\n%s", part, r.Reason)
		}
	}
}
