package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/locker-go/locker"
	"github.com/locker-go/locker/memory"
)

// patient is a backend that finds what a test says, and fails as it says.
type patient struct {
	locker.Locker
	findings        []locker.Finding
	diagnoseErr     error
	renewErr        error
	acquired, ended int
}

func (p *patient) Diagnose(context.Context) ([]locker.Finding, error) {
	return p.findings, p.diagnoseErr
}

func (p *patient) Acquire(ctx context.Context, key string, ttl time.Duration) (locker.Lease, error) {
	p.acquired++
	return p.Locker.Acquire(ctx, key, ttl)
}

func (p *patient) Renew(ctx context.Context, lease locker.Lease, ttl time.Duration) (locker.Lease, error) {
	if p.renewErr != nil {
		return lease, p.renewErr
	}
	return p.Locker.Renew(ctx, lease, ttl)
}

func (p *patient) Release(ctx context.Context, lease locker.Lease) error {
	p.ended++
	return p.Locker.Release(ctx, lease)
}

// plain is a backend of a third party that has only what every one must have.
type plain struct{ locker.Locker }

var down = &locker.OpError{Op: "renew", Backend: "third", Err: fmt.Errorf("%w: gone away", locker.ErrUnavailable)}

func TestExamine(t *testing.T) {
	ctx := t.Context()
	key := doctorOptions{key: "k"}

	findings, err := examine(ctx, plain{memory.New(nil)}, key)
	if err != nil || len(findings) != 2 || findings[0].Severity != locker.SeverityOK || findings[1].Severity != locker.SeverityUnknown {
		t.Errorf("a backend that does not diagnose itself: %+v, %v; want that to be unknown, and its lock to be tried", findings, err)
	}

	seen := []locker.Finding{{Check: "moon", Severity: locker.SeverityWarning, Observed: "full"}}
	p := &patient{Locker: memory.New(nil), findings: seen, renewErr: down}
	findings, err = examine(ctx, p, key)
	if err != nil || len(findings) != 2 || findings[0].Severity != locker.SeverityDanger || !strings.Contains(findings[0].Reason, "gone away") || p.ended != 1 {
		t.Errorf("a lock that cannot be renewed: %+v, %v, given back %d times; want a danger, and it given back", findings, err, p.ended)
	}

	p = &patient{Locker: memory.New(nil), findings: seen, diagnoseErr: down}
	if findings, err = examine(ctx, p, key); !errors.Is(err, locker.ErrUnavailable) || len(findings) != 1 || p.acquired != 0 {
		t.Errorf("a backend that went away: %+v, %v, %d attempts; want what was seen, and no attempt at a lock", findings, err, p.acquired)
	}
}

func TestDiagnosisIsFitToPrint(t *testing.T) {
	const canary = "c4n4ry"
	raw := "redis://user:" + canary + "@h?password_file=/run/p"
	d := newDiagnosis(raw, []locker.Finding{
		{Check: "fine", Severity: locker.SeverityOK, Observed: "yes"},
		{Check: "moon\x1b[31m", Target: "a\tb", Severity: "red\x07", Observed: "full\nhalf", Reason: "of http://user:" + canary + "@h", Remedy: "wait\r\n"},
		{Check: "sun", Severity: locker.SeverityWarning, Observed: "down", Reason: "It is night."},
	}, fmt.Errorf("redis://user:%s@h is\ngone", canary))
	var text, document bytes.Buffer
	if err := (&app{out: &text}).printDiagnosis(d); err != nil {
		t.Fatal(err)
	}
	if err := (&app{out: &document, json: true}).printDiagnosis(d); err != nil {
		t.Fatal(err)
	}
	want := `CHECK      TARGET  VERDICT  SEEN
fine       -       ok       yes
moon?[31m  a b     unknown  full half
sun        -       warning  down

warning: sun: down
  It is night.

unknown: moon?[31m at a b: full half
  of http://xxxxx@h
  To do: wait  

0 danger, 1 warning, 1 unknown, 0 info, 1 ok: not all could be checked
`
	if text.String() != want {
		t.Errorf("got\n%s\nwant\n%s", text.String(), want)
	}
	var back diagnosis
	if err := json.Unmarshal(document.Bytes(), &back); err != nil {
		t.Fatal(err)
	}
	if back.URL != "redis://user:xxxxx@h?password_file=%2Frun%2Fp" || back.Verdict != locker.SeverityWarning || len(back.Findings) != 3 || back.Error != "redis://xxxxx@h is gone" {
		t.Errorf("as JSON: %s", document.String())
	}
	if strings.Count(document.String(), "\n") != 1 || strings.Contains(text.String()+document.String(), canary) {
		t.Errorf("more than one document, or a password: %s", document.String())
	}
}

func TestVerdictAsExitCode(t *testing.T) {
	for _, test := range []struct {
		verdict       locker.Severity
		plain, strict bool // whether it endangers locks
	}{
		{locker.SeverityOK, false, false},
		{locker.SeverityInfo, false, false},
		{locker.SeverityUnknown, false, true},
		{locker.SeverityWarning, false, true},
		{locker.SeverityDanger, true, true},
		{"a word of somebody else's", false, true},
	} {
		for strict, want := range map[bool]bool{false: test.plain, true: test.strict} {
			d := diagnosis{Verdict: test.verdict}
			err := d.verdict(strict)
			if e, ok := errors.AsType[*exitError](err); ok != want || ok && e.code != exitEndangered {
				t.Errorf("%s, strict %t: %v, want an exit code for danger: %t", test.verdict, strict, err, want)
			}
		}
	}
}
