package redlock

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/locker-go/locker"
	"github.com/locker-go/locker/internal/redisnode"
)

// node is what the protocol asks of one server: a [redisnode.Node].
type node interface {
	Look(ctx context.Context, namespace string) (redisnode.Identity, error)
	Mark(ctx context.Context, namespace, membership string, looked redisnode.Identity, first time.Time) (redisnode.Identity, error)
	Vote(ctx context.Context, g redisnode.Grant, ttl time.Duration, m redisnode.Marker) (redisnode.Answer, error)
	Undo(ctx context.Context, g redisnode.Grant) error
	Renew(ctx context.Context, g redisnode.Grant, ttl time.Duration) (redisnode.Answer, error)
	Fill(ctx context.Context, g redisnode.Grant, free redisnode.Answer, until time.Time) (bool, error)
	Drop(ctx context.Context, g redisnode.Grant, tell bool) (released bool, listeners int, err error)
	Holds(ctx context.Context, g redisnode.Grant) (bool, error)
	Inspect(ctx context.Context, k redisnode.Keys) (locker.Holding, bool, error)
	Break(ctx context.Context, k redisnode.Keys, seen locker.Holding) (bool, error)
	Raise(ctx context.Context, k redisnode.Keys, floor locker.Token) (redisnode.Answer, error)
}

var _ node = (*redisnode.Node)(nil)

// member is one of the nodes that vote. It knows which process of the server it
// deals with, and since when that remembers its grants.
type member struct {
	node
	group   *group
	addr    string
	client  *redis.Client
	wakes   *redisnode.Wakes
	failing atomic.Bool // its last request got no answer

	mu        sync.Mutex
	run       string // id of the process that the last connection leads to
	known     *known // nil if the process has not been asked what it is
	inquiries map[*inquiry]struct{}
}

// inquiry is a question to a member what it is. The answer is about a process that may
// be no more; connections that were made meanwhile tell.
type inquiry struct {
	run   string // of the process that they lead to
	mixed bool   // to several
}

// known is what a member is known to be.
type known struct {
	run    string
	marker redisnode.Marker
	waits  bool // it does not vote yet
}

// group is what the members have in common.
type group struct {
	namespace  string
	membership string // their names and the longest TTL
	maxTTL     time.Duration
	members    []*member
	report     func(locker.Event)
}

// errRestarted says that a connection leads to another process than the one that
// was asked what it remembers. Nothing was sent over it. It wraps nothing: the client
// would return what it wraps.
var errRestarted = errors.New("the server was started again")

// errStranger says that an answer may have come from another process than was asked.
var errStranger = errors.New("the server was started again meanwhile")

// connected is told of each new connection before it is used. A connection ends with
// the process that it leads to, so that a process to which one was made after another one
// had answered, or had been connected to, is the later one.
func (m *member) connected(run string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.run = run
	for q := range m.inquiries {
		q.mixed = q.mixed || q.run != "" && q.run != run
		q.run = run
	}
	if m.known != nil && m.known.run != run {
		m.known = nil
		return errRestarted
	}
	return nil
}

// maxTries bounds the requests for one vote, each of which but the last finds that
// the server was started again, or wiped.
const maxTries = 4

// vote asks the member to vote for a grant. An [unasked] error says that it did not, and
// will not.
func (m *member) vote(ctx context.Context, g redisnode.Grant, ttl time.Duration) (redisnode.Answer, error) {
	for range maxTries {
		k, err := m.identify(ctx)
		if errors.Is(err, errRestarted) {
			continue
		}
		if err != nil {
			return redisnode.Answer{}, &unasked{err}
		}
		a, err := m.node.Vote(ctx, g, ttl, k.marker)
		switch {
		case errors.Is(err, errRestarted):
		case err != nil:
			return a, err
		case a.Status == redisnode.Unmarked:
			m.forget(k)
		case a.Status == redisnode.Quarantined:
			return a, &unasked{m.quarantined(k.marker, a.Time)}
		case !m.settle(k):
			// It came from a process of which it is not known what it remembers.
			return a, fmt.Errorf("%w: %w", locker.ErrUnavailable, errStranger)
		default:
			return a, nil
		}
	}
	return redisnode.Answer{}, &unasked{fmt.Errorf("%w: it is wiped or started again all the time", locker.ErrUnavailable)}
}

// identify returns what the member is, which it asks for once for each process.
func (m *member) identify(ctx context.Context) (*known, error) {
	m.mu.Lock()
	k := m.known
	m.mu.Unlock()
	if k != nil {
		return k, nil
	}
	q := m.inquire()
	defer m.forgetInquiry(q)
	id, err := redisnode.Twice(ctx, func() (redisnode.Identity, error) { return m.Look(ctx, m.group.namespace) })
	if err != nil {
		return nil, err
	}
	if err := m.fits(id); err != nil {
		return nil, err
	}
	if !id.Marked || id.Marker.Run != id.Run {
		if id, err = m.Mark(ctx, m.group.namespace, m.group.membership, id, time.Time{}); err != nil {
			return nil, err
		}
		if err := m.fits(id); err != nil {
			return nil, err
		}
	}
	return m.learn(q, id)
}

