package conformance

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/locker-go/locker"
)

// Env is what a case works with: clients of the store, and keys that nobody else
// uses. It is made by [Backend.Run].
type Env struct {
	backend Backend
	short   time.Duration // for leases that are to expire
	long    time.Duration // for leases that are not

	background sync.WaitGroup

	mu      sync.Mutex
	clients []locker.Locker
	grants  map[string]granted // by holder
	after   []func() error     // faults that have to end
}

// granted is what has to be known of a lease to judge its end, and to clean up.
type granted struct {
	client   locker.Locker
	lease    locker.Lease
	returned locker.Instant // when the call that granted or renewed it last had returned
}

func newEnv(b Backend) *Env {
	return &Env{backend: b, short: b.TTL, long: max(10*b.TTL, 30*time.Second), grants: make(map[string]granted)}
}

// open returns a new client.
func (e *Env) open(ctx context.Context) locker.Locker {
	l, err := e.backend.Open(ctx)
	if err != nil {
		fail("a client of the store", "Open: %s", show(err))
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.clients = append(e.clients, l)
	return l
}

// close closes a client now, if it can be closed.
func (e *Env) close(l locker.Locker) {
	e.forgetClient(l)
	if err := closeClient(l); err != nil {
		fail("no error", "Close: %s", show(err))
	}
}

func (e *Env) forgetClient(l locker.Locker) {
	e.mu.Lock()
	defer e.mu.Unlock() // also where clients cannot be compared
	e.clients = slices.DeleteFunc(e.clients, func(other locker.Locker) bool { return other == l })
}

func closeClient(l locker.Locker) error {
	if c, ok := l.(io.Closer); ok {
		return c.Close()
	}
	return nil
}

// key returns a new key. None has a colon, since those that begin with a name and a
// colon are refused by Redis without a namespace.
func (e *Env) key() string { return "conformance/" + rand.Text() }

// atEnd has fn called at the end of the case, however it ends.
func (e *Env) atEnd(fn func() error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.after = append(e.after, fn)
}

// end ends the faults of a case, waits for what it left in the background, which its
// ended context stops, gives back what it left held, and closes its clients.
func (e *Env) end(ctx context.Context) error {
	var errs []error
	for _, fn := range e.after {
		errs = append(errs, fn())
	}
	e.background.Wait()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, g := range e.grants {
		// An error says that the case ended the lease, or that its TTL will.
		_ = catch(func() { _ = g.client.Release(ctx, g.lease) })
	}
	for _, l := range e.clients {
		err := catch(func() { errs = append(errs, closeClient(l)) })
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func (e *Env) remember(l locker.Locker, lease locker.Lease) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.grants[lease.Holder] = granted{l, lease, locker.Now()}
}

func (e *Env) forget(lease locker.Lease) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.grants, lease.Holder)
}

// overdue returns for how long the backend should have let go of a lease: negative
// while it may still keep it. The backend counts from a moment before the grant
// returned; its unit may be a millisecond, and its clock may be 1 % slow.
func (e *Env) overdue(lease locker.Lease) time.Duration {
	e.mu.Lock()
	defer e.mu.Unlock()
	g := e.grants[lease.Holder]
	return g.returned.Elapsed() - g.lease.TTL - g.lease.TTL/100 - 2*time.Millisecond - e.backend.Grace
}

// each runs fn n times at once. If one of them fails, the context of the others ends,
// and so does the case, with the first failure.
func (e *Env) each(ctx context.Context, n int, fn func(ctx context.Context, i int)) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	failures := make(chan error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			if err := catch(func() { fn(ctx, i) }); err != nil {
				failures <- err
				cancel()
			}
		})
	}
	wg.Wait()
	select {
	case err := <-failures:
		panic(stop{err})
	default:
	}
}

// pause sleeps, or ends the case if its time ran out.
func pause(ctx context.Context, d time.Duration, waitingFor string) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		fail(waitingFor, "nothing until the time of the case ran out: %s", show(context.Cause(ctx)))
	}
}
