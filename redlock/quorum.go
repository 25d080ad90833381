package redlock

// verdict says how a vote stands.
type verdict int

const (
	pending verdict = iota
	won             // a majority voted for it
	lost            // no majority can any more
)

// majority returns how many of n are more than half.
func majority(n int) int { return n/2 + 1 }

// count returns how a vote among n stands, of whom so many voted for it, and so many
// did not and never will. It is certain as soon as those who are left cannot change it.
func count(n, votes, against int) verdict {
	switch {
	case votes >= majority(n):
		return won
	case n-against < majority(n):
		return lost
	default:
		return pending
	}
}

// tally counts the answers of n members to a question, and those who gave none.
type tally struct{ n, yes, no, failed int }

// verdict returns whether a majority said yes.
func (t tally) verdict() verdict { return count(t.n, t.yes, t.no+t.failed) }

// denied returns whether a majority said no, which is more than that no majority
// said yes: that may be for want of answers.
func (t tally) denied() verdict { return count(t.n, t.no, t.yes+t.failed) }

// open says whether an answer that is missing may still decide something.
func (t tally) open() bool {
	yes, no := t.verdict(), t.denied()
	return yes != won && no != won && (yes == pending || no == pending)
}
