package conformance

import (
	"context"
	"strings"

	"github.com/locker-go/locker"
)

// credential returns the secret part of a lease's holder.
func credential(lease locker.Lease) string {
	return lease.Holder[strings.LastIndexByte(lease.Holder, '.')+1:]
}

// failure is a call that failed as it should.
type failure struct {
	call    string
	op, key string
	kind    error
	err     error
}

// failures makes every method fail.
func (e *Env) failures(ctx context.Context) []failure {
	a := e.open(ctx)
	key := e.key()
	lease := e.acquire(ctx, a, e.key(), e.long)
	e.release(ctx, a, lease)
	held := e.acquire(ctx, a, key, e.long)
	ended, cancel := context.WithCancel(ctx)
	cancel()

	_, acquireHeld := a.Acquire(ctx, key, e.long)
	_, acquireInvalid := a.Acquire(ctx, key, 0)
	_, acquireEnded := a.Acquire(ended, lease.Key, e.long)
	_, renewLost := a.Renew(ctx, lease, e.long)
	_, renewInvalid := a.Renew(ctx, held, 0)
	_, renewEnded := a.Renew(ended, held, e.long)
	_, fenceLost := a.FenceToken(ctx, lease)
	_, fenceEnded := a.FenceToken(ended, held)
	all := []failure{
		{"Acquire of a held key", "acquire", key, locker.ErrHeld, acquireHeld},
		{"Acquire for no time", "acquire", key, locker.ErrInvalid, acquireInvalid},
		{"Acquire with an ended context", "acquire", lease.Key, locker.ErrUnavailable, acquireEnded},
		{"Renew of a released lease", "renew", lease.Key, locker.ErrNotHeld, renewLost},
		{"Renew for no time", "renew", key, locker.ErrInvalid, renewInvalid},
		{"Renew with an ended context", "renew", key, locker.ErrUnavailable, renewEnded},
		{"FenceToken of a released lease", "fence", lease.Key, locker.ErrNotHeld, fenceLost},
		{"FenceToken with an ended context", "fence", key, locker.ErrUnavailable, fenceEnded},
		{"Release of a released lease", "release", lease.Key, locker.ErrNotHeld, a.Release(ctx, lease)},
		{"Release with an ended context", "release", key, locker.ErrUnavailable, a.Release(ended, held)},
	}
	if admin, ok := locker.As[locker.Admin](a); ok {
		_, inspectFree := admin.Inspect(ctx, lease.Key)
		_, inspectEnded := admin.Inspect(ended, key)
		all = append(all,
			failure{"Inspect of a free key", "inspect", lease.Key, locker.ErrNotHeld, inspectFree},
			failure{"Inspect with an ended context", "inspect", key, locker.ErrUnavailable, inspectEnded},
			failure{"Break of a released lease", "break", lease.Key, locker.ErrNotHeld, admin.Break(ctx, lease.Holding())},
			failure{"Raise absurdly", "raise", key, locker.ErrInvalid, admin.Raise(ctx, key, locker.MaxToken)},
			failure{"Raise with an ended context", "raise", key, locker.ErrUnavailable, admin.Raise(ended, key, 1)},
		)
	}
	for _, f := range all {
		if f.err == nil {
			fail(f.call+": an error", "none")
		}
	}
	return all
}
