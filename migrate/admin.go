package migrate

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"strings"

	"github.com/locker-go/locker"
)

// sighting is what is seen of a lock in each store.
type sighting [2]*locker.Holding

type sightingJSON struct {
	Old *seenJSON `json:"old,omitempty"`
	New *seenJSON `json:"new,omitempty"`
}

type seenJSON struct {
	Handle string       `json:"handle,omitempty"`
	Token  locker.Token `json:"token"`
	Holder string       `json:"holder"`
}

// holding returns it as one: the holder of the store that comes first, with the higher
// of the tokens, for as long as it stands in both.
func (g sighting) holding(key string) locker.Holding {
	var h locker.Holding
	var seen [2]*seenJSON
	for s, in := range g {
		if in == nil {
			continue
		}
		seen[s] = &seenJSON{in.Handle, in.Token, in.Holder}
		if h.Holder == "" {
			h = *in
		}
		h.Token, h.Remaining = max(h.Token, in.Token), min(h.Remaining, in.Remaining)
	}
	b, err := json.Marshal(sightingJSON{seen[from], seen[to]})
	if err != nil {
		panic(err) // texts and numbers can be encoded
	}
	h.Key, h.Handle = key, handleMark+string(b)
	return h
}

// sightingOf returns what a Holding was made of.
func sightingOf(h locker.Holding) (sighting, bool) {
	text, ok := strings.CutPrefix(h.Handle, handleMark)
	var j sightingJSON
	if !ok || json.Unmarshal([]byte(text), &j) != nil {
		return sighting{}, false
	}
	var seen sighting
	for s, in := range []*seenJSON{j.Old, j.New} {
		if in != nil {
			seen[s] = &locker.Holding{Key: h.Key, Holder: in.Holder, Token: in.Token, Handle: in.Handle}
		}
	}
	return seen, true
}

// look returns what is seen of a lock: nothing if it is free in all stores that the
// phase uses.
func (l *Locker) look(ctx context.Context, key string) (sighting, error) {
	var seen sighting
	for _, s := range l.Phase().sides() {
		h, err := l.stores[s].Inspect(ctx, key)
		if err == nil {
			seen[s] = &h
		} else if !errors.Is(err, locker.ErrNotHeld) {
			return seen, s.in(err)
		}
	}
	l.complete(ctx, key, &seen)
	return seen, nil
}

// complete adds what the other store knows of a holder that was seen in one, if it
// can be reached. Processes in another phase may use that.
func (l *Locker) complete(ctx context.Context, key string, seen *sighting) {
	for _, s := range []side{from, to} {
		other := seen[s.other()]
		if seen[s] != nil || other == nil || !l.presence.reaches(s) {
			continue
		}
		h, err := l.stores[s].Inspect(ctx, key)
		if err == nil && process(h.Holder) == process(other.Holder) {
			seen[s] = &h
		}
	}
}

// Inspect looks into the stores that the phase uses.
func (l *Locker) Inspect(ctx context.Context, key string) (locker.Holding, error) {
	if err := l.validateKey(key); err != nil {
		return locker.Holding{}, fail("inspect", key, err)
	}
	seen, err := l.look(ctx, key)
	if err == nil && seen == (sighting{}) {
		err = locker.ErrNotHeld
	}
	if err != nil {
		return locker.Holding{}, fail("inspect", key, err)
	}
	return seen.holding(key), nil
}

// Break ends the grant that was seen in each store in which it was.
func (l *Locker) Break(ctx context.Context, h locker.Holding) error {
	if err := l.validateKey(h.Key); err != nil {
		return fail("break", h.Key, err)
	}
	seen, ok := sightingOf(h)
	if !ok {
		return fail("break", h.Key, locker.ErrNotHeld)
	}
	broken := false
	for _, s := range []side{to, from} {
		if seen[s] == nil {
			continue
		}
		switch err := l.stores[s].Break(ctx, *seen[s]); {
		case err == nil:
			broken = true
		case !errors.Is(err, locker.ErrNotHeld):
			return fail("break", h.Key, s.in(err))
		}
	}
	if !broken {
		return fail("break", h.Key, locker.ErrNotHeld)
	}
	return nil
}

// process returns the part of a Holder that names the process.
func process(holder string) string {
	name, _, _ := strings.Cut(holder, "#")
	return name
}

// Raise raises the tokens of both stores, whatever the phase.
func (l *Locker) Raise(ctx context.Context, key string, floor locker.Token) error {
	if err := l.validateKey(key); err != nil {
		return fail("raise", key, err)
	}
	for _, s := range []side{from, to} {
		if err := l.stores[s].Raise(ctx, key, floor); err != nil {
			return fail("raise", key, s.in(err))
		}
	}
	return nil
}

// HighWater asks both stores, whatever the phase.
func (l *Locker) HighWater(ctx context.Context) (locker.Token, error) {
	highest := l.current().floor + 1
	for _, s := range []side{from, to} {
		mark, err := l.stores[s].HighWater(ctx)
		if err != nil {
			return 0, fail("high-water", "", s.in(err))
		}
		highest = max(highest, mark)
	}
	return highest, nil
}

// Holdings lists the stores that the phase uses.
func (l *Locker) Holdings(ctx context.Context, prefix string) iter.Seq2[locker.Holding, error] {
	return func(yield func(locker.Holding, error) bool) {
		seen := make(map[string]sighting)
		for _, s := range l.Phase().sides() {
			for h, err := range l.stores[s].Holdings(ctx, prefix) {
				if err != nil {
					yield(locker.Holding{}, fail("list", prefix, s.in(err)))
					return
				}
				if isPresence(h.Key) {
					continue
				}
				of := seen[h.Key]
				of[s] = &h
				seen[h.Key] = of
			}
		}
		for key, of := range seen {
			l.complete(ctx, key, &of)
			if !yield(of.holding(key), nil) {
				return
			}
		}
	}
}
