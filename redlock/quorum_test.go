package redlock

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

func (v verdict) String() string { return [...]string{"pending", "won", "lost"}[v] }

func TestCount(t *testing.T) {
	for _, tt := range []struct {
		n, votes, against int
		want              verdict
	}{
		{3, 0, 0, pending},
		{3, 1, 0, pending},
		{3, 1, 1, pending},
		{3, 2, 0, won},
		{3, 2, 1, won},
		{3, 0, 2, lost},
		{3, 1, 2, lost},
		{5, 0, 0, pending},
		{5, 2, 2, pending},
		{5, 3, 0, won},
		{5, 3, 2, won},
		{5, 5, 0, won},
		{5, 0, 3, lost}, // two are left, and cannot be three
		{5, 2, 3, lost},
		{5, 0, 2, pending},
		{7, 3, 3, pending},
		{7, 4, 3, won},
		{7, 3, 4, lost},
	} {
		if got := count(tt.n, tt.votes, tt.against); got != tt.want {
			t.Errorf("of %d, %d for and %d against: %v, want %v", tt.n, tt.votes, tt.against, got, tt.want)
		}
	}
}

// An answer is yes, no, a failure, or not there yet.
const (
	yes = iota
	no
	failed
	missing
)

// everyEnding calls f with each way in which the missing answers may come in.
func everyEnding(answers []int, f func([]int)) {
	for i, a := range answers {
		if a == missing {
			for _, end := range []int{yes, no, failed} {
				answers[i] = end
				everyEnding(answers, f)
			}
			answers[i] = missing
			return
		}
	}
	f(answers)
}

// naive returns the verdict on want from the endings alone: it is certain if all of
// them agree.
func naive(answers []int, want int) verdict {
	with, without := 0, 0
	everyEnding(answers, func(ended []int) {
		n := 0
		for _, a := range ended {
			if a == want {
				n++
			}
		}
		if n > len(ended)-n {
			with++
		} else {
			without++
		}
	})
	switch {
	case without == 0:
		return won
	case with == 0:
		return lost
	default:
		return pending
	}
}

func tallyOf(answers []int) tally {
	t := tally{n: len(answers)}
	for _, a := range answers {
		switch a {
		case yes:
			t.yes++
		case no:
			t.no++
		case failed:
			t.failed++
		}
	}
	return t
}

// The verdicts are those that follow from all ways in which the vote may go on, each
// as soon as it is certain, and a call waits for no answer that decides nothing.
func TestTallyAgreesWithAllEndings(t *testing.T) {
	const votes = 60_000
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0))
	for range votes {
		answers := make([]int, 3+2*r.IntN(3))
		for i := range answers {
			answers[i] = r.IntN(4)
		}
		tl := tallyOf(answers)
		says, denies := naive(answers, yes), naive(answers, no)
		what := fmt.Sprintf("seed %d: answers %v", seed, answers)
		if got := tl.verdict(); got != says {
			t.Fatalf("%s: the verdict is %v, want %v", what, got, says)
		}
		if got := tl.denied(); got != denies {
			t.Fatalf("%s: denied is %v, want %v", what, got, denies)
		}
		if want := says != won && denies != won && (says == pending || denies == pending); tl.open() != want {
			t.Fatalf("%s: open is %v, want %v", what, tl.open(), want)
		}
	}
}

// redlock-py#6: the quorum was counted over the nodes that happened to be connected.
func TestFailuresAreNoAbstentions(t *testing.T) {
	for n := 3; n <= 9; n += 2 {
		tl := tally{n: n, failed: n / 2, yes: n / 2}
		if got := tl.verdict(); got != pending {
			t.Errorf("%d of %d failed and the same number said yes: %v, want pending", n/2, n, got)
		}
		tl.failed++
		if got := tl.verdict(); got != lost {
			t.Errorf("%d of %d failed and %d said yes: %v, want lost", tl.failed, n, tl.yes, got)
		}
	}
}
