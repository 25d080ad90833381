package conformance

import (
	"context"

	"github.com/locker-go/locker"
)

var leaseCases = []Case{
	must("Lease/holder", "Each grant has a holder of its own, also on one client and one key.",
		func(ctx context.Context, e *Env) {
			a, key := e.open(ctx), e.key()
			seen := make(map[string]bool)
			for i := range 4 {
				lease := e.acquire(ctx, a, key, e.long)
				e.release(ctx, a, lease)
				other := e.acquire(ctx, a, e.key(), e.long)
				seen[lease.Holder], seen[other.Holder] = true, true
				if len(seen) != 2*(i+1) {
					fail("a new holder", "one that another grant had: %s", locker.ShowHolder(lease.Holder))
				}
			}
		}),
	must("Lease/credential", "The holder's secret part is not to be guessed: it is as long as that of NewHolder, and ShowHolder hides it.",
		func(ctx context.Context, e *Env) {
			lease := e.acquire(ctx, e.open(ctx), e.key(), e.long)
			if secret := credential(lease); len(secret) < 26 {
				fail("a secret of 128 bits, 26 characters, after the last dot", "one of %d characters", len(secret))
			}
		}),
	must("Lease/JSON", "A lease that went through JSON is as good as before: another client asks for its token, renews it and releases it.",
		func(ctx context.Context, e *Env) {
			e.remote()
			a, b := e.open(ctx), e.open(ctx)
			lease := e.acquire(ctx, a, e.key(), e.long)
			moved := e.throughJSON(lease)
			if moved.Key != lease.Key || moved.Token != lease.Token || moved.TTL != lease.TTL || !moved.Deadline.Equal(lease.Deadline) {
				fail(lease.String(), "%s", moved)
			}
			e.stands(ctx, b, moved)
			renewed := e.throughJSON(e.renew(ctx, b, moved, e.long))
			e.stands(ctx, a, renewed)
			e.release(ctx, b, renewed)
			e.gone(ctx, a, lease)
			e.free(ctx, a, lease.Key)
		}),
	must("Lease/outlives its client", "A lease does not end with the client that acquired it, but by release or at its TTL.",
		func(ctx context.Context, e *Env) {
			e.remote()
			brief, b := e.open(ctx), e.open(ctx)
			lease := e.acquire(ctx, brief, e.key(), e.long)
			e.close(brief)
			e.held(ctx, b, lease.Key)
			e.stands(ctx, b, lease)
			e.release(ctx, b, lease)
			e.free(ctx, b, lease.Key)
		}),
}
