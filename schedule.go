package locker

import "time"

// timing is a hold's place in the schedule.
type timing struct {
	due      time.Duration // when to look at the hold: to renew it, or at its deadline
	deadline time.Duration
	waiting  bool // for a worker to renew it
	index    int  // in the schedule, if it is there
}

// schedule is a heap of holds by when they are due.
type schedule []*Hold

func (s schedule) has(h *Hold) bool { return h.timing.index < len(s) && s[h.timing.index] == h }

func (s schedule) Len() int           { return len(s) }
func (s schedule) Less(i, j int) bool { return s[i].timing.due < s[j].timing.due }
func (s schedule) Swap(i, j int) {
	s[i], s[j] = s[j], s[i]
	s[i].timing.index, s[j].timing.index = i, j
}

func (s *schedule) Push(x any) {
	h := x.(*Hold)
	h.timing.index = len(*s)
	*s = append(*s, h)
}

func (s *schedule) Pop() any {
	old := *s
	h := old[len(old)-1]
	old[len(old)-1] = nil
	*s = old[:len(old)-1]
	return h
}
