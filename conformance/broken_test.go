package conformance_test

import (
	"context"
	"errors"
	"iter"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/locker-go/locker"
	"github.com/locker-go/locker/conformance"
	"github.com/locker-go/locker/memory"
)

// store is what the broken lockers of one backend share.
type store struct {
	memory   *memory.Store
	requests atomic.Int64

	mu       sync.Mutex
	leases   map[string]locker.Lease // the newest of each key, as it was granted or renewed
	issued   map[string]locker.Token // the tokens told instead of the real ones, by holder
	counters map[string]locker.Token // by key
	releases map[string]int          // by key
	queue    map[string][]*int       // who waits, by key
}

// broken is a client of a store. Each function that is set replaces the method of
// that name, and may call what it replaces: the method of inner.
type broken struct {
	*store
	inner *inner

	acquire   func(ctx context.Context, key string, ttl time.Duration) (locker.Lease, error)
	renew     func(ctx context.Context, lease locker.Lease, ttl time.Duration) (locker.Lease, error)
	release   func(ctx context.Context, lease locker.Lease) error
	fence     func(ctx context.Context, lease locker.Lease) (locker.Token, error)
	wait      func(ctx context.Context, key string, ttl time.Duration) (locker.Lease, error)
	inspect   func(ctx context.Context, key string) (locker.Holding, error)
	holdings  func(ctx context.Context, prefix string) iter.Seq2[locker.Holding, error]
	brk       func(ctx context.Context, h locker.Holding) error
	raise     func(ctx context.Context, key string, floor locker.Token) error
	highWater func(ctx context.Context) (locker.Token, error)
	onClose   func()
}

// brokenBackend returns a backend whose clients spoil has seen to.
func brokenBackend(spoil func(*broken)) conformance.Backend {
	s := &store{
		memory: new(memory.Store), leases: make(map[string]locker.Lease), issued: make(map[string]locker.Token),
		counters: make(map[string]locker.Token), releases: make(map[string]int), queue: make(map[string][]*int),
	}
	return conformance.Backend{
		TTL: 100 * time.Millisecond,
		Open: func(context.Context) (locker.Locker, error) {
			b := &broken{store: s, inner: &inner{Locker: memory.New(s.memory), store: s}}
			spoil(b)
			return b, nil
		},
		Faults: conformance.Faults{
			Requests: func(context.Context) (int64, error) { return s.requests.Load(), nil },
		},
	}
}

func (b *broken) Acquire(ctx context.Context, key string, ttl time.Duration) (locker.Lease, error) {
	if errors.Join(locker.ValidateKey(key), locker.ValidateTTL(ttl)) == nil {
		b.requests.Add(1)
	}
	if b.acquire != nil {
		return b.acquire(ctx, key, ttl)
	}
	return b.inner.Acquire(ctx, key, ttl)
}

func (b *broken) AcquireWait(ctx context.Context, key string, ttl time.Duration) (locker.Lease, error) {
	if b.wait != nil {
		return b.wait(ctx, key, ttl)
	}
	return b.poll(ctx, key, ttl)
}

// poll waits by asking again.
func (b *broken) poll(ctx context.Context, key string, ttl time.Duration) (locker.Lease, error) {
	return locker.Wait(ctx, nil, func(ctx context.Context) (locker.Lease, error) { return b.Acquire(ctx, key, ttl) })
}

func (b *broken) Renew(ctx context.Context, lease locker.Lease, ttl time.Duration) (locker.Lease, error) {
	if b.renew != nil {
		return b.renew(ctx, lease, ttl)
	}
	return b.inner.Renew(ctx, lease, ttl)
}

func (b *broken) Release(ctx context.Context, lease locker.Lease) error {
	if b.release != nil {
		return b.release(ctx, lease)
	}
	return b.inner.Release(ctx, lease)
}

func (b *broken) FenceToken(ctx context.Context, lease locker.Lease) (locker.Token, error) {
	if b.fence != nil {
		return b.fence(ctx, lease)
	}
	return b.inner.FenceToken(ctx, lease)
}

