package conformance

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/locker-go/locker"
)

// acquire takes a lock that is free.
func (e *Env) acquire(ctx context.Context, l locker.Locker, key string, ttl time.Duration) locker.Lease {
	lease, err := inTime(ttl, func() (locker.Lease, error) { return l.Acquire(ctx, key, ttl) })
	if err != nil {
		fail("a lease of the free key", "Acquire: %s", show(err))
	}
	e.remember(l, lease)
	return lease
}

// inTime tries again where this machine was so slow that the lease was over before it
// was returned, which is no fault of the backend's.
func inTime(ttl time.Duration, attempt func() (locker.Lease, error)) (lease locker.Lease, err error) {
	for range 5 {
		began := locker.Now()
		lease, err = attempt()
		if !errors.Is(err, locker.ErrUnavailable) || began.Elapsed() < ttl-ttl/50-4*time.Millisecond {
			break
		}
	}
	return lease, err
}

// renew renews a lease that stands.
func (e *Env) renew(ctx context.Context, l locker.Locker, lease locker.Lease, ttl time.Duration) locker.Lease {
	renewed, err := l.Renew(ctx, lease, ttl)
	if err != nil {
		fail("the lease, renewed", "Renew: %s", show(err))
	}
	e.remember(l, renewed)
	return renewed
}

// release gives back a lease that stands.
func (e *Env) release(ctx context.Context, l locker.Locker, lease locker.Lease) {
	if err := l.Release(ctx, lease); err != nil {
		fail("the lease given back", "Release: %s", show(err))
	}
	e.forget(lease)
}

// refuse checks that a call failed as it should.
func (e *Env) refuse(call string, err, want error) {
	if !errors.Is(err, want) {
		fail(fmt.Sprintf("%s: %q", call, want), "%s: %s", call, show(err))
	}
}

// free checks that a key can be acquired at once.
func (e *Env) free(ctx context.Context, l locker.Locker, key string) {
	lease, err := l.Acquire(ctx, key, e.long)
	if err != nil {
		fail("the key free", "Acquire: %s", show(err))
	}
	e.remember(l, lease)
	e.release(ctx, l, lease)
}

// held checks that a key cannot be acquired, and returns what the error tells.
func (e *Env) held(ctx context.Context, l locker.Locker, key string) *locker.HeldError {
	lease, err := l.Acquire(ctx, key, e.long)
	if err == nil {
		e.remember(l, lease)
		fail("ErrHeld", "Acquire: %s", lease)
	}
	e.refuse("Acquire", err, locker.ErrHeld)
	held, ok := errors.AsType[*locker.HeldError](err)
	if !ok {
		fail("a *HeldError", "Acquire: a %T without one: %s", err, show(err))
	}
	return held
}

// stands checks that a lease is the current grant of its key.
func (e *Env) stands(ctx context.Context, l locker.Locker, lease locker.Lease) {
	token, err := l.FenceToken(ctx, lease)
	if err != nil || token != lease.Token {
		fail(fmt.Sprintf("the lease untouched: token %d", lease.Token), "FenceToken: %d, %s", token, show(err))
	}
}

// lapse waits until the backend must have let go of a lease that is not renewed.
func (e *Env) lapse(ctx context.Context, lease locker.Lease) {
	for {
		late := e.overdue(lease)
		if late > 0 {
			return
		}
		pause(ctx, min(-late+time.Millisecond, time.Second), "the lease to expire")
	}
}

// takeOver asks for the key of a lease that is not renewed until it gets it: not
// before the lease's deadline, and not once the backend should have let go of it.
func (e *Env) takeOver(ctx context.Context, l locker.Locker, lease locker.Lease) locker.Lease {
	for {
		late := e.overdue(lease)
		next, err := l.Acquire(ctx, lease.Key, e.long)
		left := lease.Remaining()
		switch {
		case err == nil && left > 0:
			e.remember(l, next)
			fail("no grant while the holder counts on its lease", "a grant %s before the deadline of the lease before", left)
		case err == nil:
			e.remember(l, next)
			return next
		case !errors.Is(err, locker.ErrHeld):
			fail("a lease, or ErrHeld", "Acquire: %s", show(err))
		case late > 0:
			fail(fmt.Sprintf("a grant at most %s after the TTL of %s was over", e.backend.Grace, lease.TTL),
				"%s later still: %s", late+e.backend.Grace, show(err))
		}
		pause(ctx, min(e.short/20+time.Millisecond, 50*time.Millisecond), "the lease to expire")
	}
}

// gone checks that a lease is no longer the current grant of its key.
func (e *Env) gone(ctx context.Context, l locker.Locker, lease locker.Lease) {
	token, err := l.FenceToken(ctx, lease)
	if err == nil || token != 0 {
		fail("no token, and ErrNotHeld", "FenceToken: %d, %s", token, show(err))
	}
	e.refuse("FenceToken", err, locker.ErrNotHeld)
}

// rises checks that a lease granted later has the higher token.
func (e *Env) rises(before, after locker.Lease) {
	if after.Token <= before.Token {
		fail(fmt.Sprintf("a token above %d", before.Token), "%d", after.Token)
	}
}

// keepAlive acquires a new key and renews the lease until three times its TTL have
// passed. It calls begin at the beginning and check after each renewal, and returns
// the lease renewed once more, for long. If this machine is too slow to renew in
// time it begins again, with another key and twice the TTL.
func (e *Env) keepAlive(ctx context.Context, l locker.Locker, begin func(key string), check func(locker.Lease)) locker.Lease {
	for ttl := e.short; ttl <= 32*e.short; ttl *= 2 {
		began := locker.Now()
		lease := e.acquire(ctx, l, e.key(), ttl)
		begin(lease.Key)
		inTime := true
		for inTime && began.Elapsed() < 3*lease.TTL {
			pause(ctx, lease.TTL/5, "a time to renew")
			if lease, inTime = e.renewInTime(ctx, l, lease, ttl); inTime {
				check(lease)
			}
		}
		if inTime {
			lease, inTime = e.renewInTime(ctx, l, lease, e.long)
		}
		if inTime {
			return lease
		}
	}
	fail("a lease that is renewed in time", "a machine too slow for a TTL of %s, and for longer ones", e.short)
	panic("unreachable")
}

// renewInTime renews a lease, or returns false if it was over before it was renewed.
func (e *Env) renewInTime(ctx context.Context, l locker.Locker, lease locker.Lease, ttl time.Duration) (locker.Lease, bool) {
	renewed, err := l.Renew(ctx, lease, ttl)
	switch {
	case err == nil:
		e.remember(l, renewed)
		return renewed, true
	case lease.Remaining() > 0:
		fail("the lease, renewed", "Renew: %s", show(err))
	}
	return lease, false
}

// remote skips the case if leases do not leave their client.
func (e *Env) remote() {
	if e.backend.Local {
		skip("Local: leases are bound to their client")
	}
}

// refuseNot checks that an error does not say more than the backend can know.
func (e *Env) refuseNot(call string, err, not error) {
	if errors.Is(err, not) {
		fail(fmt.Sprintf("%s: an error that is not %q", call, not), "%s: %s", call, show(err))
	}
}
