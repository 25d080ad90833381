package conformance

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/locker-go/locker"
)

// Backend is what the suite runs on.
type Backend struct {
	// Open returns a new client of the store, independent of those opened before:
	// what two processes would have. The context is for the opening alone. The
	// suite closes the client if it has a Close method. Required.
	Open func(ctx context.Context) (locker.Locker, error)

	// TTL is the shortest that the backend honours, or one that makes the suite
	// quick: cases that let a lease expire use it. Required; at least
	// [locker.MinTTL], and 100 ms or more wherever requests leave the process,
	// since a lease that ends between two requests proves nothing. Other cases
	// use ten times as much, but at least 30 s.
	TTL time.Duration

	// Grace is how long past its TTL the lease of a dead holder may linger.
	Grace time.Duration

	// Faults lets the suite disturb the store. What is missing makes the cases
	// that need it not applicable.
	Faults Faults

	// Local says that leases cannot be renewed or released by another client
	// than the one that acquired them.
	Local bool

	// Waive names the SHOULD cases that the backend does not pass, each with the
	// reason. They are not run, and reported as waived. Unknown names, and MUST
	// cases, are refused.
	Waive map[string]string
}

// Faults are disturbances of the store of a [Backend], each optional. They affect
// all clients. While a case uses one, no other case runs.
type Faults struct {
	// Cut makes the store unreachable, for open connections too, until heal is
	// called.
	Cut func(ctx context.Context) (heal func() error, err error)

	// Delay holds up each request on its way to the store, and each reply on its
	// way back, for d, until heal is called. A request that is under way arrives
	// even if its sender gives up.
	Delay func(ctx context.Context, d time.Duration) (heal func() error, err error)

	// LoseReply lets the next request reach the store, and loses the reply with
	// its connection.
	LoseReply func(ctx context.Context) error

	// Restart stops the store as by a power failure and starts it again with the
	// data that it keeps.
	Restart func(ctx context.Context) error

	// Wipe restarts the store without its data.
	Wipe func(ctx context.Context) error

	// Requests returns how many requests have reached the store so far. It is no
	// fault, but as the others it needs a hold on the store.
	Requests func(ctx context.Context) (int64, error)
}

// Level says whether a backend may do without a rule.
type Level string

const (
	Must   Level = "MUST"   // no backend may break it
	Should Level = "SHOULD" // a backend may waive it, with a reason
)

// Case checks one rule.
type Case struct {
	// Name has the form Method/condition.
	Name string

	// Rule is the rule in words.
	Rule string

	Level Level

	// Check returns nil if the backend keeps the rule, else a [*Failure].
	Check func(ctx context.Context, e *Env) error

	alone bool // disturbs the store, or counts what reaches it
}

// Cases returns all cases.
func Cases() []Case {
	return slices.Concat(
		acquireCases,
		renewCases,
		releaseCases,
		fenceTokenCases,
		leaseCases,
		tokenCases,
		keyCases,
		errorCases,
		waiterCases,
		adminCases,
		exclusionCases,
		faultCases,
	)
}

// Validate returns why the suite cannot run on b, or nil.
func (b Backend) Validate() error {
	var errs []error
	if b.Open == nil {
		errs = append(errs, errors.New("no Open function"))
	}
	if err := locker.ValidateTTL(b.TTL); err != nil {
		errs = append(errs, err)
	}
	if b.Grace < 0 {
		errs = append(errs, fmt.Errorf("the Grace is %s; it must not be negative", b.Grace))
	}
	levels := make(map[string]Level)
	for _, c := range Cases() {
		levels[c.Name] = c.Level
	}
	for _, name := range slices.Sorted(maps.Keys(b.Waive)) {
		switch {
		case levels[name] == "":
			errs = append(errs, fmt.Errorf("a waiver names %q, which is no case", name))
		case levels[name] == Must:
			errs = append(errs, fmt.Errorf("a waiver names %q, which no backend may break", name))
		case b.Waive[name] == "":
			errs = append(errs, fmt.Errorf("the waiver of %q has no reason", name))
		}
	}
	if len(errs) == 0 {
		return nil
	}
	return fmt.Errorf("conformance: %w", errors.Join(errs...))
}
