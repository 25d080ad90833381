package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/locker-go/locker"
	"github.com/locker-go/locker/backends"
)

const doctorHelp = `Connect to the backend at URL (by default that of --url or LOCKER_URL), look at what in its
configuration and state endangers locks, and print what was checked, what was seen and a
verdict; for each problem also the reason and what to do.

Verdicts:
  ok       nothing to do
  info     good to know, and nothing that must be done
  unknown  the server would not tell: it may be good or bad
  warning  locks hold as long as nothing fails. A failure that happens to servers (a restart,
           a failover, a full disk) can give one lock to two, make tokens depend on clocks,
           or stop all locking for longer than need be
  danger   locks do not keep their promise as things are: with no further failure, one lock
           can go to two, or no lock can be taken
Whatever the verdict, a holder that outlives its lease is what fencing tokens are for.

Each server is asked with the rights of the user in the URL, and sees some ten requests.
The lock of --key is taken, renewed and given back, to see whether this user can, unless
--no-lock is given. Nothing else that lasts is changed.

Exit codes:
  0        nothing endangers locks: no danger was found, and with --strict no warning and
           nothing unknown either
  64       wrong use: arguments, the URL
  69       the backend does not answer, or not usefully
  70       an error that should not occur
  71       the operating system refused: no place for the default backend
  78       something endangers locks
  128+n    ended by signal n`

type doctorOptions struct {
	key    string
	noLock bool
	strict bool
}

func (a *app) doctorCommand() *cobra.Command {
	var opts doctorOptions
	cmd := &cobra.Command{
		Use:     "doctor [URL]",
		Short:   "Tell what endangers the locks of a backend",
		Long:    doctorHelp,
		Example: "  locker doctor redis://cache:6379\n  LOCKER_URL=redis://app@cache?password_file=/run/secrets/redis locker doctor --json --strict",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 && a.url != "" {
				return usage("the URL is given twice: by --url and as an argument")
			}
			if err := locker.ValidateKey(opts.key); err != nil {
				return err
			}
			a.url += strings.Join(args, "")
			raw, err := a.backendURL()
			if err != nil {
				return err
			}
			d, err := a.diagnose(cmd.Context(), raw, opts)
			if d == nil {
				return err
			}
			if err := errors.Join(a.printDiagnosis(d), err); err != nil {
				return err
			}
			return d.verdict(opts.strict)
		},
	}
	cmd.Flags().StringVar(&opts.key, "key", "locker-doctor", "the `KEY` whose lock is taken and given back")
	cmd.Flags().BoolVar(&opts.noLock, "no-lock", false, "take no lock")
	cmd.Flags().BoolVar(&opts.strict, "strict", false, "exit with 78 for warnings and for what is unknown, too")
	return cmd
}

// diagnosis is what doctor prints, as JSON.
type diagnosis struct {
	URL      string           `json:"url"` // without secrets
	Verdict  locker.Severity  `json:"verdict"`
	Findings []locker.Finding `json:"findings"`
	Error    string           `json:"error,omitempty"` // why the findings are not all
}

// verdict returns an error without a message if the exit code must tell of danger.
func (d *diagnosis) verdict(strict bool) error {
	good := locker.SeverityWarning
	if strict {
		good = locker.SeverityInfo
	}
	if d.Verdict.Compare(good) > 0 {
		return &exitError{code: exitEndangered}
	}
	return nil
}

// diagnose returns what was found, and nil if that is nothing.
func (a *app) diagnose(ctx context.Context, raw string, opts doctorOptions) (*diagnosis, error) {
	l, err := backends.OpenLocker(ctx, raw)
	if err != nil {
		return nil, err
	}
	findings, err := examine(ctx, l, opts)
	if closeErr := closeLocker(l); closeErr != nil && a.verbose {
		a.logf("closing the connection: %v", closeErr)
	}
	if len(findings) == 0 {
		return nil, err
	}
	return newDiagnosis(raw, findings, err), err
}

