package etcd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/locker-go/locker"
)

// Options configure a Locker. The zero value, and nil, are good.
type Options struct {
	// Namespace separates the locks of one cluster: all that a Locker stores has
	// names that begin with namespace/. Letters, digits, and . _ - are allowed.
	// Default "locker".
	Namespace string

	// RequestTimeout bounds every request, whatever timeouts the client has. It
	// should be longer than the cluster takes to elect a leader. Default 3 s.
	RequestTimeout time.Duration

	// OnEvent is told of tokens that are more than 10 s ahead of the clock.
	OnEvent func(locker.Event)
}

// Limits of the options.
const (
	defaultRequestTimeout = 3 * time.Second
	minRequestTimeout     = 10 * time.Millisecond
	maxRequestTimeout     = time.Minute
)

// Locker keeps locks in etcd. It implements [locker.Waiter] and [locker.Admin].
type Locker struct {
	client *clientv3.Client
	owned  bool // opened by Open: Close closes it
	opts   Options
	names  names
	leases *leases
	known  known
	losses losses
}

var (
	_ locker.Locker = (*Locker)(nil)
	_ locker.Waiter = (*Locker)(nil)
	_ locker.Admin  = (*Locker)(nil)
)

// New returns a Locker on a client. Close the Locker before the client.
func New(client *clientv3.Client, opts *Options) (*Locker, error) {
	l := &Locker{client: client}
	if opts != nil {
		l.opts = *opts
	}
	if err := l.opts.check(); err != nil {
		return nil, err
	}
	l.names = names{l.opts.Namespace + "/"}
	l.leases = newLeases(client, l.opts.RequestTimeout)
	return l, nil
}

// check completes the options, or says what they may be.
func (o *Options) check() error {
	if o.Namespace == "" {
		o.Namespace = "locker"
	}
	if o.RequestTimeout == 0 {
		o.RequestTimeout = defaultRequestTimeout
	}
	if o.RequestTimeout < minRequestTimeout || o.RequestTimeout > maxRequestTimeout {
		return fmt.Errorf("%w: RequestTimeout is %s; it must be from %s to %s", locker.ErrInvalid, o.RequestTimeout, minRequestTimeout, maxRequestTimeout)
	}
	return locker.ValidateNamespace(o.Namespace)
}

// Close revokes the leases that have no lock, and closes the client if Open made it.
// Locks that are held stay until they expire. End the contexts of AcquireWait before:
// once the client is closed a wait fails, and its place stays until its TTL is over.
func (l *Locker) Close() error {
	l.leases.close(l.client.Ctx())
	if l.owned {
		return l.client.Close()
	}
	return nil
}

// fail returns err as the error of an operation: one that says nothing else is an
// ErrUnavailable.
func (l *Locker) fail(ctx context.Context, op, key string, err error) error {
	known := false
	for _, kind := range []error{locker.ErrHeld, locker.ErrNotHeld, locker.ErrInvalid, locker.ErrUnavailable} {
		known = known || errors.Is(err, kind)
	}
	if !known {
		err = unavailable(ctx, err)
	}
	return &locker.OpError{Op: op, Backend: "etcd", Key: key, Err: err}
}

// remedies tell what to do about errors of the server.
var remedies = []struct {
	err  error
	text string
}{
	{rpctypes.ErrPermissionDenied, "the user may not do this: it needs to read and write the namespace's prefix"},
	{rpctypes.ErrUserEmpty, "the cluster wants a user and a password"},
	{rpctypes.ErrAuthFailed, "the user name or the password is wrong"},
	{rpctypes.ErrNoSpace, "the database is full: compact and defragment it, then disarm the alarm"},
	{rpctypes.ErrNoLeader, "the cluster has no leader: too few of its members are up"},
}

// unavailable wraps what a request failed with. The context's error is beneath it if
// the context is what ended it.
func unavailable(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		reason := locker.Ended(ctx)
		if errors.Is(reason, err) {
			return fmt.Errorf("%w: %w", locker.ErrUnavailable, reason)
		}
		return fmt.Errorf("%w: %w: %w", locker.ErrUnavailable, reason, err)
	}
	for _, r := range remedies {
		if errors.Is(err, r.err) {
			return fmt.Errorf("%w: %s: %w", locker.ErrUnavailable, r.text, err)
		}
	}
	return fmt.Errorf("%w: %w", locker.ErrUnavailable, err)
}

// check says why a call for a key cannot be made.
func check(ctx context.Context, key string) error {
	if err := locker.ValidateKey(key); err != nil {
		return err
	}
	return ctx.Err()
}

// errLimit is why a request was ended that took too long.
var errLimit = errors.New("the limit of a request")

// bounded makes a request, which ends at the limit or with ctx. The server is not told
// of the limit, as it is of a deadline: that would cost both more than this does.
func bounded[T any](ctx context.Context, limit time.Duration, request func(context.Context) (T, error)) (T, error) {
	limited, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	timer := time.AfterFunc(limit, func() { cancel(errLimit) })
	defer timer.Stop()
	v, err := request(limited)
	if status.Code(err) == codes.DeadlineExceeded {
		<-limited.Done() // the driver, or the server, was a moment faster
	}
	if err != nil && context.Cause(limited) == errLimit {
		return v, fmt.Errorf("no answer within %s: %w", limit, context.DeadlineExceeded)
	}
	return v, clientv3.ContextError(ctx, err)
}

