package conformance

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/locker-go/locker"
)

// plausible checks what the backend says of the time that a lease has left.
func (e *Env) plausible(remaining time.Duration, lease locker.Lease) {
	left := lease.Remaining() // read after the backend's answer, so no longer than it was then
	if most := lease.TTL + e.backend.Grace; remaining < left || remaining > most {
		fail(fmt.Sprintf("a time left from %s to %s", left, most), "%s", remaining)
	}
}

// drifts checks the deadline of a lease that was granted or renewed just now.
func (e *Env) drifts(lease locker.Lease) {
	most := lease.TTL - lease.TTL/100 - 2*time.Millisecond
	if left := lease.Remaining(); left > most {
		fail(fmt.Sprintf("at most %s left of a TTL of %s", most, lease.TTL), "%s", left)
	}
}

// unchanged checks the lease that Renew returned with an error.
func (e *Env) unchanged(lease, same locker.Lease) {
	if same.Key != lease.Key || same.Holder != lease.Holder || same.Token != lease.Token || same.TTL != lease.TTL || !same.Deadline.Equal(lease.Deadline) {
		fail("with an error the lease as it was: "+lease.String(), "%s", same)
	}
}

// forge tries a call with false versions of a lease, and checks that it stands.
func (e *Env) forge(ctx context.Context, versions func(locker.Lease) []locker.Lease, call func(locker.Locker, locker.Lease) error) {
	a := e.open(ctx)
	lease := e.acquire(ctx, a, e.key(), e.long)
	for i, forged := range versions(lease) {
		e.refuse(fmt.Sprintf("the call with forged lease %d, %s", i, forged), call(a, forged), locker.ErrNotHeld)
		e.stands(ctx, a, lease)
		e.held(ctx, a, lease.Key)
	}
}

// otherHolders returns lease with other holders. redislock compared holders by their
// beginning, so that "owner-12" could take over a lock of "owner-123".
func otherHolders(lease locker.Lease) []locker.Lease {
	var all []locker.Lease
	for _, holder := range []string{
		locker.NewHolder(),
		lease.Holder[:len(lease.Holder)-1],
		lease.Holder + "A",
		lease.Holder[:len(lease.Holder)/2],
	} {
		forged := lease
		forged.Holder = holder
		all = append(all, forged)
	}
	return all
}

// otherTokens returns lease with other tokens.
func otherTokens(lease locker.Lease) []locker.Lease {
	var all []locker.Lease
	for _, token := range []locker.Token{lease.Token + 1, lease.Token - 1, lease.Token / 10, locker.Token(time.Now().Add(time.Hour).UnixMicro())} {
		forged := lease
		forged.Token = token
		all = append(all, forged)
	}
	return all
}

// throughJSON returns what another process would make of a lease.
func (e *Env) throughJSON(lease locker.Lease) locker.Lease {
	b, err := json.Marshal(lease)
	if err != nil {
		fail("a lease in JSON", "%s", show(err))
	}
	var moved locker.Lease
	if err := json.Unmarshal(b, &moved); err != nil {
		fail("the lease from JSON", "%s", show(err))
	}
	return moved
}
