package conformance_test

import (
	"slices"
	"testing"
	"testing/synctest"

	"github.com/locker-go/locker/conformance"
)

// mutant is a locker with a bug that some library shipped, or a near relation of one.
type mutant struct {
	bug     string
	kills   []string // the cases that must fail, each by itself
	backend mutantBackend
}

// mutantBackend makes a new store.
type mutantBackend = func() conformance.Backend

func mutants() []mutant {
	return slices.Concat(acquireMutants, renewMutants, releaseMutants, tokenMutants, keyMutants, errorMutants,
		waiterMutants, adminMutants, remoteMutants)
}

// by makes the backend of a mutant that is a broken memory.Locker.
func by(spoil func(*broken)) mutantBackend {
	return func() conformance.Backend { return brokenBackend(spoil) }
}

func caseNamed(t *testing.T, name string) conformance.Case {
	t.Helper()
	for _, c := range conformance.Cases() {
		if c.Name == name {
			return c
		}
	}
	t.Fatalf("no case is named %q", name)
	return conformance.Case{}
}

// inBubble runs a case where time is exact, and passes at once.
func inBubble(t *testing.T, b func() conformance.Backend, c conformance.Case) (result conformance.Result) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { result = b().Run(t.Context(), c) })
	return result
}

func TestEveryMutantIsKilledByName(t *testing.T) {
	for _, m := range mutants() {
		for _, name := range m.kills {
			t.Run(name+"/"+m.bug, func(t *testing.T) {
				c := caseNamed(t, name)
				r := inBubble(t, m.backend, c)
				f, ok := r.Err.(*conformance.Failure)
				if r.Outcome != conformance.Failed || !ok {
					t.Fatalf("the case %s: %s %v; it should have failed", r.Outcome, r.Reason, r.Err)
				}
				if f.Case != c.Name || f.Rule != c.Rule || f.Got == "" || f.Want == "" || f.Where == "" || f.Where == "unknown" {
					t.Errorf("the failure tells too little: %+v", f)
				}
				t.Log(r.Reason)
			})
		}
	}
}

func TestEveryCaseKillsAMutant(t *testing.T) {
	killers := make(map[string]bool)
	for _, m := range mutants() {
		for _, name := range m.kills {
			killers[name] = true
		}
	}
	for _, c := range conformance.Cases() {
		if !killers[c.Name] {
			t.Errorf("nothing shows that %s can fail: add a mutant that it kills", c.Name)
		}
	}
}

// TestUnbrokenPassAll shows that mutants die of their bugs, not of their frame.
func TestUnbrokenPassAll(t *testing.T) {
	frames := map[string]func() conformance.Backend{
		"memory": by(func(*broken) {}),
		"remote": remoteBackend(flaws{}),
	}
	for name, backend := range frames {
		for _, c := range conformance.Cases() {
			t.Run(name+"/"+c.Name, func(t *testing.T) {
				r := inBubble(t, backend, c)
				if r.Outcome == conformance.Failed {
					t.Error(r.Reason)
				}
				if name == "remote" && r.Outcome == conformance.NotApplicable {
					t.Errorf("not applicable: %s", r.Reason)
				}
			})
		}
	}
}
