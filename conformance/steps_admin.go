package conformance

import (
	"context"
	"fmt"
	"time"

	"github.com/locker-go/locker"
)

// ahead returns a floor that is above the tokens of the moment, and allowed.
func ahead() locker.Token { return locker.Token(time.Now().Add(3 * time.Second).UnixMicro()) }

// admin returns the Admin of l, or skips the case.
func (e *Env) admin(l locker.Locker) locker.Admin {
	admin, ok := locker.As[locker.Admin](l)
	if !ok {
		skip("no Admin")
	}
	return admin
}

func (e *Env) inspect(ctx context.Context, admin locker.Admin, key string) locker.Holding {
	h, err := admin.Inspect(ctx, key)
	if err != nil {
		fail("the holding of a held key", "Inspect: %s", show(err))
	}
	return h
}

func (e *Env) holdings(ctx context.Context, admin locker.Admin, prefix string) []locker.Holding {
	var all []locker.Holding
	for h, err := range admin.Holdings(ctx, prefix) {
		if err != nil {
			fail("holdings", "Holdings: %s", show(err))
		}
		all = append(all, h)
	}
	return all
}

// brk breaks a grant that stands.
func (e *Env) brk(ctx context.Context, admin locker.Admin, h locker.Holding) {
	if err := admin.Break(ctx, h); err != nil {
		fail("the grant broken", "Break: %s", show(err))
	}
}

func (e *Env) raise(ctx context.Context, admin locker.Admin, key string, floor locker.Token) {
	if err := admin.Raise(ctx, key, floor); err != nil {
		fail("the floor raised", "Raise to %d: %s", floor, show(err))
	}
}

func (e *Env) above(lease locker.Lease, floor locker.Token) {
	if lease.Token <= floor {
		fail(fmt.Sprintf("a token above the floor %d", floor), "%d", lease.Token)
	}
}

func (e *Env) highWater(ctx context.Context, admin locker.Admin) locker.Token {
	high, err := admin.HighWater(ctx)
	if err != nil {
		fail("a high-water mark", "HighWater: %s", show(err))
	}
	return high
}

// covered checks that a token is not above HighWater.
func (e *Env) covered(ctx context.Context, admin locker.Admin, lease locker.Lease) {
	if high := e.highWater(ctx, admin); high < lease.Token {
		fail(fmt.Sprintf("at least the issued token %d", lease.Token), "HighWater: %d", high)
	}
}

// describes checks what the backend tells of a lease.
func (e *Env) describes(h locker.Holding, lease locker.Lease) {
	want := lease.Holding()
	if h.Key != want.Key || h.Holder != want.Holder || h.Token != want.Token {
		fail(fmt.Sprintf("%q held by %s with token %d", want.Key, want.Holder, want.Token),
			"%q held by %s with token %d", h.Key, h.Holder, h.Token)
	}
}
