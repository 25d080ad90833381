package redlock

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// The simulation runs the Locker as it is, in bubbles of testing/synctest, on model nodes, over a
// network of the worst kind that TCP allows, and checks what a lock promises. A seed says all that
// happens in a world: see draw. simnode_test.go has the nodes, simwire_test.go the network,
// simwork_test.go what clients do, simcheck_test.go the rules.

// replay names the variable that has the world of one seed run, and all told that happens in it.
const replay = "LOCKER_SIM_SEED"

// TestSimulation runs the worlds of many seeds.
func TestSimulation(t *testing.T) {
	if seed, err := strconv.ParseUint(os.Getenv(replay), 10, 64); err == nil {
		var log strings.Builder
		_, err := simulate(t, seed, genuine, &log)
		t.Logf("\n%s", log.String())
		if err != nil {
			t.Error(err)
		}
		return
	}
	begun := time.Now()
	var worlds [untimed + 1]atomic.Int64
	var calls [raised + 1]atomic.Int64
	eachSeed(t, seeds, func(t *testing.T, seed uint64) bool {
		w, err := simulate(t, seed, genuine, nil)
		worlds[w.assumes].Add(1)
		for _, c := range w.history {
			if c.err == nil {
				calls[c.kind].Add(1)
			}
		}
		if err != nil {
			t.Errorf("seed %d (%s): %v\nto see all of it: %s=%d go test -v -run 'TestSimulation$' ./redlock", seed, w.assumes, err, replay, seed)
		}
		return err == nil
	})
	t.Logf("%d seeds, %.0f/s; worlds: %d sound, %d that forget, %d untimed; that succeeded: %d acquires, %d renewals, %d releases, %d FenceTokens, %d raises",
		seeds, seeds/time.Since(begun).Seconds(), worlds[sound].Load(), worlds[forgets].Load(), worlds[untimed].Load(),
		calls[acquired].Load(), calls[renewed].Load(), calls[released].Load(), calls[fenced].Load(), calls[raised].Load())
	// Where nothing happens, nothing breaks.
	for kind, least := range map[callKind]int64{acquired: 5 * seeds, renewed: 3 * seeds, released: 3 * seeds, fenced: seeds / 2, raised: seeds / 20} {
		if n := calls[kind].Load(); n < least && !t.Failed() {
			t.Errorf("only %d times did %s succeed, want %d", n, kind, least)
		}
	}
}

// eachSeed calls f with the seeds below n, in turn, on all cores, until one call returns false.
func eachSeed(t *testing.T, n uint64, f func(t *testing.T, seed uint64) bool) {
	var next atomic.Uint64
	t.Run("seeds", func(t *testing.T) {
		for i := range runtime.GOMAXPROCS(0) {
			t.Run(strconv.Itoa(i), func(t *testing.T) {
				t.Parallel()
				for {
					seed := next.Add(1) - 1
					if seed >= n {
						return
					}
					if !f(t, seed) {
						next.Store(n)
					}
				}
			})
		}
	})
}

// The same protocol with a part left out breaks, and the simulation sees it: else it
// would prove nothing.
func TestSimulationOfBrokenVariants(t *testing.T) {
	for _, tt := range []struct {
		name    string
		variant variant
		in      assumptions // the worlds to look at
		breaks  []string    // one of these rules
	}{
		{"tokens counted by each node", counting, sound, []string{"uniqueness", "order"}},
		{"no comparison with the fence", unfenced, sound, []string{"order", "succession"}},
		{"no quarantine after a loss of data", unprotected, forgets, []string{"exclusion"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			const most = 3000
			for seed := range uint64(most) {
				if draw(seed).assumes != tt.in {
					continue
				}
				_, err := simulate(t, seed, tt.variant, nil)
				for _, line := range strings.Split(fmt.Sprint(err), "\n") {
					if rule, _, _ := strings.Cut(line, ":"); slices.Contains(tt.breaks, rule) {
						t.Logf("seed %d: %s", seed, line)
						return
					}
				}
			}
			t.Errorf("none of %d seeds broke any of %v", most, tt.breaks)
		})
	}
}

// A seed that fails fails again: its world is the same, to the nanosecond.
func TestSimulationReplays(t *testing.T) {
	for seed := range uint64(50) {
		var logs [2]strings.Builder
		for i := range logs {
			if _, err := simulate(t, seed, genuine, &logs[i]); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
		}
		lines := [2][]string{strings.Split(logs[0].String(), "\n"), strings.Split(logs[1].String(), "\n")}
		for i, line := range lines[0] {
			// Errors tell of holders, whose names are random.
			if i >= len(lines[1]) || line != lines[1][i] && !strings.Contains(line, "held by") {
				t.Fatalf("seed %d, line %d:\n%s\nand then\n%s", seed, i, line, lines[1][min(i, len(lines[1])-1)])
			}
		}
	}
}
