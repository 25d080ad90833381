package redlock_test

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/locker-go/locker"
)

// In a child, the URL of the server on which it is to contend.
const contendEnv = "LOCKER_REDLOCK_CONTEND"

const (
	processes  = 4
	goroutines = 4
	contention = 2 * time.Second
)

// Four processes with four goroutines each want one lock: 16 rivals, which may split the
// votes of the five nodes again and again. Somebody always gets on, all get about the
// same, and the history of all processes together is that of a lock.
func TestProcesses(t *testing.T) {
	if rawURL := os.Getenv(contendEnv); rawURL != "" {
		contend(t, rawURL)
		return
	}
	c := five(t, "--appendonly", "no")
	rawURL := c.url("")
	open(t, c.url("first_use=true"))
	var (
		mu     sync.Mutex
		grants []grantSeen
		wg     sync.WaitGroup
	)
	for p := range processes {
		wg.Go(func() {
			cmd := exec.Command(os.Args[0], "-test.run=^TestProcesses$", "-test.v")
			cmd.Env = append(os.Environ(), contendEnv+"="+rawURL)
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Errorf("process %d: %v\n%s", p, err, out)
			}
			mu.Lock()
			defer mu.Unlock()
			for lines := bufio.NewScanner(strings.NewReader(string(out))); lines.Scan(); {
				g := grantSeen{process: p}
				if _, err := fmt.Sscanf(lines.Text(), "grant %d %d %d %d", &g.goroutine, &g.token, &g.from, &g.to); err == nil {
					grants = append(grants, g)
				}
			}
		})
	}
	wg.Wait()
	counts := make([]int, processes*goroutines)
	byToken := make(map[uint64]grantSeen)
	var first, last int64
	for i, g := range grants {
		if other, ok := byToken[g.token]; ok {
			t.Errorf("token %d was granted twice: %+v and %+v", g.token, other, g)
		}
		byToken[g.token] = g
		if i == 0 || g.from < first {
			first = g.from
		}
		last = max(last, g.to)
	}
	checkDisjoint(t, grants)
	for _, g := range whileAllRan(grants) {
		counts[g.process*goroutines+g.goroutine]++
	}
	requests := 0
	for _, p := range c.proxies {
		requests += len(p.Requests())
	}
	// How many there are in a second depends on what else the machine does.
	t.Logf("%d grants, %.0f per second, %.1f requests each, fairness %.3f",
		len(grants), float64(len(grants))/time.Duration(last-first).Seconds(), float64(requests)/float64(len(grants)), jain(counts))
	if least := 4 * len(counts); len(grants) < least {
		t.Errorf("only %d grants in %s, want at least %d", len(grants), contention, least)
	}
	if !(jain(counts) >= 0.85) { // also where one got none
		t.Errorf("fairness %.3f, want at least 0.85: %v", jain(counts), counts)
	}
}

// grantSeen is one grant as its holder saw it, by the clock of the machine.
type grantSeen struct {
	process, goroutine int
	token              uint64
	from, to           int64 // ns
}

// whileAllRan returns the grants that were made while all processes had begun and none
// had ended: on a busy machine some begin late.
func whileAllRan(grants []grantSeen) []grantSeen {
	var first, last [processes]int64
	for _, g := range grants {
		if first[g.process] == 0 || g.from < first[g.process] {
			first[g.process] = g.from
		}
		last[g.process] = max(last[g.process], g.from)
	}
	begun, ended := slices.Max(first[:]), slices.Min(last[:])
	return slices.DeleteFunc(slices.Clone(grants), func(g grantSeen) bool { return g.from < begun || g.from > ended })
}

// checkDisjoint checks that no two grants overlap and that tokens rise in time.
func checkDisjoint(t *testing.T, grants []grantSeen) {
	t.Helper()
	ordered := append([]grantSeen(nil), grants...)
	slices.SortFunc(ordered, func(a, b grantSeen) int { return cmp.Compare(a.token, b.token) })
	for i := 1; i < len(ordered); i++ {
		if a, b := ordered[i-1], ordered[i]; a.to > b.from {
			t.Errorf("the grant with token %d ended %d ns after that with token %d began", a.token, a.to-b.from, b.token)
			return
		}
	}
}

// contend takes the lock again and again, and prints each grant.
func contend(t *testing.T, rawURL string) {
	c := locker.New(open(t, rawURL), nil)
	ctx, cancel := context.WithTimeout(t.Context(), contention)
	defer cancel()
	var wg sync.WaitGroup
	lines := make([][]string, goroutines)
	for g := range goroutines {
		wg.Go(func() {
			for {
				err := c.Do(ctx, "k", func(_ context.Context, lease locker.Lease) error {
					from := time.Now().UnixNano()
					lines[g] = append(lines[g], fmt.Sprintf("grant %d %d %d %d", g, lease.Token, from, time.Now().UnixNano()))
					return nil
				})
				if errors.Is(err, context.DeadlineExceeded) {
					return
				}
				if err != nil {
					t.Errorf("do: %v", err)
					return
				}
			}
		})
	}
	wg.Wait()
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	for _, l := range lines {
		fmt.Println(strings.Join(l, "\n"))
	}
}
func jain(counts []int) float64 {
	var sum, squares float64
	for _, c := range counts {
		sum += float64(c)
		squares += float64(c) * float64(c)
	}
	return sum * sum / (float64(len(counts)) * squares)
}
