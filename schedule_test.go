package locker

import (
	"container/heap"
	"math/rand/v2"
	"testing"
	"time"
)

// Each hold knows its place in the heap, through any order of changes.
func TestScheduleKeepsItsOrder(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	var s schedule
	in := make(map[*Hold]bool)
	gone := new(Hold)
	for range 20_000 {
		switch n := rng.IntN(10); {
		case n < 4 || len(s) == 0:
			h := new(Hold)
			if s.has(h) {
				t.Fatal("a hold that was never added is there")
			}
			h.timing.due = time.Duration(rng.Int64N(1000))
			heap.Push(&s, h)
			in[h] = true
		case n < 7:
			h := s[rng.IntN(len(s))]
			h.timing.due = time.Duration(rng.Int64N(1000))
			heap.Fix(&s, h.timing.index)
		case n < 9:
			gone = s[rng.IntN(len(s))]
			heap.Remove(&s, gone.timing.index)
			delete(in, gone)
		default:
			first := s[0].timing.due
			for h := range in {
				if h.timing.due < first {
					t.Fatalf("the first is due at %d, another at %d", first, h.timing.due)
				}
			}
			gone = heap.Pop(&s).(*Hold)
			delete(in, gone)
		}
		if s.has(gone) || len(s) != len(in) {
			t.Fatalf("%d holds are there, want %d; a removed one is there: %t", len(s), len(in), s.has(gone))
		}
	}
	for h := range in {
		if !s.has(h) {
			t.Fatal("a hold is missing")
		}
	}
}

func TestUntilRenewal(t *testing.T) {
	for range 1000 {
		if d := untilRenewal(30*time.Second, 29*time.Second); d < 9*time.Second || d > 10*time.Second {
			t.Fatalf("renews after %s", d)
		}
	}
	if d := untilRenewal(30*time.Second, time.Second); d > 500*time.Millisecond {
		t.Errorf("renews after %s a lease that has 1 s left", d)
	}
	if d := untilRenewal(30*time.Second, 0); d != 0 {
		t.Errorf("renews after %s a lease that has ended", d)
	}
}

func TestUntilRetry(t *testing.T) {
	for range 1000 {
		for left, most := range map[time.Duration]time.Duration{
			time.Hour:             time.Second,
			4 * time.Second:       500 * time.Millisecond,
			40 * time.Millisecond: 10 * time.Millisecond,
			time.Millisecond:      time.Millisecond,
			0:                     0,
		} {
			if d := untilRetry(left); d < min(most/2, left) || d > most {
				t.Fatalf("with %s left: again after %s, want %s to %s", left, d, most/2, most)
			}
		}
	}
}
