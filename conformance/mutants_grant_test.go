package conformance_test

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/locker-go/locker"
)

var acquireMutants = []mutant{
	{"rueidis#925: finds its own key, and takes it for another's", []string{"Acquire/free key", "Waiter/free key"}, by(func(b *broken) {
		b.acquire = func(ctx context.Context, key string, ttl time.Duration) (locker.Lease, error) {
			if _, err := b.inner.Acquire(ctx, key, ttl); err != nil {
				return locker.Lease{}, err
			}
			return b.inner.Acquire(ctx, key, ttl)
		}
	})},
	{"says that the key is held, not by whom", []string{"Acquire/held by another client"}, by(func(b *broken) {
		b.acquire = func(ctx context.Context, key string, ttl time.Duration) (locker.Lease, error) {
			lease, err := b.inner.Acquire(ctx, key, ttl)
			if isHeld(err) {
				err = &locker.OpError{Op: "acquire", Key: key, Err: locker.ErrHeld}
			}
			return lease, err
		}
	})},
	{"etcd#11391: two handles on one session both hold the lock", []string{"Acquire/held by the same client", "Exclusion/goroutines at once"}, by(func(b *broken) {
		mine := make(chan map[string]locker.Lease, 1)
		mine <- make(map[string]locker.Lease)
		b.acquire = func(ctx context.Context, key string, ttl time.Duration) (locker.Lease, error) {
			all := <-mine
			defer func() { mine <- all }()
			lease, err := b.inner.Acquire(ctx, key, ttl)
			if isHeld(err) && all[key].Remaining() > 0 {
				return all[key], nil
			}
			all[key] = lease
			return lease, err
		}
	})},
	{"checks, and sets later: two find the key free", []string{"Exclusion/clients at once", "Exclusion/goroutines at once"}, by(func(b *broken) {
		b.acquire = func(ctx context.Context, key string, ttl time.Duration) (locker.Lease, error) {
			if _, err := b.inner.Inspect(ctx, key); err == nil {
				return b.inner.Acquire(ctx, key, ttl)
			}
			sleep(ctx, time.Millisecond)
			if h, err := b.inner.Inspect(ctx, key); err == nil {
				_ = b.inner.Break(ctx, h)
			}
			return b.inner.Acquire(ctx, key, ttl)
		}
	})},
	{"knows nothing of the holder", []string{"Acquire/held names the holder"}, by(func(b *broken) {
		b.acquire = told(b, func(h *locker.Holding) { h.Holder, h.Token = "", 0 })
	})},
	{"does not know the time left", []string{"Acquire/held tells the time left"}, by(func(b *broken) {
		b.acquire = told(b, func(h *locker.Holding) { h.Remaining = 0 })
	})},
	{"tells a time left in seconds as if it were milliseconds", []string{"Acquire/held tells the time left"}, by(func(b *broken) {
		b.acquire = told(b, func(h *locker.Holding) { h.Remaining /= 1000 })
	})},
	{"tells a lock with a TTL as one without", []string{"Acquire/held tells the time left"}, by(func(b *broken) {
		b.acquire = told(b, func(h *locker.Holding) { h.Remaining = locker.Forever })
	})},
	{"says that it released, and did not", []string{"Acquire/after release", "Waiter/many"}, by(func(b *broken) {
		b.release = func(context.Context, locker.Lease) error { return nil }
	})},
	{"classicswarm#1251: 1.5 s becomes 1 s, unnoticed", []string{"Acquire/not before the deadline", "Waiter/expiry"}, by(func(b *broken) {
		b.acquire = func(ctx context.Context, key string, ttl time.Duration) (locker.Lease, error) {
			asked := locker.Now()
			lease, err := b.inner.Acquire(ctx, key, max(ttl*2/3, locker.MinTTL))
			if err != nil {
				return lease, err
			}
			return lease.Granted(asked, ttl, ttl), nil
		}
	})},
	{"keeps the lock for longer than it says", []string{"Acquire/after expiry", "Acquire/shortest TTL"}, by(func(b *broken) {
		b.acquire = func(ctx context.Context, key string, ttl time.Duration) (locker.Lease, error) {
			asked := locker.Now()
			lease, err := b.inner.Acquire(ctx, key, max(ttl, 10*time.Millisecond)+50*time.Millisecond)
			if err != nil {
				return lease, err
			}
			return lease.Granted(asked, ttl, ttl), nil
		}
	})},
	{"redlock-py#3: the drift has the wrong sign", []string{"Acquire/drift"}, by(func(b *broken) {
		b.acquire = func(ctx context.Context, key string, ttl time.Duration) (locker.Lease, error) {
			lease, err := b.inner.Acquire(ctx, key, ttl)
			lease.Deadline = lease.Deadline.Add(2 * (ttl/100 + 2*time.Millisecond))
			return lease, err
		}
	})},
	{"refuses TTLs below a second", []string{"Acquire/shortest TTL"}, by(func(b *broken) {
		b.acquire = func(ctx context.Context, key string, ttl time.Duration) (locker.Lease, error) {
			if ttl < time.Second {
				return locker.Lease{}, &locker.OpError{Op: "acquire", Key: key, Err: locker.ErrInvalid}
			}
			return b.inner.Acquire(ctx, key, ttl)
		}
	})},
	{"redislock: a TTL of zero returns a lock although there is no key", []string{"Acquire/invalid TTL", "Waiter/invalid arguments"}, by(func(b *broken) {
		b.acquire = func(ctx context.Context, key string, ttl time.Duration) (locker.Lease, error) {
			if ttl < locker.MinTTL {
				return locker.Lease{Key: key, Holder: locker.NewHolder(), Token: 1}, nil
			}
			return b.inner.Acquire(ctx, key, ttl)
		}
	})},
	{"goes on with a context that has ended", []string{"Acquire/cancelled before", "Waiter/context ended before"}, by(func(b *broken) {
		b.acquire = func(ctx context.Context, key string, ttl time.Duration) (locker.Lease, error) {
			return b.inner.Acquire(context.WithoutCancel(ctx), key, ttl)
		}
	})},
	{"redsync: the clean-up uses the cancelled context", []string{"Acquire/cancelled under way", "Acquire/cancelled before"}, by(func(b *broken) {
		b.acquire = func(ctx context.Context, key string, ttl time.Duration) (locker.Lease, error) {
			lease, err := b.inner.Acquire(context.WithoutCancel(ctx), key, ttl)
			sleep(ctx, 500*time.Microsecond) // until the reply arrives
			if err == nil && ctx.Err() != nil {
				_ = b.inner.Release(ctx, lease)
				return locker.Lease{}, &locker.OpError{Op: "acquire", Key: key, Err: fmt.Errorf("%w: %w", locker.ErrUnavailable, ctx.Err())}
			}
			return lease, err
		}
	})},
	{"etcd: a release ends all that the session holds", []string{"Acquire/many keys", "Keys/prefix"}, by(func(b *broken) {
		var all []locker.Lease
		b.acquire = func(ctx context.Context, key string, ttl time.Duration) (locker.Lease, error) {
			lease, err := b.inner.Acquire(ctx, key, ttl)
			if err == nil {
				all = append(all, lease)
			}
			return lease, err
		}
		b.release = func(ctx context.Context, lease locker.Lease) error {
			err := b.inner.Release(ctx, lease)
			for _, other := range all {
				_ = b.inner.Release(ctx, other)
			}
			return err
		}
	})},
	{"all grants of a client have one holder", []string{"Lease/holder"}, by(func(b *broken) {
		holder := locker.NewHolder()
		b.acquire = func(ctx context.Context, key string, ttl time.Duration) (locker.Lease, error) {
			lease, err := b.inner.Acquire(ctx, key, ttl)
			lease.Holder = holder
			return lease, err
		}
		b.release = func(ctx context.Context, lease locker.Lease) error { return b.inner.Release(ctx, b.newest(lease.Key)) }
	})},
	{"holders are counted", []string{"Lease/credential"}, by(func(b *broken) {
		b.acquire = func(ctx context.Context, key string, ttl time.Duration) (locker.Lease, error) {
			lease, err := b.inner.Acquire(ctx, key, ttl)
			lease.Holder = "host.17.1"
			return lease, err
		}
	})},
	{"only the client that acquired a lease knows it", []string{"Lease/JSON", "Lease/outlives its client"}, by(func(b *broken) {
		mine := make(map[string]bool)
		b.acquire = func(ctx context.Context, key string, ttl time.Duration) (locker.Lease, error) {
			lease, err := b.inner.Acquire(ctx, key, ttl)
			mine[lease.Holder] = true
			return lease, err
		}
		b.fence = func(ctx context.Context, lease locker.Lease) (locker.Token, error) {
			if !mine[lease.Holder] {
				return 0, &locker.OpError{Op: "fence", Key: lease.Key, Err: locker.ErrNotHeld}
			}
			return b.inner.FenceToken(ctx, lease)
		}
	})},
	{"closing a client releases what it holds", []string{"Lease/outlives its client"}, by(func(b *broken) {
		var last locker.Lease
		b.acquire = func(ctx context.Context, key string, ttl time.Duration) (locker.Lease, error) {
			lease, err := b.inner.Acquire(ctx, key, ttl)
			last = lease
			b.onClose = func() { _ = b.inner.Release(context.WithoutCancel(ctx), last) }
			return lease, err
		}
	})},
}