// commit makes one transaction. The driver sends it once.
func (l *Locker) commit(ctx context.Context, conditions []clientv3.Cmp, then, otherwise []clientv3.Op) (*clientv3.TxnResponse, error) {
	return bounded(ctx, l.opts.RequestTimeout, func(ctx context.Context) (*clientv3.TxnResponse, error) {
		return l.client.Txn(ctx).If(conditions...).Then(then...).Else(otherwise...).Commit()
	})
}

// read makes one transaction that only reads, at one moment, what a majority has
// confirmed. It makes it again once if a member or a connection failed under it.
func (l *Locker) read(ctx context.Context, ops ...clientv3.Op) (*clientv3.TxnResponse, error) {
	return bounded(ctx, l.opts.RequestTimeout, func(ctx context.Context) (*clientv3.TxnResponse, error) {
		resp, err := l.client.Txn(ctx).Then(ops...).Commit()
		if err != nil && ctx.Err() == nil {
			resp, err = l.client.Txn(ctx).Then(ops...).Commit()
		}
		return resp, err
	})
}

// newest stands for the revision that the cluster has come to, whichever that is.
const newest = 0

// readSince makes one transaction that only reads, at one moment, in revision rev or a
// later one. A member that has come so far answers by itself, without the majority.
func (l *Locker) readSince(ctx context.Context, rev int64, ops ...clientv3.Op) (*clientv3.TxnResponse, error) {
	if rev == newest {
		return l.read(ctx, ops...)
	}
	local := slices.Clone(ops)
	for i := range local {
		clientv3.WithSerializable()(&local[i])
	}
	resp, err := bounded(ctx, l.opts.RequestTimeout, func(ctx context.Context) (*clientv3.TxnResponse, error) {
		return l.client.Txn(ctx).Then(local...).Commit()
	})
	if err != nil || resp.Header.Revision < rev {
		return l.read(ctx, ops...)
	}
	return resp, nil
}

// first returns the first that operation i of a transaction read, or nil.
func first(resp *clientv3.TxnResponse, i int) *mvccpb.KeyValue {
	if kvs := resp.Responses[i].GetResponseRange().GetKvs(); len(kvs) > 0 {
		return kvs[0]
	}
	return nil
}

// FenceToken takes one request, which writes nothing.
func (l *Locker) FenceToken(ctx context.Context, lease locker.Lease) (locker.Token, error) {
	if err := check(ctx, lease.Key); err != nil {
		return 0, l.fail(ctx, "fence", lease.Key, err)
	}
	e, ok := l.names.entryOf(lease)
	if !ok {
		return 0, l.fail(ctx, "fence", lease.Key, locker.ErrNotHeld)
	}
	resp, err := l.read(ctx, clientv3.OpGet(e.name))
	if err == nil && !e.is(first(resp, 0)) {
		err = locker.ErrNotHeld
	}
	if err != nil {
		return 0, l.fail(ctx, "fence", lease.Key, err)
	}
	return lease.Token, nil
}

// Release takes one consensus write.
func (l *Locker) Release(ctx context.Context, lease locker.Lease) error {
	if err := check(ctx, lease.Key); err != nil {
		return l.fail(ctx, "release", lease.Key, err)
	}
	e, ok := l.names.entryOf(lease)
	if !ok {
		return l.fail(ctx, "release", lease.Key, locker.ErrNotHeld)
	}
	mine, own := l.leases.drop(e.grant())
	removed, err := l.remove(ctx, e)
	if err != nil {
		if l.finish(ctx, e, mine, own) != nil {
			return l.fail(ctx, "release", lease.Key, err)
		}
		// That it had been over before, in that very moment, is all that cannot be told.
		if lease.Remaining() > 0 {
			return nil
		}
	}
	if removed == nil {
		return l.fail(ctx, "release", lease.Key, locker.ErrNotHeld)
	}
	// If another process put the key under a lease of its own, it revokes this one.
	if own && clientv3.LeaseID(removed.Lease) == mine.id {
		l.leases.put(mine)
	}
	return nil
}

// finish makes sure that a grant is over whose removal has an unknown outcome: by
// removing it again, and by ending its lease if it was put under one of this process.
func (l *Locker) finish(ctx context.Context, e entry, mine pooled, own bool) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), l.opts.RequestTimeout)
	defer cancel()
	if _, err := l.remove(ctx, e); err != nil || !own {
		return err
	}
	return l.leases.revoke(ctx, mine.id)
}

// remove deletes the entry of a grant, and returns what it deleted, or nil.
func (l *Locker) remove(ctx context.Context, e entry) (*mvccpb.KeyValue, error) {
	resp, err := l.commit(ctx, e.stands(), []clientv3.Op{clientv3.OpDelete(e.name, clientv3.WithPrevKV())}, nil)
	if err != nil || !resp.Succeeded {
		return nil, err
	}
	kvs := resp.Responses[0].GetResponseDeleteRange().GetPrevKvs()
	if len(kvs) == 0 {
		return nil, errors.New("the server did not say what it deleted")
	}
	return kvs[0], nil
}
