package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/go-zookeeper/zk"
)

var (
	// errSessionLost says that the session is another one than it was before.
	errSessionLost = errors.New("the session expired")

	// errNotSent says that a request was not sent.
	errNotSent = errors.New("the connection is lost")
)

// bounded does something that ends with its context: with ctx, or at the limit of a
// request.
func bounded[T any](ctx context.Context, l *Locker, do func(context.Context) (T, error)) (T, error) {
	limit := l.opts.RequestTimeout
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	v, err := do(limited)
	if err != nil && limited.Err() != nil && ctx.Err() == nil && errors.Is(err, limited.Err()) {
		err = fmt.Errorf("no answer within %s", limit)
		if failure := l.dialer.lastFailure(); failure != nil {
			err = fmt.Errorf("%w; the last attempt to connect failed: %w", err, failure)
		}
	}
	return v, err
}

// query makes a request that changes nothing, within the limit. It makes it again once if
// the connection is lost meanwhile.
func (l *Locker) query(ctx context.Context, r request) (*call, session, error) {
	var s session
	c, err := bounded(ctx, l, func(ctx context.Context) (c *call, err error) {
		for range 2 {
			if s, err = l.dialer.await(ctx); err != nil {
				return nil, err
			}
			var calls []*call
			if calls, err = s.conn.send(ctx, r); err == nil {
				c, err = calls[0], calls[0].wait(ctx)
			}
			if !is(err, errCut, errNotSent) {
				break
			}
		}
		return c, err
	})
	return c, s, err
}

// children reads the names of a node's children.
func (l *Locker) children(ctx context.Context, path string) ([]string, error) {
	c, _, err := l.query(ctx, listing(path))
	if err != nil {
		return nil, err
	}
	names := c.answer.texts()
	return names, c.answer.err
}

// listed returns the names of a listing that was asked for.
func (l *Locker) listed(ctx context.Context, c *call) ([]string, error) {
	return bounded(ctx, l, func(ctx context.Context) ([]string, error) {
		if err := c.wait(ctx); err != nil {
			return nil, err
		}
		return c.answer.texts(), c.answer.err
	})
}

// node is a node as it was read.
type node struct {
	data    []byte
	stat    stat
	conn    *conn           // that it was read on
	changed <-chan struct{} // closed when it changes, or the connection ends; nil if it is not watched
}

// read reads a node, and watches it if it is there.
func (l *Locker) read(ctx context.Context, path string, watch bool) (node, error) {
	c, s, err := l.query(ctx, reading(path, watch))
	if err != nil {
		return node{}, err
	}
	n := node{data: c.answer.data(), stat: c.answer.stat(), conn: s.conn, changed: c.fired}
	return n, c.answer.err
}

// watch returns what is closed when a node changes, or the connection ends; at once if it
// is not there. However many watch the same node, the server is asked once.
func (l *Locker) watch(ctx context.Context, path string) (<-chan struct{}, error) {
	if c := l.dialer.current().conn; c != nil {
		if fired, ok := c.watched(path); ok {
			return fired, nil
		}
	}
	n, err := l.read(ctx, path, true)
	if errors.Is(err, zk.ErrNoNode) {
		gone := make(chan struct{})
		close(gone)
		return gone, nil
	}
	return n.changed, err
}

// sync has what is read afterwards include all that was confirmed before.
func (l *Locker) sync(ctx context.Context) error {
	_, _, err := l.query(ctx, request{kind: opSync, body: appendText(nil, l.names.root)})
	return err
}

// change is a request that changes something: a majority of the servers confirms it,
// also if it is refused.
type change struct {
	kind    int32
	session session
	asked   moment
	touched moment // as far as the leader knows when it confirms the change
	call    *call
}

// send sends a change, and requests that the server is to answer after it. It waits until
// there is a connection.
func (l *Locker) send(ctx context.Context, r request, next ...request) (*change, []*call, error) {
	s, err := l.dialer.await(ctx)
	if err != nil {
		return nil, nil, err
	}
	at := now()
	c := &change{kind: r.kind, session: s, asked: at, touched: l.dialer.touched(at, l.tick(s))}
	calls, err := s.conn.send(ctx, append([]request{r}, next...)...)
	if err != nil {
		return nil, nil, err
	}
	c.call = calls[0]
	return c, calls[1:], nil
}

// result waits for what became of a change, and returns that with its zxid. Only a
// *refusal says that nothing was changed.
func (l *Locker) result(ctx context.Context, c *change) ([]result, int64, error) {
	if err := c.call.wait(ctx); err != nil && !decided(err) {
		return nil, 0, err
	}
	r := &refusal{op: -1, err: c.call.err}
	var results []result
	if r.err == nil {
		results = c.call.answer.results(c.kind)
	}
	for i := range results {
		if results[i].err != nil && r.err == nil {
			r.op, r.err = i, results[i].err // others follow, which say that it was for the first
		}
	}
	if r.err == nil || confirmed(r.err) {
		l.safety.note(c.session.id, c.touched)
	}
	if r.err != nil {
		return nil, 0, r
	}
	return results, c.call.zxid, c.call.answer.err
}

// make makes a change within the limit.
func (l *Locker) make(ctx context.Context, r request) error {
	_, err := bounded(ctx, l, func(ctx context.Context) ([]result, error) {
		c, _, err := l.send(ctx, r)
		if err != nil {
			return nil, err
		}
		results, _, err := l.result(ctx, c)
		return results, err
	})
	return err
}

// refusal says that the servers refused a change, and because of which operation.
type refusal struct {
	op  int // -1 if it was not because of one
	err error
}

func (r *refusal) Error() string { return r.err.Error() }

func (r *refusal) Unwrap() error { return r.err }

// refused says whether a change of several operations was refused because of that error
// of that one.
func refused(err error, op int, want error) bool {
	r, ok := errors.AsType[*refusal](err)
	return ok && r.op == op && errors.Is(r.err, want)
}

// confirmed says whether a change was refused by the leader, as its followers know: of
// other things, such as permissions, they may judge themselves.
func confirmed(err error) bool {
	return is(err, zk.ErrNoNode, zk.ErrNodeExists, zk.ErrBadVersion, zk.ErrNotEmpty)
}

// decided says whether an error is an answer of the servers.
func decided(err error) bool {
	return err != nil && !is(err, errCut, errNotSent, context.Canceled, context.DeadlineExceeded)
}

func is(err error, any ...error) bool {
	return slices.ContainsFunc(any, func(one error) bool { return errors.Is(err, one) })
}