// told returns an Acquire that says other things of the holder than it knows.
func told(b *broken, change func(*locker.Holding)) func(context.Context, string, time.Duration) (locker.Lease, error) {
	return func(ctx context.Context, key string, ttl time.Duration) (locker.Lease, error) {
		lease, err := b.inner.Acquire(ctx, key, ttl)
		if !isHeld(err) {
			return lease, err
		}
		h, inspectErr := b.inner.Inspect(ctx, key)
		if inspectErr != nil {
			return lease, err
		}
		change(&h)
		return lease, &locker.OpError{Op: "acquire", Key: key, Err: &locker.HeldError{Holding: h}}
	}
}

var releaseMutants = []mutant{
	{"a release is always well", []string{"Release/twice", "Release/expired", "Errors/kind"}, by(func(b *broken) {
		b.release = func(ctx context.Context, lease locker.Lease) error {
			if err := b.inner.Release(ctx, lease); !isNotHeld(err) {
				return err
			}
			return nil
		}
	})},
	{"ShedLock#2583: releases by the key alone", []string{"Release/successor", "Release/successor of the same client", "Release/never held"}, by(func(b *broken) {
		b.release = func(ctx context.Context, lease locker.Lease) error { return b.inner.Release(ctx, b.newest(lease.Key)) }
	})},
	{"etcd#22082: releases whatever the session holds on the key", []string{"Release/successor of the same client"}, by(func(b *broken) {
		mine := make(map[string]locker.Lease)
		b.acquire = func(ctx context.Context, key string, ttl time.Duration) (locker.Lease, error) {
			lease, err := b.inner.Acquire(ctx, key, ttl)
			mine[key] = lease
			return lease, err
		}
		b.release = func(ctx context.Context, lease locker.Lease) error { return b.inner.Release(ctx, mine[lease.Key]) }
	})},
	{"releases by the holder, whatever the key", []string{"Release/never held"}, by(func(b *broken) {
		b.release = func(ctx context.Context, lease locker.Lease) error {
			b.mu.Lock()
			for _, l := range b.leases {
				if l.Holder == lease.Holder {
					lease = l
				}
			}
			b.mu.Unlock()
			return b.inner.Release(ctx, lease)
		}
	})},
	{"redislock: compares holders by their beginning", []string{"Release/forged holder"}, by(func(b *broken) {
		b.release = func(ctx context.Context, lease locker.Lease) error {
			if real := b.newest(lease.Key); similar(real.Holder, lease.Holder) {
				lease = real
			}
			return b.inner.Release(ctx, lease)
		}
	})},
	{"does not compare tokens", []string{"Release/forged token"}, by(func(b *broken) {
		b.release = func(ctx context.Context, lease locker.Lease) error {
			if real := b.newest(lease.Key); real.Holder == lease.Holder {
				lease = real
			}
			return b.inner.Release(ctx, lease)
		}
	})},
	{"redsync#164: only the lock's reason can be told", []string{"Release/cancelled"}, by(func(b *broken) {
		b.release = func(ctx context.Context, lease locker.Lease) error {
			if ctx.Err() != nil {
				return &locker.OpError{Op: "release", Key: lease.Key, Err: locker.ErrUnavailable}
			}
			return b.inner.Release(ctx, lease)
		}
	})},
	{"never asks the backend", []string{"FenceToken/released", "FenceToken/expired"}, by(func(b *broken) {
		b.fence = func(_ context.Context, lease locker.Lease) (locker.Token, error) { return lease.Token, nil }
	})},
	{"reads the fence, which a Raise has lifted", []string{"Raise/standing grant"}, by(func(b *broken) {
		b.fence = func(ctx context.Context, lease locker.Lease) (locker.Token, error) {
			if _, err := b.inner.FenceToken(ctx, lease); err != nil {
				return 0, err
			}
			return b.inner.HighWater(ctx)
		}
	})},
	{"RFencedLock: asking again counts", []string{"FenceToken/current"}, by(func(b *broken) {
		asked := locker.Token(0)
		b.fence = func(ctx context.Context, lease locker.Lease) (locker.Token, error) {
			t, err := b.inner.FenceToken(ctx, lease)
			asked++
			return t + asked - 1, err
		}
	})},
	{"RFencedLock: a stale holder is given its successor's token", []string{"FenceToken/successor", "FenceToken/forged holder", "FenceToken/forged token"}, by(func(b *broken) {
		b.fence = func(ctx context.Context, lease locker.Lease) (locker.Token, error) {
			return b.inner.FenceToken(ctx, b.newest(lease.Key))
		}
	})},
	{"compares holders by their beginning", []string{"FenceToken/forged holder"}, by(func(b *broken) {
		b.fence = func(ctx context.Context, lease locker.Lease) (locker.Token, error) {
			if real := b.newest(lease.Key); similar(real.Holder, lease.Holder) {
				lease = real
			}
			return b.inner.FenceToken(ctx, lease)
		}
	})},
	{"asking for the token renews", []string{"FenceToken/no renewal"}, by(func(b *broken) {
		b.fence = func(ctx context.Context, lease locker.Lease) (locker.Token, error) {
			renewed, err := b.inner.Renew(ctx, lease, lease.TTL)
			if err != nil {
				return 0, err
			}
			return renewed.Token, nil
		}
	})},
	{"consul#1162: no answer is taken for the loss of the lock", []string{"FenceToken/cancelled"}, by(func(b *broken) {
		b.fence = func(ctx context.Context, lease locker.Lease) (locker.Token, error) {
			t, err := b.inner.FenceToken(ctx, lease)
			if err != nil {
				err = fmt.Errorf("%w: %w", locker.ErrNotHeld, err)
			}
			return t, err
		}
	})},
}