func (b *broken) Inspect(ctx context.Context, key string) (locker.Holding, error) {
	if b.inspect != nil {
		return b.inspect(ctx, key)
	}
	return b.inner.Inspect(ctx, key)
}

func (b *broken) Holdings(ctx context.Context, prefix string) iter.Seq2[locker.Holding, error] {
	if b.holdings != nil {
		return b.holdings(ctx, prefix)
	}
	return b.inner.Holdings(ctx, prefix)
}

func (b *broken) Break(ctx context.Context, h locker.Holding) error {
	if b.brk != nil {
		return b.brk(ctx, h)
	}
	return b.inner.Break(ctx, h)
}

func (b *broken) Raise(ctx context.Context, key string, floor locker.Token) error {
	if b.raise != nil {
		return b.raise(ctx, key, floor)
	}
	return b.inner.Raise(ctx, key, floor)
}

func (b *broken) HighWater(ctx context.Context) (locker.Token, error) {
	if b.highWater != nil {
		return b.highWater(ctx)
	}
	return b.inner.HighWater(ctx)
}

func (b *broken) Close() error {
	if b.onClose != nil {
		b.onClose()
	}
	return nil
}

// inner is a memory.Locker that keeps the books of its store, and can tell other
// tokens and take other keys than it has.
type inner struct {
	*memory.Locker
	store *store
	token func(real locker.Lease) locker.Token // told instead of the real one
	name  func(key string) string              // used instead of the real key
}

func (i *inner) key(key string) string {
	if i.name != nil {
		return i.name(key)
	}
	return key
}

// told returns a lease as its holder sees it.
func (i *inner) told(lease locker.Lease, key string) locker.Lease {
	lease.Key = key
	if t, ok := i.store.issued[lease.Holder]; ok {
		lease.Token = t
	}
	return lease
}

// real returns a lease as memory knows it.
func (i *inner) real(lease locker.Lease) locker.Lease {
	i.store.mu.Lock()
	defer i.store.mu.Unlock()
	if t, ok := i.store.issued[lease.Holder]; ok && t == lease.Token {
		lease.Token = i.store.leases[lease.Key].Token
	}
	lease.Key = i.key(lease.Key)
	return lease
}

func (i *inner) Acquire(ctx context.Context, key string, ttl time.Duration) (locker.Lease, error) {
	lease, err := i.Locker.Acquire(ctx, i.key(key), ttl)
	if err != nil {
		return lease, err
	}
	i.store.mu.Lock()
	defer i.store.mu.Unlock()
	i.store.leases[key] = lease
	if i.token != nil {
		i.store.issued[lease.Holder] = i.token(lease)
	}
	return i.told(lease, key), nil
}

func (i *inner) Renew(ctx context.Context, lease locker.Lease, ttl time.Duration) (locker.Lease, error) {
	renewed, err := i.Locker.Renew(ctx, i.real(lease), ttl)
	if err != nil {
		return lease, err
	}
	i.store.mu.Lock()
	defer i.store.mu.Unlock()
	i.store.leases[lease.Key] = renewed
	return i.told(renewed, lease.Key), nil
}

func (i *inner) Release(ctx context.Context, lease locker.Lease) error {
	err := i.Locker.Release(ctx, i.real(lease))
	if err == nil {
		i.store.mu.Lock()
		defer i.store.mu.Unlock()
		i.store.releases[lease.Key]++
	}
	return err
}

func (i *inner) FenceToken(ctx context.Context, lease locker.Lease) (locker.Token, error) {
	if _, err := i.Locker.FenceToken(ctx, i.real(lease)); err != nil {
		return 0, err
	}
	return lease.Token, nil
}

// newest returns the lease that was granted or renewed last on a key.
func (s *store) newest(key string) locker.Lease {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.leases[key]
}

// What follows keeps the mutants short.
func isNotHeld(err error) bool { return errors.Is(err, locker.ErrNotHeld) }
func isHeld(err error) bool    { return errors.Is(err, locker.ErrHeld) }

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

func similar(a, b string) bool { return strings.HasPrefix(a, b) || strings.HasPrefix(b, a) }
