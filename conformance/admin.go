package conformance

import (
	"context"
	"fmt"
	"time"

	"github.com/locker-go/locker"
)

// They do not apply to a backend without locker.Admin.
var adminCases = []Case{
	must("Inspect/held", "Inspect tells who holds a key: its name as ShowHolder prints it, and its token.",
		func(ctx context.Context, e *Env) {
			a, b := e.open(ctx), e.open(ctx)
			admin := e.admin(b)
			lease := e.acquire(ctx, a, e.key(), e.long)
			e.describes(e.inspect(ctx, admin, lease.Key), lease)
			lease = e.renew(ctx, a, lease, e.long)
			e.describes(e.inspect(ctx, admin, lease.Key), lease)
		}),
	should("Inspect/time left", "Inspect tells for how long the backend will keep the lock: no shorter than the holder counts on, no longer than TTL and Grace.",
		func(ctx context.Context, e *Env) {
			a, b := e.open(ctx), e.open(ctx)
			admin := e.admin(b)
			lease := e.acquire(ctx, a, e.key(), e.long)
			e.plausible(e.inspect(ctx, admin, lease.Key).Remaining, lease)
			lease = e.renew(ctx, a, lease, e.long*2)
			e.plausible(e.inspect(ctx, admin, lease.Key).Remaining, lease)
		}),
	must("Inspect/free", "Inspect of a key that was never held, was released, or whose lease expired is ErrNotHeld.",
		func(ctx context.Context, e *Env) {
			a := e.open(ctx)
			admin := e.admin(a)
			free := func(key string) {
				_, err := admin.Inspect(ctx, key)
				e.refuse("Inspect", err, locker.ErrNotHeld)
			}
			free(e.key())
			lease := e.acquire(ctx, a, e.key(), e.long)
			e.release(ctx, a, lease)
			free(lease.Key)
			lease = e.acquire(ctx, a, lease.Key, e.short)
			e.lapse(ctx, lease)
			free(lease.Key)
		}),
	must("Holdings/prefix", "Holdings yields each lock that is held on a key that begins with the prefix, once, and no other.",
		func(ctx context.Context, e *Env) {
			a, b := e.open(ctx), e.open(ctx)
			admin := e.admin(b)
			p := e.key()
			want := make(map[string]locker.Lease)
			for _, key := range []string{p + "/a", p + "/a/", p + "/b {c}", p + "/é"} {
				want[key] = e.acquire(ctx, a, key, e.long)
			}
			e.acquire(ctx, a, p, e.long)
			e.acquire(ctx, a, "x"+p+"/a", e.long)
			e.release(ctx, a, e.acquire(ctx, a, p+"/released", e.long))
			expired := e.acquire(ctx, a, p+"/expired", e.short)
			e.lapse(ctx, expired)
			found := e.holdings(ctx, admin, p+"/")
			for _, h := range found {
				lease, ok := want[h.Key]
				if !ok {
					fail("only locks under "+p+"/ that are held, each once", "%q", h.Key)
				}
				e.describes(h, lease)
				delete(want, h.Key)
			}
			if len(want) > 0 {
				fail("all that is held under "+p+"/", "%d locks, without %d others", len(found), len(want))
			}
		}),
	must("Holdings/literal prefix", "The prefix is no pattern.",
		func(ctx context.Context, e *Env) {
			a := e.open(ctx)
			admin := e.admin(a)
			p := e.key()
			for _, key := range []string{"*", "?", "[ab]", "a", "\\", "{", "%"} {
				e.acquire(ctx, a, p+key, e.long)
			}
			for _, end := range []string{"*", "?", "[ab]", "\\", "{", "%"} {
				found := e.holdings(ctx, admin, p+end)
				if len(found) != 1 || found[0].Key != p+end {
					fail(fmt.Sprintf("the one lock of %q", p+end), "%d locks: %v", len(found), found)
				}
			}
		}),
	must("Holdings/stopped", "Who stops reading Holdings is done, and can read them again.",
		func(ctx context.Context, e *Env) {
			a := e.open(ctx)
			admin := e.admin(a)
			p := e.key()
			for i := range 3 {
				e.acquire(ctx, a, fmt.Sprint(p, i), e.long)
			}
			for range 2 {
				for _, err := range admin.Holdings(ctx, p) {
					if err != nil {
						fail("a holding", "Holdings: %s", show(err))
					}
					break
				}
			}
			if found := e.holdings(ctx, admin, p); len(found) != 3 {
				fail("3 locks", "%d", len(found))
			}
		}),
	must("Holdings/cancelled", "With a context that has ended Holdings yields its error, once, and nothing else.",
		func(ctx context.Context, e *Env) {
			a := e.open(ctx)
			admin := e.admin(a)
			lease := e.acquire(ctx, a, e.key(), e.long)
			ended, cancel := context.WithCancel(ctx)
			cancel()
			var errs []error
			for h, err := range admin.Holdings(ended, lease.Key) {
				if err == nil {
					fail("an error", "%q", h.Key)
				}
				errs = append(errs, err)
			}
			if len(errs) != 1 {
				fail("one error", "%d", len(errs))
			}
			e.refuse("Holdings", errs[0], context.Canceled)
		}),
	must("Break/holder", "A broken grant is over: the key is free, and its holder's Renew, FenceToken and Release say ErrNotHeld.",
		func(ctx context.Context, e *Env) {
			a, b := e.open(ctx), e.open(ctx)
			admin := e.admin(b)
			lease := e.acquire(ctx, a, e.key(), e.long)
			e.brk(ctx, admin, e.inspect(ctx, admin, lease.Key))
			_, err := a.Renew(ctx, lease, e.long)
			e.refuse("Renew", err, locker.ErrNotHeld)
			e.gone(ctx, a, lease)
			e.refuse("Release", a.Release(ctx, lease), locker.ErrNotHeld)
			e.free(ctx, b, lease.Key)
		}),
	must("Break/renewed", "A grant that was renewed after it was seen is still the same, and is broken.",
		func(ctx context.Context, e *Env) {
			a := e.open(ctx)
			admin := e.admin(a)
			lease := e.acquire(ctx, a, e.key(), e.long)
			seen := e.inspect(ctx, admin, lease.Key)
			e.renew(ctx, a, lease, e.long*2)
			e.brk(ctx, admin, seen)
			e.free(ctx, a, lease.Key)
		}),
	must("Break/listed", "What Holdings yields can be broken, as what Inspect returns.",
		func(ctx context.Context, e *Env) {
			a := e.open(ctx)
			admin := e.admin(a)
			lease := e.acquire(ctx, a, e.key(), e.long)
			for _, h := range e.holdings(ctx, admin, lease.Key) {
				e.brk(ctx, admin, h)
			}
			e.free(ctx, a, lease.Key)
		}),
	must("Break/successor", "Break ends the grant that was seen, never its successor: that is ErrNotHeld, and the successor stands.",
		func(ctx context.Context, e *Env) {
			a, b := e.open(ctx), e.open(ctx)
			admin := e.admin(b)
			first := e.acquire(ctx, a, e.key(), e.long)
			seen := e.inspect(ctx, admin, first.Key)
			e.release(ctx, a, first)
			e.refuse("Break of a free key", admin.Break(ctx, seen), locker.ErrNotHeld)
			second := e.acquire(ctx, a, first.Key, e.long)
			e.refuse("Break", admin.Break(ctx, seen), locker.ErrNotHeld)
			e.stands(ctx, a, second)
			e.held(ctx, b, first.Key)
		}),
	must("Break/waiter", "A waiter gets the lock of a grant that is broken, long before its TTL is over.",
		func(ctx context.Context, e *Env) {
			a, b := e.open(ctx), e.open(ctx)
			admin := e.admin(a)
			lease := e.acquire(ctx, a, e.key(), e.long)
			w := e.wait(ctx, b, lease.Key)
			e.settle(ctx)
			e.brk(ctx, admin, e.inspect(ctx, admin, lease.Key))
			e.rises(lease, w.granted(patience))
		}),
	must("Raise/floor", "After Raise every token of the key is above the floor, also while it was held.",
		func(ctx context.Context, e *Env) {
			a, b := e.open(ctx), e.open(ctx)
			admin := e.admin(a)
			free := e.key()
			floor := ahead()
			e.raise(ctx, admin, free, floor)
			e.above(e.acquire(ctx, b, free, e.long), floor)
			lease := e.acquire(ctx, a, e.key(), e.long)
			e.raise(ctx, admin, lease.Key, floor)
			e.release(ctx, a, lease)
			next := e.acquire(ctx, b, lease.Key, e.long)
			e.above(next, floor)
			e.release(ctx, b, next)
			e.rises(next, e.acquire(ctx, a, lease.Key, e.long))
		}),
	must("Raise/standing grant", "Raise leaves the grant that stands as it is: its token is its own, and it renews and releases.",
		func(ctx context.Context, e *Env) {
			a := e.open(ctx)
			admin := e.admin(a)
			lease := e.acquire(ctx, a, e.key(), e.long)
			e.raise(ctx, admin, lease.Key, ahead())
			e.stands(ctx, a, lease)
			renewed := e.renew(ctx, a, lease, e.long)
			if renewed.Token != lease.Token {
				fail(fmt.Sprintf("the token %d", lease.Token), "%d", renewed.Token)
			}
			e.release(ctx, a, renewed)
		}),
	must("Raise/lower floor", "Raise never lowers: a floor below an earlier one changes nothing.",
		func(ctx context.Context, e *Env) {
			a := e.open(ctx)
			admin := e.admin(a)
			key, floor := e.key(), ahead()
			e.raise(ctx, admin, key, floor)
			e.raise(ctx, admin, key, 1)
			e.above(e.acquire(ctx, a, key, e.long), floor)
		}),
	must("Raise/absurd floor", "A floor far ahead of the clock is ErrInvalid and changes nothing, or one mistake would use up the tokens for ever.",
		func(ctx context.Context, e *Env) {
			a := e.open(ctx)
			admin := e.admin(a)
			key := e.key()
			hour := locker.Token(time.Now().Add(time.Hour).UnixMicro())
			for _, floor := range []locker.Token{locker.MaxToken + 1, 1<<64 - 1, locker.MaxToken, hour * 2} {
				e.refuse(fmt.Sprintf("Raise to %d", floor), admin.Raise(ctx, key, floor), locker.ErrInvalid)
			}
			if t := e.acquire(ctx, a, key, e.long).Token; t > hour*2 {
				fail(fmt.Sprintf("a token below %d", hour*2), "%d", t)
			}
		}),
	must("HighWater/issued", "No token issued so far, for any key, is above HighWater.",
		func(ctx context.Context, e *Env) {
			a, b := e.open(ctx), e.open(ctx)
			admin := e.admin(b)
			key := e.key()
			e.raise(ctx, admin, key, ahead())
			lease := e.acquire(ctx, a, key, e.long)
			e.covered(ctx, admin, lease)
			e.release(ctx, a, lease)
			e.covered(ctx, admin, lease)
			e.covered(ctx, admin, e.acquire(ctx, a, e.key(), e.long))
		}),
	must("HighWater/as a floor", "A key can be raised to HighWater: that is how tokens go on rising on another backend.",
		func(ctx context.Context, e *Env) {
			a := e.open(ctx)
			admin := e.admin(a)
			e.acquire(ctx, a, e.key(), e.long)
			high := e.highWater(ctx, admin)
			key := e.key()
			e.raise(ctx, admin, key, high)
			e.above(e.acquire(ctx, a, key, e.long), high)
		}),
}
