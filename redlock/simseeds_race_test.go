//go:build race

package redlock

// seeds is how many worlds TestSimulation runs: with the race detector each takes longer.
const seeds = 300
