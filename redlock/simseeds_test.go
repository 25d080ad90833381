//go:build !race

package redlock

// seeds is how many worlds TestSimulation runs.
const seeds = 20_000
