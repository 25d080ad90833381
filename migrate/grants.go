package migrate

import (
	"encoding/json"
	"strings"

	"github.com/locker-go/locker"
)

// grants are what a lease consists of: a lease in each of the stores that it is in.
type grants [2]*locker.Lease

// handleMark begins the handles of this package's leases.
const handleMark = "migrate:"

// handleJSON is what a handle says. The holder and the token are those of the lease: the
// grants are nobody else's.
type handleJSON struct {
	Holder string        `json:"holder"`
	Token  locker.Token  `json:"token"`
	Old    *locker.Lease `json:"old,omitempty"`
	New    *locker.Lease `json:"new,omitempty"`
}

// grantsOf returns what a lease consists of; false if it is none of this package's, or
// was changed. One that was taken before there were two stores is in the old one.
func grantsOf(lease locker.Lease) (grants, bool) {
	text, ok := strings.CutPrefix(lease.Handle, handleMark)
	if !ok {
		return grants{from: &lease}, true
	}
	var j handleJSON
	if err := json.Unmarshal([]byte(text), &j); err != nil || j.Holder != lease.Holder || j.Token != lease.Token {
		return grants{}, false
	}
	g := grants{j.Old, j.New}
	for _, s := range g.sides() {
		ok = ok && g[s].Key == lease.Key
	}
	return g, ok && len(g.sides()) > 0
}

// with returns the grants with another one.
func (g grants) with(s side, lease locker.Lease) grants {
	g[s] = &lease
	return g
}

// sides returns the stores that there is a grant in.
func (g grants) sides() []side {
	var in []side
	for _, s := range []side{from, to} {
		if g[s] != nil {
			in = append(in, s)
		}
	}
	return in
}

// lease returns the grants as one, of which the first request left after asked. It
// ends when the first of them does.
func (g grants) lease(key, holder string, token locker.Token, asked locker.Instant) locker.Lease {
	ttl, left := locker.MaxTTL, locker.MaxTTL
	for _, s := range g.sides() {
		ttl, left = min(ttl, g[s].TTL), min(left, g[s].Remaining())
	}
	handle, err := json.Marshal(handleJSON{holder, token, g[from], g[to]})
	if err != nil {
		panic(err) // leases can be encoded
	}
	outer := locker.Lease{Key: key, Holder: holder, Token: token, Handle: handleMark + string(handle)}
	return outer.Granted(asked, ttl, min(ttl, asked.Elapsed()+left))
}
