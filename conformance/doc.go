// Package conformance proves that a [locker.Locker] keeps the rules of the contract,
// as far as tests can prove it. Authors of backends call [Run] from a test; the
// command runs the same cases against any URL.
//
// A backend that passes excludes holders from each other while their leases last,
// and gives out fencing tokens that rise. What no suite can show is how it fares when
// its servers lose data in ways that [Faults] does not have.
//
// Cases wait for what they need, and take no delay for granted: a loaded machine
// makes them slower, not red.
package conformance