var keyMutants = []mutant{
	{"a key is a directory: what is below it is held with it", []string{"Keys/prefix"}, by(func(b *broken) {
		b.acquire = func(ctx context.Context, key string, ttl time.Duration) (locker.Lease, error) {
			for h := range b.inner.Holdings(ctx, "") {
				if strings.HasPrefix(key, h.Key+"/") {
					return locker.Lease{}, &locker.OpError{Op: "acquire", Key: key, Err: &locker.HeldError{Holding: h}}
				}
			}
			return b.inner.Acquire(ctx, key, ttl)
		}
	})},
	{"teleport#31279: slashes at the ends are dropped", []string{"Keys/slashes"}, renamed(func(key string) string {
		if trimmed := strings.Trim(key, "/"); trimmed != "" {
			return trimmed
		}
		return key
	})},
	{"slashes are made one", []string{"Keys/slashes"}, renamed(func(key string) string {
		for strings.Contains(key, "//") {
			key = strings.ReplaceAll(key, "//", "/")
		}
		return key
	})},
	{"rancher#1383: a key of slashes alone is refused", []string{"Keys/punctuation alone"}, renamed(func(key string) string {
		if strings.Trim(key, "/") == "" {
			return ""
		}
		return key
	})},
	{"a key is cleaned like a path", []string{"Keys/dots"}, renamed(func(key string) string {
		return strings.ReplaceAll(strings.TrimSuffix(key, "/."), "/./", "/")
	})},
	{"white space at the ends is dropped", []string{"Keys/spaces"}, renamed(func(key string) string {
		if trimmed := strings.TrimSpace(key); trimmed != "" {
			return trimmed
		}
		return key
	})},
	{"only the hash tag of a key counts", []string{"Keys/braces"}, renamed(func(key string) string {
		if _, rest, ok := strings.Cut(key, "{"); ok {
			if tag, _, ok := strings.Cut(rest, "}"); ok && tag != "" {
				return tag
			}
		}
		return key
	})},
	{"a key is unescaped like a URL", []string{"Keys/patterns"}, renamed(func(key string) string { return strings.ReplaceAll(key, "%2F", "/") })},
	{"a key is a file name where case does not count", []string{"Keys/letter case"}, renamed(strings.ToLower)},
	{"a key is a file name that is made composed", []string{"Keys/unicode forms"}, renamed(func(key string) string {
		return strings.ReplaceAll(key, "e\u0301", "\u00e9")
	})},
	{"ShedLock#145: a long name is cut", []string{"Keys/longest"}, renamed(func(key string) string { return key[:min(len(key), locker.MaxKeyLen-1)] })},
	{"a long name is refused", []string{"Keys/longest"}, renamed(func(key string) string {
		if len(key) > 255 {
			return ""
		}
		return key
	})},
	{"the empty key is the default lock", []string{"Keys/empty", "Waiter/invalid arguments"}, renamed(func(key string) string {
		if key == "" {
			return "default"
		}
		return key
	})},
	{"a key that is too long is cut", []string{"Keys/too long"}, renamed(func(key string) string { return strings.ToValidUTF8(key[:min(len(key), locker.MaxKeyLen)], "") })},
	{"a key ends at its NUL", []string{"Keys/NUL"}, renamed(func(key string) string { return strings.ReplaceAll(key, "\x00", "0") })},
	{"what is not UTF-8 is replaced", []string{"Keys/invalid UTF-8"}, renamed(func(key string) string { return strings.ToValidUTF8(key, "?") })},
}

// renamed makes a backend that takes one key for another.
func renamed(name func(key string) string) mutantBackend {
	return by(func(b *broken) { b.inner.name = name })
}
