package conformance

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
)

// Failure tells how a backend broke the rule of a case.
type Failure struct {
	Case  string
	Rule  string
	Got   string
	Want  string
	Where string // file:line of the check that failed
}

func (f *Failure) Error() string {
	return fmt.Sprintf("%s\n\tgot:  %s\n\twant: %s\n\trule: %s\n\tat:   %s", f.Case, f.Got, f.Want, f.Rule, f.Where)
}

// notApplicable says why a case cannot be checked on a backend.
type notApplicable struct{ reason string }

func (n *notApplicable) Error() string { return "not applicable: " + n.reason }

// stop unwinds a case; see body.check. Cases read as straight lines that way, and
// their Check still returns an error.
type stop struct{ err error }

// fail ends the case: it wanted one thing, and got another.
func fail(want, got string, args ...any) {
	panic(stop{&Failure{Want: want, Got: fmt.Sprintf(got, args...), Where: where()}})
}

// skip ends the case as not applicable.
func skip(reason string) { panic(stop{&notApplicable{reason}}) }

// where returns the place in the case that the failure came from. Cases stand in files
// of their own; what they share stands in steps*.go.
func where() string {
	pcs := make([]uintptr, 32)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs)])
	for {
		frame, more := frames.Next()
		name := filepath.Base(frame.File)
		if name != "failure.go" && name != "env.go" && !strings.HasPrefix(name, "steps") {
			return fmt.Sprintf("conformance/%s:%d", name, frame.Line)
		}
		if !more {
			return "unknown"
		}
	}
}

// catch turns the stop that fn ended with into its error, and any other panic into a
// failure: a backend that panics fails one case, and the others still run.
func catch(fn func()) (err error) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case stop:
			err = r.err
		default:
			err = &Failure{Want: "no panic", Got: fmt.Sprintf("panic: %v\n%s", r, debug.Stack()), Where: "see the stack"}
		}
	}()
	fn()
	return nil
}

type body func(ctx context.Context, e *Env)

func newCase(level Level, name, rule string, run body) Case {
	return Case{Name: name, Rule: rule, Level: level, Check: func(ctx context.Context, e *Env) error {
		err := catch(func() { run(ctx, e) })
		if f, ok := errors.AsType[*Failure](err); ok {
			f.Case, f.Rule = name, rule
		}
		return err
	}}
}

func must(name, rule string, run body) Case   { return newCase(Must, name, rule, run) }
func should(name, rule string, run body) Case { return newCase(Should, name, rule, run) }

// alone marks a case during which no other may run.
func alone(c Case) Case {
	c.alone = true
	return c
}

// show prints an error in one line, nil too.
func show(err error) string {
	if err == nil {
		return "no error"
	}
	return strings.ReplaceAll(err.Error(), "\n", "; ")
}