// newDiagnosis makes what came from elsewhere fit to print.
func newDiagnosis(raw string, findings []locker.Finding, err error) *diagnosis {
	d := &diagnosis{URL: backends.Redact(raw), Findings: slices.Clone(findings)}
	for i := range d.Findings {
		f := &d.Findings[i]
		if conclusions[f.Severity] == "" {
			f.Severity = locker.SeverityUnknown
		}
		for _, text := range []*string{&f.Check, &f.Target, &f.Observed, &f.Reason, &f.Remedy} {
			*text = oneLine(scrub(*text))
		}
	}
	d.Verdict = locker.Worst(d.Findings)
	if err != nil {
		d.Error = oneLine(scrub(err.Error()))
	}
	return d
}

// examine asks the backend, and then tries out what everybody needs of it.
func examine(ctx context.Context, l locker.Locker, opts doctorOptions) ([]locker.Finding, error) {
	findings := []locker.Finding{{
		Check: "diagnosis", Severity: locker.SeverityUnknown, Observed: "not offered",
		Reason: "This backend does not tell what endangers its locks.",
		Remedy: "Ask who made it to implement locker.Diagnoser; locker conformance checks how it behaves.",
	}}
	if d, ok := locker.As[locker.Diagnoser](l); ok {
		var err error
		if findings, err = d.Diagnose(ctx); err != nil {
			return findings, err
		}
	}
	if opts.noLock {
		return findings, nil
	}
	f := tryLock(ctx, l, opts.key)
	return append([]locker.Finding{f}, findings...), ctx.Err()
}

// oneLine makes a text from elsewhere fit into a table. It must not control the
// terminal.
func oneLine(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case !unicode.IsGraphic(r):
			return '?'
		}
		return r
	}, text)
}

var conclusions = map[locker.Severity]string{
	locker.SeverityOK:      "nothing endangers locks",
	locker.SeverityInfo:    "nothing endangers locks",
	locker.SeverityUnknown: "nothing that was seen endangers locks",
	locker.SeverityWarning: "locks hold as long as nothing fails",
	locker.SeverityDanger:  "locks are in danger",
}

func (a *app) printDiagnosis(d *diagnosis) error {
	if a.json {
		return a.printJSON(d)
	}
	t := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "CHECK\tTARGET\tVERDICT\tSEEN")
	for _, f := range d.Findings {
		target := f.Target
		if target == "" {
			target = "-"
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", f.Check, target, f.Severity, f.Observed)
	}
	if err := t.Flush(); err != nil { // which returns the errors of all writes
		return err
	}
	worstFirst := slices.Clone(d.Findings)
	slices.SortStableFunc(worstFirst, func(a, b locker.Finding) int { return b.Severity.Compare(a.Severity) })
	var b strings.Builder
	count := make(map[locker.Severity]int)
	for _, f := range worstFirst {
		count[f.Severity]++
		if f.Severity == locker.SeverityOK {
			continue
		}
		fmt.Fprintf(&b, "\n%s: %s", f.Severity, f.Check)
		if f.Target != "" {
			fmt.Fprintf(&b, " at %s", f.Target)
		}
		fmt.Fprintf(&b, ": %s\n  %s\n", f.Observed, f.Reason)
		if f.Remedy != "" {
			fmt.Fprintf(&b, "  To do: %s\n", f.Remedy)
		}
	}
	conclusion := conclusions[d.Verdict]
	if d.Error != "" && d.Verdict != locker.SeverityDanger {
		conclusion = "not all could be checked"
	}
	fmt.Fprintf(&b, "\n%d danger, %d warning, %d unknown, %d info, %d ok: %s\n",
		count[locker.SeverityDanger], count[locker.SeverityWarning], count[locker.SeverityUnknown],
		count[locker.SeverityInfo], count[locker.SeverityOK], conclusion)
	_, err := a.out.Write([]byte(b.String()))
	return err
}
