package locker_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/locker-go/locker"
)

func TestWorst(t *testing.T) {
	const ok, info, unknown, warning, danger = locker.SeverityOK, locker.SeverityInfo, locker.SeverityUnknown, locker.SeverityWarning, locker.SeverityDanger
	for _, test := range []struct {
		found []locker.Severity
		want  locker.Severity
	}{
		{nil, ok},
		{[]locker.Severity{ok, ok}, ok},
		{[]locker.Severity{info, ok}, info},
		{[]locker.Severity{ok, unknown, info}, unknown},
		{[]locker.Severity{warning, unknown}, warning},
		{[]locker.Severity{warning, danger, ok}, danger},
		{[]locker.Severity{"critical", ok}, "critical"}, // a word of somebody else's: not known to be good
		{[]locker.Severity{"critical", warning}, warning},
	} {
		var findings []locker.Finding
		for _, s := range test.found {
			findings = append(findings, locker.Finding{Severity: s})
		}
		if got := locker.Worst(findings); got != test.want {
			t.Errorf("the worst of %q is %q, want %q", test.found, got, test.want)
		}
	}
}

// diagnosed is a backend that finds something.
type diagnosed struct{ locker.Locker }

func (diagnosed) Diagnose(context.Context) ([]locker.Finding, error) {
	return []locker.Finding{{Check: "eviction", Severity: locker.SeverityDanger, Observed: "allkeys-lru"}}, nil
}

func TestDiagnoserIsFoundThroughWrappers(t *testing.T) {
	d, ok := locker.As[locker.Diagnoser](wrapper{diagnosed{newFake()}})
	if !ok {
		t.Fatal("it is not found")
	}
	findings, err := d.Diagnose(t.Context())
	if err != nil || locker.Worst(findings) != locker.SeverityDanger {
		t.Errorf("%v, %v", findings, err)
	}
	if _, ok := locker.As[locker.Diagnoser](wrapper{newFake()}); ok {
		t.Error("one is found where there is none")
	}
}

func TestFindingAsJSON(t *testing.T) {
	got, err := json.Marshal([]locker.Finding{
		{Check: "version", Severity: locker.SeverityOK, Observed: "7.0.15"},
		{Check: "eviction", Target: "h:6379", Severity: locker.SeverityDanger, Observed: "allkeys-lru", Reason: "why", Remedy: "what"},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := `[{"check":"version","severity":"ok","observed":"7.0.15"},` +
		`{"check":"eviction","target":"h:6379","severity":"danger","observed":"allkeys-lru","reason":"why","remedy":"what"}]`
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Error(diff)
	}
}
