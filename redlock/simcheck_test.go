package redlock

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/locker-go/locker"
)

// check returns what broke in a world that has run, or nil. Each line begins with the name of a
// rule; what else there is about it is indented.
func (w *world) check() error {
	var errs []error
	for _, text := range w.broken {
		errs = append(errs, errors.New(text))
	}
	for _, key := range w.keys {
		var calls []*call
		for _, c := range w.history {
			if c.key == key {
				calls = append(calls, c)
			}
		}
		errs = append(errs, checkTokens(calls))
		if w.assumes != untimed {
			errs = append(errs, checkExclusion(calls))
		}
	}
	return errors.Join(errs...)
}

// checkTokens returns which rule of tokens the calls that succeeded on one key break:
//
//   - validity: a grant has time left when it is answered;
//   - uniqueness: no two grants have one token;
//   - order: a grant that was answered before another was asked for, has the smaller token; so
//     has a raise its floor;
//   - succession: no renewal, release or fence of a grant succeeds that was asked for after a
//     later grant was answered.
func checkTokens(calls []*call) error {
	calls = slices.DeleteFunc(slices.Clone(calls), func(c *call) bool { return c.err != nil })
	slices.SortFunc(calls, func(a, b *call) int { return a.first - b.first })
	answered := slices.Clone(calls)
	slices.SortFunc(answered, func(a, b *call) int { return a.last - b.last })
	grants := make(map[locker.Token]*call)
	var granted, floor *call // with the highest tokens of those answered so far
	for _, c := range calls {
		for ; answered[0].last < c.first; answered = answered[1:] {
			switch a := answered[0]; {
			case a.kind == acquired && (granted == nil || a.token > granted.token):
				granted = a
			case a.kind == raised && (floor == nil || a.token > floor.token):
				floor = a
			}
		}
		switch {
		case c.kind == acquired && c.deadline <= c.answered:
			return fmt.Errorf("validity: %s", c)
		case c.kind == acquired && grants[c.token] != nil:
			return fmt.Errorf("uniqueness: %s\n\t%s", grants[c.token], c)
		case c.kind == acquired && granted != nil && c.token < granted.token:
			return fmt.Errorf("order: %s\n\t%s", granted, c)
		case c.kind == acquired && floor != nil && c.token <= floor.token:
			return fmt.Errorf("order: %s\n\t%s", floor, c)
		case c.kind != acquired && c.kind != raised && granted != nil && c.token < granted.token:
			return fmt.Errorf("succession: %s\n\t%s", granted, c)
		}
		if c.kind == acquired {
			grants[c.token] = c
		}
	}
	return nil
}

// span is when a client counts on a grant.
type counted struct {
	span
	by *call
}

// checkExclusion returns where two clients counted on the lock at one time: exclusion. Each
// does so from the answer to an acquire or a renewal until the deadline, but never again from
// when it asks for the release.
func checkExclusion(calls []*call) error {
	calls = slices.Clone(calls)
	slices.SortFunc(calls, func(a, b *call) int { return a.first - b.first })
	byToken := make(map[locker.Token][]counted)
	for _, c := range calls {
		if c.kind == fenced || c.kind == raised || c.kind == acquired && c.err != nil {
			continue
		}
		spans := byToken[c.token]
		if len(spans) > 0 { // a grant that was answered
			end := &spans[len(spans)-1].to
			switch c.kind {
			case renewed:
				if c.err == nil { // from its answer on, the span below counts
					*end = min(*end, c.answered)
				}
			case released:
				*end = min(*end, c.asked)
			}
		}
		if c.kind != released && c.err == nil {
			byToken[c.token] = append(spans, counted{span{c.answered, c.deadline}, c})
		}
	}
	var all []counted
	for _, spans := range byToken {
		for _, s := range spans {
			if s.from < s.to {
				all = append(all, s)
			}
		}
	}
	slices.SortFunc(all, func(a, b counted) int { return cmp.Compare(a.from, b.from) })
	var last counted // the one that ends last of those before
	for _, s := range all {
		if s.from < last.to && s.by.token != last.by.token {
			return fmt.Errorf("exclusion: two held the lock from %s to %s: %s\n\t%s", s.from, min(s.to, last.to), last.by, s.by)
		}
		if s.to > last.to {
			last = s
		}
	}
	return nil
}