func (m *member) inquire() *inquiry {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.inquiries == nil {
		m.inquiries = make(map[*inquiry]struct{})
	}
	q := new(inquiry)
	m.inquiries[q] = struct{}{}
	return q
}

func (m *member) forgetInquiry(q *inquiry) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.inquiries, q)
}

// learn takes down the answer to an inquiry, if it is about the process that the
// member is now.
func (m *member) learn(q *inquiry, id redisnode.Identity) (*known, error) {
	k := &known{run: id.Run, marker: id.Marker.From(time.Time{})}
	from := m.votesFrom(id.Marker)
	if id.Time.Before(from) {
		k.marker, k.waits = id.Marker.From(from), true
	}
	m.mu.Lock()
	if q.mixed || q.run != "" && q.run != id.Run {
		m.mu.Unlock()
		return nil, errRestarted
	}
	m.known = k
	m.mu.Unlock()
	if k.waits {
		m.group.report(locker.Event{Kind: locker.EventNodeQuarantined, Err: m.quarantined(id.Marker, id.Time)})
	}
	return k, nil
}

// votesFrom returns from when on, by its own clock, a member may vote: all that it may
// have granted and forgotten is over then.
func (m *member) votesFrom(marker redisnode.Marker) time.Time {
	return marker.Since.Add(m.group.maxTTL)
}

func (m *member) forget(k *known) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.known == k {
		m.known = nil
	}
}

// settle says whether the member is still what it was known to be when it was asked for
// a vote. One that voted then will go on to do so.
func (m *member) settle(k *known) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.known == k && k.waits {
		m.known = &known{run: k.run, marker: k.marker.From(time.Time{})}
	}
	return m.known != nil && m.known.run == k.run
}

// fits returns why the server cannot be this member, or nil.
func (m *member) fits(id redisnode.Identity) error {
	if id.Role != "master" {
		return misfit("it is a replica, whose locks are not its own: name the masters of independent servers")
	}
	if id.Marked && id.Marker.Membership != m.group.membership {
		return misfit(fmt.Sprintf("it is a node of the membership %s, while this is %s (both in the namespace %q): "+
			"all clients must name the same nodes and the same MaxTTL; for others use a new namespace",
			id.Marker.Membership, m.group.membership, m.group.namespace))
	}
	for _, other := range m.group.members {
		if other != m && other.process() == id.Run {
			return misfit(fmt.Sprintf("it is the same server as %s, and would have two votes", other.addr))
		}
	}
	return nil
}

// process returns the run id of the process that the member is.
func (m *member) process() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.run
}

func (m *member) quarantined(marker redisnode.Marker, now time.Time) error {
	return &QuarantineError{Addr: m.addr, Reason: reasons[marker.Reason], Remaining: m.votesFrom(marker).Sub(now)}
}

var reasons = map[redisnode.Reason]string{
	redisnode.Kept:      "it was marked not long ago",
	redisnode.Empty:     "it was started without data",
	redisnode.Fresh:     "it is new or was wiped",
	redisnode.Restarted: "it was started again, and may have forgotten grants",
}

// misfit is why a server cannot be a member, whatever is tried.
type misfit string

func (e misfit) Error() string { return string(e) }
func (misfit) Unwrap() error   { return locker.ErrUnavailable }

// unasked is why a member was not asked for its vote, and will not be.
type unasked struct{ error }

func (e *unasked) Unwrap() error { return e.error }

// undo makes sure that an attempt holds nothing on the member and never will. It is
// for a request of which the outcome is not known, or not wanted.
func (m *member) undo(ctx context.Context, g redisnode.Grant) error {
	_, err := twice(ctx, func() (struct{}, error) { return struct{}{}, m.Undo(ctx, g) })
	return err
}

// outdate makes sure that a vote for the grant that is still under way is refused if it
// arrives when the grant is over. It leaves alone what stands.
func (m *member) outdate(ctx context.Context, g redisnode.Grant) error {
	_, err := twice(ctx, func() (redisnode.Answer, error) { return m.Raise(ctx, g.Keys, g.Token) })
	return err
}

// drop gives a grant back at the member, and tells those who listen there.
func (m *member) drop(ctx context.Context, g redisnode.Grant, tell bool) (released bool, listeners int, err error) {
	released, listeners, err = m.Drop(ctx, g, tell)
	if errors.Is(err, errRestarted) { // nothing was sent
		released, listeners, err = m.Drop(ctx, g, tell)
	}
	return released, listeners, err
}

// twice calls an idempotent request once more if its connection was lost, or led to
// a process that is no more.
func twice[T any](ctx context.Context, request func() (T, error)) (T, error) {
	v, err := redisnode.Twice(ctx, request)
	if errors.Is(err, errRestarted) {
		v, err = redisnode.Twice(ctx, request)
	}
	return v, err
}

// QuarantineError says that a node gives no votes for a while, since it may have
// forgotten grants that still stand. It is an [locker.ErrUnavailable].
type QuarantineError struct {
	Addr      string
	Reason    string
	Remaining time.Duration
}

func (e *QuarantineError) Error() string {
	return fmt.Sprintf("%s, so it does not vote for another %s, until all that it may have granted is over", e.Reason, e.Remaining.Round(time.Millisecond))
}

func (e *QuarantineError) Unwrap() error { return locker.ErrUnavailable }
