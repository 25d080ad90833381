package conformance

import (
	"context"

	"github.com/locker-go/locker"
)

var renewCases = []Case{
	must("Renew/token", "Renew keeps the token, the key and the holder.",
		func(ctx context.Context, e *Env) {
			a := e.open(ctx)
			lease := e.acquire(ctx, a, e.key(), e.long)
			renewed := e.renew(ctx, a, lease, e.long)
			if renewed.Token != lease.Token || renewed.Key != lease.Key || renewed.Holder != lease.Holder {
				fail(lease.String(), "%s", renewed)
			}
			e.stands(ctx, a, renewed)
		}),
	// redsync (SetNXOnExtend), redlock-rb#36, RedLock.net#48, libkv#31: extending a lock
	// that had expired succeeded, or took it again.
	must("Renew/expired", "Renew never takes a lock again that was lost: it is ErrNotHeld, and the key stays free.",
		func(ctx context.Context, e *Env) {
			a := e.open(ctx)
			lease := e.acquire(ctx, a, e.key(), e.short)
			e.lapse(ctx, lease)
			_, err := a.Renew(ctx, lease, e.long)
			e.refuse("Renew", err, locker.ErrNotHeld)
			e.free(ctx, e.open(ctx), lease.Key)
		}),
}
