package conformance_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/locker-go/locker"
	"github.com/locker-go/locker/conformance"
	"github.com/locker-go/locker/memory"
)

// flaws are what can be wrong with a remote.
type flaws struct {
	ownRival      bool // a lost reply makes an acquire its own rival
	notIdempotent bool // a renewal or release that is sent again finds nothing
	noUndo        bool // what became of a request is not cleared up
	noLateCheck   bool // a lease that is over before its reply came is returned
	countsLate    bool // the deadline counts from the reply
	lostWhenCut   bool // no answer is taken for the loss of the lock
	hasty         bool // a waiter gives up at the first outage
	counter       bool // tokens are counted by the server, which forgets them when it restarts
	takesAgain    bool // Renew takes a lost lock again
}

// network stands between remotes and their server, which is a memory.Store.
type network struct {
	requests atomic.Int64

	mu    sync.Mutex
	cut   bool
	lose  bool
	delay time.Duration
	store *memory.Store
	count locker.Token
}

func (n *network) set(change func()) func() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	change()
	return func() error {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.cut, n.delay = false, 0
		return nil
	}
}

func (n *network) restart(wipe bool) error {
	time.Sleep(time.Millisecond)
	n.set(func() {
		n.count = 0
		if wipe {
			n.store = new(memory.Store)
		}
	})
	return nil
}

var errNetwork = errors.New("connection reset")

// remote is a locker on a network, as it should be but for its flaws.
type remote struct {
	locker.Admin
	net      *network
	flaws    flaws
	inFlight sync.WaitGroup
}

func remoteBackend(f flaws) mutantBackend {
	return func() conformance.Backend {
		n := &network{store: new(memory.Store)}
		return conformance.Backend{
			TTL: 100 * time.Millisecond,
			Open: func(context.Context) (locker.Locker, error) {
				return &remote{Admin: memory.New(n.store), net: n, flaws: f}, nil
			},
			Faults: conformance.Faults{
				Cut: func(context.Context) (func() error, error) { return n.set(func() { n.cut = true }), nil },
				Delay: func(_ context.Context, d time.Duration) (func() error, error) {
					return n.set(func() { n.delay = d }), nil
				},
				LoseReply: func(context.Context) error { n.set(func() { n.lose = true }); return nil },
				Restart:   func(context.Context) error { return n.restart(false) },
				Wipe:      func(context.Context) error { return n.restart(true) },
				Requests:  func(context.Context) (int64, error) { return n.requests.Load(), nil },
			},
		}
	}
}

// send calls request on the server, and returns an error if no reply came: then the
// request may have arrived, or may arrive later.
func (r *remote) send(ctx context.Context, request func(*memory.Locker)) error {
	n := r.net
	n.mu.Lock()
	cut, lose, delay, server := n.cut, n.lose, n.delay, memory.New(n.store)
	n.lose = false
	n.mu.Unlock()
	n.requests.Add(1)
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("%w: %w", locker.ErrUnavailable, ctx.Err())
	case cut:
		return fmt.Errorf("%w: %w", locker.ErrUnavailable, errNetwork)
	}
	reply := make(chan struct{})
	r.inFlight.Go(func() {
		time.Sleep(delay)
		request(server)
		time.Sleep(delay)
		close(reply)
	})
	select {
	case <-reply:
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", locker.ErrUnavailable, ctx.Err())
	}
	if lose {
		return fmt.Errorf("%w: %w", locker.ErrUnavailable, errNetwork)
	}
	return nil
}

func (r *remote) Close() error {
	r.inFlight.Wait()
	return nil
}

func failed(op, key string, err error) error {
	if _, ok := errors.AsType[*locker.OpError](err); ok || err == nil {
		return err
	}
	return &locker.OpError{Op: op, Key: key, Err: err}
}

// attempt is an acquire that can be undone, also before it arrives.
type attempt struct {
	mu    sync.Mutex
	dead  bool
	lease locker.Lease
	err   error
}

