package conformance

import (
	"context"
	"fmt"
	"time"

	"github.com/locker-go/locker"
)

var tokenCases = []Case{
	must("Tokens/range", "A token is from 1 to 2^53-1, so that Lua, JSON and JavaScript keep it exact.",
		func(ctx context.Context, e *Env) {
			a := e.open(ctx)
			for range 3 {
				if t := e.acquire(ctx, a, e.key(), e.long).Token; t == 0 || t > locker.MaxToken {
					fail(fmt.Sprintf("a token from 1 to %d", locker.MaxToken), "%d", t)
				}
			}
		}),
	must("Tokens/number space", "Tokens count microseconds since 1970, or more, so that they rise through a move to another backend too: none is more than a minute behind the clock.",
		func(ctx context.Context, e *Env) {
			lease := e.acquire(ctx, e.open(ctx), e.key(), e.long)
			if least := locker.Token(time.Now().Add(-time.Minute).UnixMicro()); lease.Token < least {
				fail(fmt.Sprintf("a token of %d or more", least), "%d", lease.Token)
			}
		}),
	// litestream: releasing deleted the record, so that the token began at 1 again.
	must("Tokens/release", "Tokens of a key rise through its releases, whichever client gets it.",
		func(ctx context.Context, e *Env) {
			clients := []locker.Locker{e.open(ctx), e.open(ctx)}
			var last locker.Lease
			key := e.key()
			for i := range 10 {
				l := clients[i%len(clients)]
				lease := e.acquire(ctx, l, key, e.long)
				e.rises(last, lease)
				e.held(ctx, l, key)
				e.release(ctx, l, lease)
				last = lease
			}
		}),
	// Azure cosmos-db-patterns#91: the counter expired with the lock's record.
	must("Tokens/expiry", "Tokens of a key rise through the expiry of its leases.",
		func(ctx context.Context, e *Env) {
			a, b := e.open(ctx), e.open(ctx)
			first := e.acquire(ctx, a, e.key(), e.short)
			e.lapse(ctx, first)
			second := e.acquire(ctx, b, first.Key, e.short)
			e.rises(first, second)
			e.lapse(ctx, second)
			e.rises(second, e.acquire(ctx, a, first.Key, e.long))
		}),
	must("Tokens/break", "Tokens of a key rise when a grant is broken.",
		func(ctx context.Context, e *Env) {
			a := e.open(ctx)
			admin := e.admin(a)
			lease := e.acquire(ctx, a, e.key(), e.long)
			e.brk(ctx, admin, e.inspect(ctx, admin, lease.Key))
			e.rises(lease, e.acquire(ctx, a, lease.Key, e.long))
		}),
	must("Tokens/new clients", "Tokens of a key rise also when every client is new.",
		func(ctx context.Context, e *Env) {
			keep := e.open(ctx) // a store within the process may end with its last client
			var last locker.Lease
			key := e.key()
			for range 3 {
				l := e.open(ctx)
				lease := e.acquire(ctx, l, key, e.long)
				e.release(ctx, l, lease)
				e.close(l)
				e.rises(last, lease)
				last = lease
			}
			e.free(ctx, keep, key)
		}),
	must("Tokens/clients at once", "Of grants by many clients at once each has a token of its own, and a later one the higher.",
		func(ctx context.Context, e *Env) {
			var history History
			key := e.key()
			e.each(ctx, 8, func(ctx context.Context, _ int) {
				l := history.Record(e.open(ctx))
				for range 4 {
					lease := e.acquireWait(ctx, l, key, e.long)
					pause(ctx, time.Millisecond, "a moment as the holder")
					e.release(ctx, l, lease)
				}
			})
			e.legal(&history)
		}),
}
