package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/locker-go/locker"
)

// Options configure a Locker. The zero value, and nil, are good.
type Options struct {
	// Namespace separates the locks of one ensemble: all that a Locker stores is below
	// the node of this name. Letters, digits, and . _ - are allowed. Default "locker".
	Namespace string

	// Chroot is the path of the node below which the namespace is, such as /apps/a. It
	// is created where it is missing. Default: the root.
	Chroot string

	// KeepChroot makes a missing Chroot an error.
	KeepChroot bool

	// RequestTimeout bounds every request. It should be longer than the ensemble takes
	// to elect a leader. Default 5 s.
	RequestTimeout time.Duration

	// TickTime is what the servers have as tickTime, of which the driver is not told.
	// Default: 2 s, but at most half of the session's timeout, which is right unless the
	// servers were given a longer one, or a minSessionTimeout below two ticks.
	TickTime time.Duration

	// ACL is given to the nodes that a Locker creates, but to the parents of a Chroot.
	// Default: whoever reaches the ensemble may do everything.
	ACL []zk.ACL

	// OnEvent is told of tokens that are more than 10 s ahead of the clock, as they are
	// after the election of a leader.
	OnEvent func(locker.Event)
}

// Limits of the options.
const (
	defaultRequestTimeout = 5 * time.Second
	minRequestTimeout     = 10 * time.Millisecond
	maxRequestTimeout     = time.Minute

	defaultTick = 2 * time.Second // of ZooKeeper's own examples
	maxTick     = time.Minute
)

// Locker keeps locks in ZooKeeper. It implements [locker.Waiter] and [locker.Admin].
type Locker struct {
	dialer *Dialer
	owned  *client  // that Open made
	addrs  []string // that Open was given
	opts   Options
	names  names
	tasks  tasks
	known  known
	safety safety
	grants grants
	crowds crowds
	lines  lines
	sweeps sweeps
}

var (
	_ locker.Locker = (*Locker)(nil)
	_ locker.Waiter = (*Locker)(nil)
	_ locker.Admin  = (*Locker)(nil)
)

var errClosed = errors.New("the locker is closed")

// New returns a Locker on the session of the zk.Conn that makes its connections by the
// dialer. All that the Locker holds is bound to that session. Close the Locker before the
// zk.Conn.
func New(dialer *Dialer, opts *Options) (*Locker, error) {
	if dialer == nil {
		return nil, fmt.Errorf("%w: no Dialer", locker.ErrInvalid)
	}
	l := &Locker{dialer: dialer}
	if opts != nil {
		l.opts = *opts
	}
	if err := l.opts.check(); err != nil {
		return nil, err
	}
	l.names = names{strings.TrimSuffix(l.opts.Chroot, "/") + "/" + l.opts.Namespace}
	l.tasks.init()
	l.known.init()
	l.grants.init()
	l.sweeps.init()
	return l, nil
}

// check completes the options, or says what they may be.
func (o *Options) check() error {
	if o.Namespace == "" {
		o.Namespace = "locker"
	}
	if o.Chroot == "" {
		o.Chroot = "/"
	}
	if o.RequestTimeout == 0 {
		o.RequestTimeout = defaultRequestTimeout
	}
	if len(o.ACL) == 0 {
		o.ACL = zk.WorldACL(zk.PermAll)
	}
	var errs []error
	if o.RequestTimeout < minRequestTimeout || o.RequestTimeout > maxRequestTimeout {
		errs = append(errs, fmt.Errorf("%w: RequestTimeout is %s; it must be from %s to %s", locker.ErrInvalid, o.RequestTimeout, minRequestTimeout, maxRequestTimeout))
	}
	if o.TickTime < 0 || o.TickTime > maxTick {
		errs = append(errs, fmt.Errorf("%w: TickTime is %s; it must be from 0, for the default, to %s", locker.ErrInvalid, o.TickTime, maxTick))
	}
	errs = append(errs, checkChroot(o.Chroot), locker.ValidateNamespace(o.Namespace))
	if o.Namespace == "." || o.Namespace == ".." {
		errs = append(errs, fmt.Errorf("%w: the namespace %q is no name of a node", locker.ErrInvalid, o.Namespace))
	}
	return errors.Join(errs...)
}

// checkChroot takes paths of the characters that namespaces have, which are a part of
// those that ZooKeeper takes.
func checkChroot(path string) error {
	if path == "/" {
		return nil
	}
	for name := range strings.SplitSeq(strings.TrimPrefix(path, "/"), "/") {
		if path[0] != '/' || name == "" || name == "." || name == ".." || locker.ValidateNamespace(name) != nil {
			return fmt.Errorf("%w: the chroot %q must be of the form /name/name, of the characters A-Z a-z 0-9 . _ -", locker.ErrInvalid, path)
		}
	}
	return nil
}

// Close ends all waiting, and gives back what is held. It closes the session if Open made
// it. It takes at most a few times as long as a request, and leaves locks to the end of
// the session if the ensemble does not answer.
func (l *Locker) Close() error {
	if !l.tasks.endCalls() {
		return nil
	}
	ctx, cancel := context.WithTimeout(l.tasks.ending, l.opts.RequestTimeout)
	defer cancel()
	var err error
	if l.owned == nil {
		err = l.removeAll(ctx)
	}
	if l.dialer.current().conn != nil {
		l.sweepLeft(ctx)
	}
	if l.owned == nil {
		l.tasks.endGoroutines(ctx)
		return err
	}
	cancel() // all goes with the session
	l.tasks.endGoroutines(ctx)
	if err := l.owned.close(l.dialer, l.opts.RequestTimeout); err != nil {
		return l.fail(context.WithoutCancel(ctx), "close", "", err)
	}
	return nil
}

// fail returns err as the error of an operation: one that says nothing else is an
// ErrUnavailable.
func (l *Locker) fail(ctx context.Context, op, key string, err error) error {
	if !is(err, locker.ErrHeld, locker.ErrNotHeld, locker.ErrInvalid, locker.ErrUnavailable) {
		err = unavailable(ctx, err)
	}
	return &locker.OpError{Op: op, Backend: "zookeeper", Key: key, Err: err}
}

// remedies tell what to do about errors of the servers.
var remedies = []struct {
	err  error
	text string
}{
	{zk.ErrNoAuth, "the user may not do this: the nodes belong to another one, or to one with another password"},
	{zk.ErrAuthFailed, "the servers refuse the user or the password"},
	{zk.ErrInvalidACL, "the servers do not take the ACL: does the client have a user?"},
	{zk.ErrNoServer, "no server could be reached"},
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

// begin counts a call for a key, which ends with tasks.calls.Done, or says why it cannot
// be made.
func (l *Locker) begin(ctx context.Context, key string) error {
	if err := locker.ValidateKey(key); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if !l.tasks.begin() {
		return errClosed
	}
	return nil
}

// tick returns the tick of the servers that granted a session.
func (l *Locker) tick(s session) time.Duration {
	if l.opts.TickTime != 0 {
		return l.opts.TickTime
	}
	return min(defaultTick, s.timeout/2)
}