func (r *remote) Acquire(ctx context.Context, key string, ttl time.Duration) (locker.Lease, error) {
	if err := errors.Join(locker.ValidateKey(key), locker.ValidateTTL(ttl)); err != nil {
		return locker.Lease{}, failed("acquire", key, err)
	}
	var a attempt
	asked := locker.Now()
	err := r.send(ctx, func(server *memory.Locker) {
		a.mu.Lock()
		defer a.mu.Unlock()
		if !a.dead {
			a.lease, a.err = server.Acquire(context.WithoutCancel(ctx), key, ttl)
		}
	})
	if r.flaws.ownRival && errors.Is(err, errNetwork) {
		return memory.New(r.net.store).Acquire(ctx, key, ttl)
	}
	if r.flaws.countsLate {
		asked = locker.Now()
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if err == nil && a.err == nil {
		lease := a.lease.Granted(asked, ttl, ttl)
		if r.flaws.counter {
			r.net.count++
			lease.Token = r.net.count
		}
		if lease.Remaining() > 0 || r.flaws.noLateCheck {
			return lease, nil
		}
		err = fmt.Errorf("%w: too slow", locker.ErrUnavailable)
	}
	if err == nil {
		return locker.Lease{}, failed("acquire", key, a.err)
	}
	if !r.flaws.noUndo {
		a.dead = true
		if a.lease.Token != 0 {
			err = errors.Join(err, ignoreNotHeld(memory.New(r.net.store).Release(context.WithoutCancel(ctx), a.lease)))
		}
	}
	return locker.Lease{}, failed("acquire", key, err)
}

func ignoreNotHeld(err error) error {
	if isNotHeld(err) {
		return nil
	}
	return err
}

func (r *remote) AcquireWait(ctx context.Context, key string, ttl time.Duration) (locker.Lease, error) {
	if !r.flaws.hasty {
		return locker.Wait(ctx, nil, func(ctx context.Context) (locker.Lease, error) { return r.Acquire(ctx, key, ttl) })
	}
	for {
		lease, err := r.Acquire(ctx, key, ttl)
		if !isHeld(err) {
			return lease, err
		}
		sleep(ctx, 50*time.Millisecond)
	}
}

// twice sends a request again if its reply was lost.
func (r *remote) twice(ctx context.Context, request func(*memory.Locker) error) error {
	var answer error
	send := func() error {
		var mu sync.Mutex
		var got error
		err := r.send(ctx, func(server *memory.Locker) {
			mu.Lock()
			defer mu.Unlock()
			got = request(server)
		})
		if err == nil {
			mu.Lock()
			defer mu.Unlock()
			answer = got
		}
		return err
	}
	err := send()
	if errors.Is(err, errNetwork) {
		if r.flaws.notIdempotent {
			return locker.ErrNotHeld
		}
		err = send()
	}
	if err != nil && r.flaws.lostWhenCut {
		return locker.ErrNotHeld
	}
	if err != nil {
		return err
	}
	return answer
}

func (r *remote) Renew(ctx context.Context, lease locker.Lease, ttl time.Duration) (locker.Lease, error) {
	if err := errors.Join(locker.ValidateKey(lease.Key), locker.ValidateTTL(ttl)); err != nil {
		return lease, failed("renew", lease.Key, err)
	}
	asked := locker.Now()
	err := r.twice(ctx, func(server *memory.Locker) error {
		_, err := server.Renew(context.WithoutCancel(ctx), lease, ttl)
		return err
	})
	if r.flaws.takesAgain && isNotHeld(err) {
		return r.Acquire(ctx, lease.Key, ttl)
	}
	if err != nil {
		return lease, failed("renew", lease.Key, err)
	}
	return lease.Granted(asked, ttl, ttl), nil
}

// Release remembers, as the server of a release with an id would, that it was done.
func (r *remote) Release(ctx context.Context, lease locker.Lease) error {
	if err := locker.ValidateKey(lease.Key); err != nil {
		return failed("release", lease.Key, err)
	}
	var done atomic.Bool
	return failed("release", lease.Key, r.twice(ctx, func(server *memory.Locker) error {
		if done.Load() {
			return nil
		}
		err := server.Release(context.WithoutCancel(ctx), lease)
		done.Store(err == nil)
		return err
	}))
}

func (r *remote) FenceToken(ctx context.Context, lease locker.Lease) (locker.Token, error) {
	if err := locker.ValidateKey(lease.Key); err != nil {
		return 0, failed("fence", lease.Key, err)
	}
	err := r.twice(ctx, func(server *memory.Locker) error {
		_, err := server.FenceToken(context.WithoutCancel(ctx), lease)
		return err
	})
	if err != nil {
		return 0, failed("fence", lease.Key, err)
	}
	return lease.Token, nil
}

var remoteMutants = []mutant{
	{"rueidis#925: finds its own key, and takes it for another's", []string{"Acquire/lost reply"}, remoteBackend(flaws{ownRival: true})},
	{"jepsen etcd: an acquire that timed out completes later", []string{"Acquire/lost reply", "Acquire/cancelled during a delay"}, remoteBackend(flaws{noUndo: true})},
	{"dynamolock#280: the reply is lost, the next compare fails", []string{"Renew/lost reply", "Release/lost reply"}, remoteBackend(flaws{notIdempotent: true})},
	{"node-redlock#296: returns a lock whose validity is negative", []string{"Acquire/slower than its TTL"}, remoteBackend(flaws{noLateCheck: true})},
	{"counts the TTL from the reply", []string{"Acquire/slow reply"}, remoteBackend(flaws{countsLate: true})},
	{"consul#1162: no answer is taken for the loss of the lock", []string{"Faults/cut"}, remoteBackend(flaws{lostWhenCut: true})},
	{"a restart of the server fails all who wait", []string{"Waiter/outage"}, remoteBackend(flaws{hasty: true})},
	{"the server counts, and forgets", []string{"Tokens/restart", "Tokens/wipe"}, remoteBackend(flaws{counter: true})},
	{"redsync (SetNXOnExtend): takes a lost lock again", []string{"Renew/wiped"}, remoteBackend(flaws{takesAgain: true})},
}
