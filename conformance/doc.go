// Package conformance proves that a [locker.Locker] keeps the rules of the contract,
// as far as tests can prove it. Authors of backends call [Run] from a test, as the
// example shows; [Backend.RunAll] does the same outside a test.
//
// A backend that passes excludes holders from each other while their leases last,
// and gives out fencing tokens that rise. What no suite can show is how it fares when
// its servers lose data in ways that [Faults] does not have.
//
// Each [Case] checks one rule, which is printed when it fails, with what was got and
// wanted and where. MUST cases are the contract; a SHOULD case may be waived, with a
// reason. What a backend does not offer, such as [locker.Admin] or a fault, makes
// cases not applicable, and they are reported as that.
//
// Cases wait for what they need, and take no delay for granted: a loaded machine
// makes them slower, not red. Their keys are random and begin with "conformance/", but
// for a few of punctuation alone, and they leave nothing held, so that the suite can be
// run on a store that is in use; cases that use a fault disturb the store for everybody.
//
// [History] judges what clients did to locks, for tests that need more than single
// cases.
package conformance
