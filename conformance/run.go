package conformance

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"testing"
	"time"
)

// Outcome is how a case ended.
type Outcome string

const (
	Passed        Outcome = "passed"
	Failed        Outcome = "failed"
	Waived        Outcome = "waived"         // not run: see Backend.Waive
	NotApplicable Outcome = "not applicable" // the backend does not offer what the case needs
)

// Result is how a case ended on a backend.
type Result struct {
	Case    Case
	Outcome Outcome
	Reason  string // why it failed, was waived or is not applicable
	Err     error  // of a case that failed, most often a *Failure
	Elapsed time.Duration
}

// Report makes the result that of a test.
func (r Result) Report(t testing.TB) {
	t.Helper()
	switch r.Outcome {
	case Passed:
	case Failed:
		t.Error(r.Reason)
	default:
		t.Skipf("%s: %s", r.Outcome, r.Reason)
	}
}

// atOnce is how many cases run at once. Most of them wait for a lease to expire.
const atOnce = 16

// Run runs all cases on b as subtests of a subtest named conformance, and returns
// when all have ended. A case that is waived or not applicable shows as skipped,
// with the reason.
func Run(t *testing.T, b Backend) {
	t.Helper()
	if err := b.Validate(); err != nil {
		t.Fatal(err)
	}
	t.Run("conformance", func(t *testing.T) {
		slots := make(chan struct{}, atOnce)
		for _, c := range inOrder(Cases()) {
			t.Run(c.Name, func(t *testing.T) {
				if c.alone {
					b.Run(t.Context(), c).Report(t)
					return
				}
				// It starts before t.Parallel, which lets no more tests run at
				// once than there are processors; and it is only reported there.
				ctx := t.Context()
				result := make(chan Result, 1)
				go func() {
					slots <- struct{}{}
					defer func() { <-slots }()
					result <- b.Run(ctx, c)
				}()
				t.Parallel()
				(<-result).Report(t)
			})
		}
	})
}

// RunAll runs cases and yields their results in the order in which the cases end.
// It is what [Run] does, outside a test.
func (b Backend) RunAll(ctx context.Context, cases []Case) iter.Seq[Result] {
	return func(yield func(Result) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		var together []Case
		for _, c := range inOrder(cases) {
			if !c.alone {
				together = append(together, c)
			} else if !yield(b.Run(ctx, c)) {
				return
			}
		}
		results := make(chan Result, len(together))
		slots := make(chan struct{}, atOnce)
		var running sync.WaitGroup
		defer running.Wait()
		for _, c := range together {
			running.Go(func() {
				slots <- struct{}{}
				defer func() { <-slots }()
				results <- b.Run(ctx, c)
			})
		}
		for range together {
			if !yield(<-results) {
				cancel()
				return
			}
		}
	}
}

// inOrder returns the cases that must be alone before all others.
func inOrder(cases []Case) []Case {
	first, rest := make([]Case, 0, len(cases)), []Case(nil)
	for _, c := range cases {
		if c.alone {
			first = append(first, c)
		} else {
			rest = append(rest, c)
		}
	}
	return append(first, rest...)
}

// Run runs one case on b. A case that does not return in time has failed; what it
// waits for is left behind.
func (b Backend) Run(ctx context.Context, c Case) Result {
	r := Result{Case: c}
	if reason, ok := b.Waive[c.Name]; ok {
		r.Outcome, r.Reason = Waived, reason
		return r
	}
	limit := time.Minute + 100*(b.TTL+b.Grace)
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("the case took longer than %s", limit))
	defer cancel()
	began := time.Now()
	done := make(chan error, 1)
	go func() {
		e := newEnv(b)
		caseCtx, end := context.WithCancel(ctx)
		err := c.Check(caseCtx, e)
		end()
		if endErr := e.end(ctx); err == nil && endErr != nil {
			err = &Failure{Case: c.Name, Rule: c.Rule, Want: "the clients closed", Got: "Close: " + show(endErr), Where: "the end of the case"}
		}
		done <- err
	}()
	stuck := time.NewTimer(limit + 30*time.Second)
	defer stuck.Stop()
	var err error
	select {
	case err = <-done:
	case <-stuck.C:
		err = &Failure{Case: c.Name, Rule: c.Rule, Want: "each call to return in bounded time",
			Got: fmt.Sprintf("a call that runs on 30 s after its context ended at %s", limit), Where: "unknown"}
	}
	r.Elapsed = time.Since(began)
	if n, ok := errors.AsType[*notApplicable](err); ok {
		r.Outcome, r.Reason = NotApplicable, n.reason
		return r
	}
	r.Outcome = Passed
	if err != nil {
		r.Outcome, r.Reason, r.Err = Failed, err.Error(), err
	}
	return r
}
