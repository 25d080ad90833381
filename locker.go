package locker

import (
	"context"
	"iter"
	"math"
	"time"
)

// Token is a fencing token: a number that rises with every grant of a key, on
// every backend, in one number space (microseconds since the Unix epoch, moved
// past whatever was issued before). Zero was never granted, and every consumer
// must refuse it. Tokens stay below [MaxToken].
type Token uint64

// MaxToken bounds all tokens, so that Lua, JSON and JavaScript keep them exact.
const MaxToken Token = 1<<53 - 1

// Locker is what a backend implements. Its methods may be called concurrently.
// Locks are not reentrant.
//
// Errors are [*OpError] values around [ErrHeld], [ErrNotHeld], [ErrInvalid] or
// [ErrUnavailable]; the driver's and the context's errors are reachable beneath
// them. Every method returns in bounded time, also when the backend is silent.
type Locker interface {
	// Acquire attempts once to take the lock of key for ttl.
	//
	// It fails with ErrHeld (as a *HeldError, which tells who holds the lock and
	// for how long), with ErrInvalid before anything was sent, or with
	// ErrUnavailable. Failed or cancelled, it leaves nothing behind: no key, and
	// no request that could take the lock later.
	//
	// The backend may grant longer than ttl, or, where it cannot promise as long,
	// shorter; the lease's TTL tells.
	Acquire(ctx context.Context, key string, ttl time.Duration) (Lease, error)

	// Renew extends the lease to ttl from now and returns it with the same Token.
	// It never takes a lock again that was lost: that is ErrNotHeld. After any
	// error the lease stands as it was, and Renew may be called again.
	Renew(ctx context.Context, lease Lease, ttl time.Duration) (Lease, error)

	// Release gives the lock back if this very grant still holds it, else it
	// changes nothing and fails with ErrNotHeld.
	Release(ctx context.Context, lease Lease) error

	// FenceToken asks the backend whether the lease is still the current grant
	// of its key. It returns the lease's own token or ErrNotHeld, never the token
	// of a successor.
	FenceToken(ctx context.Context, lease Lease) (Token, error)
}

// Waiter is implemented by a backend that can wait for a lock better than by
// asking again: by a queue or a notification of its own.
type Waiter interface {
	// AcquireWait waits until it has the lock or ctx ends. In the latter case the
	// error is both ErrHeld and the context's. An outage of the backend that
	// begins during the wait is tolerated for a bounded time. [AcquireWait] calls
	// it where there is one.
	AcquireWait(ctx context.Context, key string, ttl time.Duration) (Lease, error)
}

// Admin is implemented by a backend that lets operators look and intervene.
type Admin interface {
	// Inspect tells who holds key, or ErrNotHeld.
	Inspect(ctx context.Context, key string) (Holding, error)

	// Holdings yields the locks held on keys that begin with prefix, in no
	// particular order. An error ends the sequence.
	Holdings(ctx context.Context, prefix string) iter.Seq2[Holding, error]

	// Break ends the grant that was seen as h, never a later one; if that grant
	// is gone it fails with ErrNotHeld. The broken holder's next Renew, and its
	// Release, say ErrNotHeld.
	Break(ctx context.Context, h Holding) error

	// Raise makes every later token of key higher than floor. A grant that
	// stands is untouched. A floor absurdly ahead of the clock is ErrInvalid.
	Raise(ctx context.Context, key string, floor Token) error

	// HighWater returns a number that no token issued so far, for any key, is
	// above.
	HighWater(ctx context.Context) (Token, error)
}

// Forever is the Remaining of a Holding that does not expire by itself.
const Forever time.Duration = math.MaxInt64

// Holding is a lock as others see it. It carries no credential: with it alone
// nobody can renew or release the lock.
type Holding struct {
	Key string

	// Holder names the holding process as host.pid#hash, the hash standing for
	// the secret part of the holder's identity. A lock that another program put
	// there without this library shows as #hash alone.
	Holder string

	// Token is the grant's token; zero for a lock of another program.
	Token Token

	// Remaining is how long the backend will keep the lock if nobody renews it:
	// zero if unknown, Forever if it does not expire.
	Remaining time.Duration

	// Handle lets the backend recognise this grant again. It is opaque.
	Handle string
}

// As finds the first Locker in l's chain that is a T: a backend's own type, or an
// optional interface such as [Waiter] or [Admin]. The chain consists of l and of
// what its Unwrap() Locker method returns, like that of errors. A wrapper that
// passes every call through has that method; one that changes what a call means
// must not, or calls made on what it wraps would bypass it.
func As[T any](l Locker) (T, bool) {
	for l != nil {
		if t, ok := l.(T); ok {
			return t, true
		}
		w, ok := l.(interface{ Unwrap() Locker })
		if !ok {
			break
		}
		l = w.Unwrap()
	}
	var zero T
	return zero, false
}
