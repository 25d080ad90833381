package conformance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/locker-go/locker"
)

var errorCases = []Case{
	must("Errors/operation", "Every error is an *OpError that names the operation and the key.",
		func(ctx context.Context, e *Env) {
			for _, f := range e.failures(ctx) {
				op, ok := errors.AsType[*locker.OpError](f.err)
				switch {
				case !ok:
					fail(f.call+": an *OpError", "a %T: %s", f.err, show(f.err))
				case op.Op != f.op || op.Key != f.key:
					fail(fmt.Sprintf("%s: operation %s on %q", f.call, f.op, f.key), "operation %s on %q", op.Op, op.Key)
				}
			}
		}),
	must("Errors/kind", "Every error is one of ErrHeld, ErrNotHeld, ErrInvalid and ErrUnavailable, and only the one that it should be.",
		func(ctx context.Context, e *Env) {
			for _, f := range e.failures(ctx) {
				for _, kind := range []error{locker.ErrHeld, locker.ErrNotHeld, locker.ErrInvalid, locker.ErrUnavailable} {
					if errors.Is(f.err, kind) != (kind == f.kind) {
						fail(fmt.Sprintf("%s: %q and no other kind", f.call, f.kind), "errors.Is %q is %t: %s", kind, kind != f.kind, show(f.err))
					}
				}
			}
		}),
	// redsync#165, redislock#84: the reason was lost.
	must("Errors/cause of a cancelled context", "Where a context was cancelled with a cause, its error can be told from the error all the same.",
		func(ctx context.Context, e *Env) {
			l := e.open(ctx)
			lease := e.acquire(ctx, l, e.key(), e.long)
			ended, cancel := context.WithCancelCause(ctx)
			cancel(errors.New("no longer wanted"))
			_, err := l.Acquire(ended, e.key(), e.long)
			e.refuse("Acquire", err, context.Canceled)
			_, err = l.Renew(ended, lease, e.long)
			e.refuse("Renew", err, context.Canceled)
			_, err = l.FenceToken(ended, lease)
			e.refuse("FenceToken", err, context.Canceled)
			_, err = locker.AcquireWait(ended, l, lease.Key, e.long)
			e.refuse("AcquireWait", err, context.Canceled)
			e.refuse("Release", l.Release(ended, lease), context.Canceled)
		}),
	alone(must("Errors/invalid sends nothing", "What is ErrInvalid is refused before any request: wrong arguments in a loop do not load the store.",
		func(ctx context.Context, e *Env) {
			l := e.open(ctx)
			lease := e.acquire(ctx, l, e.key(), e.long)
			const calls = 40
			before := e.requests(ctx)
			for range calls / 4 {
				_, err := l.Acquire(ctx, "", e.long)
				e.refuse("Acquire of the empty key", err, locker.ErrInvalid)
				_, err = l.Acquire(ctx, lease.Key, 0)
				e.refuse("Acquire for no time", err, locker.ErrInvalid)
				_, err = l.Renew(ctx, lease, -time.Second)
				e.refuse("Renew for no time", err, locker.ErrInvalid)
				_, err = locker.AcquireWait(ctx, l, lease.Key, 0)
				e.refuse("AcquireWait for no time", err, locker.ErrInvalid)
			}
			// A client may send requests of its own meanwhile, to stay connected.
			if sent := e.requests(ctx) - before; sent >= calls/4 {
				fail(fmt.Sprintf("fewer than %d requests", calls/4), "%d requests for %d invalid calls", sent, calls)
			}
		})),
	must("Errors/credential", "No error, and nothing that an Admin tells, shows the secret part of a holder: with it anybody could release the lock.",
		func(ctx context.Context, e *Env) {
			a, b := e.open(ctx), e.open(ctx)
			lease := e.acquire(ctx, a, e.key(), e.long)
			secret := credential(lease)
			hidden := func(where, text string) {
				if strings.Contains(text, secret) {
					fail(where+" without the credential", "%s", strings.ReplaceAll(text, secret, "[the credential]"))
				}
			}
			_, err := b.Acquire(ctx, lease.Key, e.long)
			hidden("Acquire", fmt.Sprintf("%v %+v", err, err))
			if held, ok := errors.AsType[*locker.HeldError](err); ok {
				hidden("the HeldError", fmt.Sprintf("%+v", held.Holding))
			}
			forged := otherTokens(lease)[0]
			_, err = a.Renew(ctx, forged, e.long)
			hidden("Renew", fmt.Sprintf("%v %+v", err, err))
			_, err = a.FenceToken(ctx, forged)
			hidden("FenceToken", fmt.Sprintf("%v %+v", err, err))
			err = a.Release(ctx, forged)
			hidden("Release", fmt.Sprintf("%v %+v", err, err))
			admin, ok := locker.As[locker.Admin](b)
			if !ok {
				return
			}
			h := e.inspect(ctx, admin, lease.Key)
			text, err := json.Marshal(h)
			if err != nil {
				fail("a holding in JSON", "%s", show(err))
			}
			hidden("Inspect", fmt.Sprintf("%+v %s", h, text))
			for _, h := range e.holdings(ctx, admin, lease.Key) {
				hidden("Holdings", fmt.Sprintf("%+v", h))
			}
			h.Token++
			err = admin.Break(ctx, h)
			hidden("Break", fmt.Sprintf("%v %+v", err, err))
		}),
}
