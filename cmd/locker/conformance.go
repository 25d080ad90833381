package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/locker-go/locker"
	"github.com/locker-go/locker/backends"
	"github.com/locker-go/locker/conformance"
)

const notTested = "Not tested: faults. What a server does when it restarts, loses data, or cannot be reached is tested by those who can do that to it, with the package conformance."

func (a *app) conformanceCommand() *cobra.Command {
	var (
		pattern string
		suite   conformance.Backend
	)
	cmd := &cobra.Command{
		Use:   "conformance",
		Short: "Check that a backend keeps the rules",
		Long: `Run the suite that every built-in backend passes against the one at --url, and print each
case with its outcome. Exit code 1 if one failed.

It uses keys of random names, in a random namespace too unless the URL names one, and so
touches no lock of yours. The server sees some hundred requests a second while it runs.

` + notTested,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cases, err := matching(pattern)
			if err != nil {
				return err
			}
			raw, err := a.backendURL()
			if err != nil {
				return err
			}
			raw, cleanUp, err := apart(raw)
			if err != nil {
				return err
			}
			suite.Local = local(raw)
			suite.Open = func(ctx context.Context) (locker.Locker, error) { return backends.OpenLocker(ctx, raw) }
			results, err := runCases(cmd.Context(), suite, cases)
			if cleanErr := cleanUp(); err == nil && cleanErr != nil {
				err = &exitError{exitSystem, cleanErr}
			}
			if err != nil {
				return err
			}
			return a.report(results)
		},
	}
	cmd.Flags().StringVar(&pattern, "run", "", "run only the cases whose names match this `REGEXP`")
	cmd.Flags().DurationVar(&suite.TTL, "ttl", time.Second, "TTL of leases that are left to expire, at least 100ms for a server")
	cmd.Flags().DurationVar(&suite.Grace, "grace", 0, "how long such a lease may outlive its TTL in the backend")
	cmd.Flags().StringToStringVar(&suite.Waive, "waive", nil, "a case that SHOULD pass and need not here, as `CASE=REASON`")
	return cmd
}

func matching(pattern string) ([]conformance.Case, error) {
	re, err := regexp.Compile(pattern)
	if err != nil {
		return nil, usage("--run: %w", err)
	}
	cases := slices.DeleteFunc(conformance.Cases(), func(c conformance.Case) bool { return !re.MatchString(c.Name) })
	if len(cases) == 0 {
		return nil, usage("--run %q: no case has such a name", pattern)
	}
	return cases, nil
}

// apart returns a URL for keys apart from all others in the same store: in a new
// namespace unless the URL has one, and for files in a new directory, which cleanUp
// removes.
func apart(raw string) (own string, cleanUp func() error, err error) {
	address, query, _ := strings.Cut(raw, "?")
	params, err := url.ParseQuery(query)
	if err != nil || params.Has("namespace") {
		return raw, func() error { return nil }, nil // what is wrong is told by whoever opens it
	}
	params.Set("namespace", "conformance-"+rand.Text())
	cleanUp = func() error { return nil }
	if path, ok := strings.CutPrefix(address, "file://"); ok {
		parent, err := url.PathUnescape(path)
		if err != nil || !strings.HasPrefix(parent, "/") {
			return raw, cleanUp, nil
		}
		if err := os.MkdirAll(parent, 0o700); err != nil {
			return "", nil, &exitError{exitSystem, err}
		}
		dir, err := os.MkdirTemp(parent, "conformance-")
		if err != nil {
			return "", nil, &exitError{exitSystem, err}
		}
		address = (&url.URL{Scheme: "file", Path: dir}).String()
		cleanUp = func() error { return os.RemoveAll(dir) }
	}
	return address + "?" + params.Encode(), cleanUp, nil
}

// runCases returns the results in the order of the cases.
func runCases(ctx context.Context, suite conformance.Backend, cases []conformance.Case) ([]conformance.Result, error) {
	if err := suite.Validate(); err != nil {
		return nil, usage("%w", err)
	}
	// A backend that cannot be opened fails every case with the same words.
	l, err := suite.Open(ctx)
	if err != nil {
		return nil, err
	}
	if err := closeLocker(l); err != nil {
		return nil, err
	}
	place := make(map[string]int, len(cases))
	for i, c := range cases {
		place[c.Name] = i
	}
	results := slices.Collect(suite.RunAll(ctx, cases))
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	slices.SortFunc(results, func(a, b conformance.Result) int { return cmp.Compare(place[a.Case.Name], place[b.Case.Name]) })
	return results, nil
}

// shownResult is a result as JSON.
type shownResult struct {
	Case    string              `json:"case"`
	Rule    string              `json:"rule"`
	Level   conformance.Level   `json:"level"`
	Outcome conformance.Outcome `json:"outcome"`
	Reason  string              `json:"reason,omitempty"`
	Elapsed string              `json:"elapsed"`
}

// report prints the results, and returns an error without a message if a case failed.
func (a *app) report(results []conformance.Result) error {
	count := make(map[conformance.Outcome]int)
	list := make([]shownResult, len(results))
	for i, r := range results {
		count[r.Outcome]++
		list[i] = shownResult{r.Case.Name, r.Case.Rule, r.Case.Level, r.Outcome, scrub(r.Reason), r.Elapsed.Round(time.Millisecond).String()}
	}
	var err error
	if a.json {
		err = a.printJSON(list)
	} else {
		err = a.printResults(list, count)
	}
	if err == nil && count[conformance.Failed] > 0 {
		err = &exitError{code: exitFailed}
	}
	return err
}

func (a *app) printResults(results []shownResult, count map[conformance.Outcome]int) error {
	t := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "CASE\tLEVEL\tTIME\tOUTCOME")
	for _, r := range results {
		outcome := string(r.Outcome)
		if r.Outcome == conformance.NotApplicable {
			outcome += ": " + r.Reason
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", r.Case, r.Level, r.Elapsed, outcome)
	}
	if err := t.Flush(); err != nil { // which returns the errors of all writes
		return err
	}
	var b strings.Builder
	for _, r := range results {
		if r.Outcome == conformance.Failed {
			fmt.Fprintf(&b, "\n%s\n", r.Reason)
		}
	}
	fmt.Fprintf(&b, "\n%d passed, %d failed, %d not applicable\n%s\n",
		count[conformance.Passed], count[conformance.Failed], count[conformance.NotApplicable], notTested)
	_, err := a.out.Write([]byte(b.String()))
	return err
}
