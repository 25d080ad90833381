package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/locker-go/locker/conformance"
)

func TestSuiteKeepsApart(t *testing.T) {
	dir := t.TempDir()
	for _, test := range []struct{ raw, want string }{
		{"redis://u:p@h:1/0", `^redis://u:p@h:1/0\?namespace=conformance-\w{26}$`},
		{"redis+cluster://h1:1,h2?tls=true", `^redis\+cluster://h1:1,h2\?namespace=conformance-\w{26}&tls=true$`},
		{"redis://h?namespace=mine", `^redis://h\?namespace=mine$`},
		{"redis://h?namespace=", `^redis://h\?namespace=$`},
		{"redis://h?%zz", `^redis://h\?%zz$`},
		{"memory://", `^memory://\?namespace=conformance-\w{26}$`},
		{"file://relative", `^file://relative$`},
		{"file://" + dir + "/new%20one", `^file://` + dir + `/new%20one/conformance-\d+\?namespace=conformance-\w{26}$`},
	} {
		own, cleanUp, err := apart(test.raw)
		if err != nil || !regexp.MustCompile(test.want).MatchString(own) {
			t.Errorf("apart(%q) = %q, %v; want %s", test.raw, own, err, test.want)
			continue
		}
		if err := cleanUp(); err != nil {
			t.Error(err)
		}
	}
	if left, err := os.ReadDir(filepath.Join(dir, "new one")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestReport(t *testing.T) {
	result := func(name string, outcome conformance.Outcome, reason string) conformance.Result {
		return conformance.Result{
			Case:    conformance.Case{Name: name, Rule: "a rule", Level: conformance.Must},
			Outcome: outcome, Reason: reason, Elapsed: time.Second,
		}
	}
	passed := result("A/passed", conformance.Passed, "")
	absent := result("B/absent", conformance.NotApplicable, "no fault")
	failed := result("C/failed", conformance.Failed, "got redis://u:c4n4ry@h, want nothing")
	for _, test := range []struct {
		name    string
		results []conformance.Result
		json    bool
		code    int
		want    []string
	}{
		{"good", []conformance.Result{passed, absent}, false, 0, []string{"A/passed", "not applicable: no fault", "1 passed, 0 failed, 1 not applicable"}},
		{"bad", []conformance.Result{passed, failed}, false, exitFailed, []string{"C/failed", "got redis://xxxxx@h, want nothing", "1 passed, 1 failed"}},
		{"bad as JSON", []conformance.Result{passed, failed}, true, exitFailed, []string{`"outcome":"failed","reason":"got redis://xxxxx@h, want nothing"`}},
	} {
		t.Run(test.name, func(t *testing.T) {
			var out bytes.Buffer
			err := (&app{out: &out, json: test.json}).report(test.results)
			code := 0
			if exit, ok := errors.AsType[*exitError](err); ok {
				code, err = exit.code, exit.err
			}
			if err != nil || code != test.code {
				t.Errorf("got exit code %d and %v, want %d", code, err, test.code)
			}
			for _, want := range test.want {
				if !strings.Contains(out.String(), want) {
					t.Errorf("%q is missing in\n%s", want, out.String())
				}
			}
			if strings.Contains(out.String(), "c4n4ry") {
				t.Errorf("a password is shown:\n%s", out.String())
			}
		})
	}
}
