package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strconv"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/locker-go/locker"
)

// A token is the base plus the zxid of the transaction that created the grant's entry.
// Those order the grants, and the base lifts them to the number space of all backends. It
// only rises, and each grant goes by the base that stands once it is at the head of its
// queue.

// maxLag is how far tokens may lag the clock: beyond, the base is moved. That keeps
// writes of it rare, and finds out an ensemble that lost its data.
const maxLag = 10 * time.Second

// maxTries bounds how often a call begins again because others were faster.
const maxTries = 16

// base is what is stored as a namespace's base. It may be negative: each leader begins
// its zxids 2^32 above those of the one before.
type base struct {
	value   int64
	version int32 // of the node
}

// forZxid returns the base that a token of that zxid should have: another one if it
// would lag the clock.
func (b base) forZxid(zxid int64, now time.Time) int64 {
	micros := now.UnixMicro()
	if b.value+zxid >= micros-maxLag.Microseconds() || micros > int64(locker.MaxToken) {
		return b.value
	}
	return micros - zxid
}

// known is what this process knows of the base.
type known struct {
	turn chan struct{} // taken by who reads it

	mu   sync.Mutex
	base base
	node node  // that it was read from
	told int64 // the epoch of which it was told that its tokens are ahead
}

func (k *known) init() {
	k.turn = make(chan struct{}, 1)
	k.told = -1
}

// get returns the base as of all that was read on a connection so far: the server tells
// of a change before it shows any later state.
func (k *known) get(c *conn) (base, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if c == nil || k.node.conn != c {
		return base{}, false
	}
	select {
	case <-k.node.changed:
		return base{}, false
	default:
		return k.base, true
	}
}

func (k *known) set(b base, n node) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.base, k.node = b, n
}

// forget has the base read again.
func (k *known) forget() { k.set(base{}, node{}) }

// currentBase returns the base, and reads or creates it where it is not known.
func (l *Locker) currentBase(ctx context.Context) (base, error) {
	if b, ok := l.known.get(l.dialer.current().conn); ok {
		return b, nil
	}
	select {
	case l.known.turn <- struct{}{}:
		defer func() { <-l.known.turn }()
	case <-ctx.Done():
		return base{}, ctx.Err()
	}
	for range maxTries {
		if b, ok := l.known.get(l.dialer.current().conn); ok {
			return b, nil
		}
		n, err := l.read(ctx, l.names.base(), true)
		if errors.Is(err, zk.ErrNoNode) {
			err = l.createBase(ctx)
			if err == nil {
				continue
			}
		}
		if err != nil {
			return base{}, err
		}
		b, err := l.readBase(n)
		if err != nil {
			return base{}, err
		}
		l.known.set(b, n)
	}
	return base{}, l.outrun("the base of the tokens changed")
}

func (l *Locker) readBase(n node) (base, error) {
	value, err := strconv.ParseInt(string(n.data), 10, 64)
	if err != nil {
		return base{}, fmt.Errorf("%s is not a base of tokens: remove it, and tokens go by the clock", l.names.base())
	}
	return base{value, n.stat.version}, nil
}

// outrun is the error of a call that began again too often.
func (l *Locker) outrun(why string) error { return fmt.Errorf("%s %d times meanwhile", why, maxTries) }

// createBase creates the base, and what is missing above it. That it is there already,
// since another was faster, is no error.
func (l *Locker) createBase(ctx context.Context) error {
	if err := l.prepare(ctx); err != nil {
		return err
	}
	value := time.Now().UnixMicro() - l.dialer.seen()
	err := l.make(ctx, single(createOp(l.names.base(), strconv.AppendInt(nil, value, 10), l.opts.ACL, zk.FlagPersistent)))
	if errors.Is(err, zk.ErrNodeExists) {
		return nil
	}
	return err
}

// prepare creates the nodes above those of the keys.
func (l *Locker) prepare(ctx context.Context) error {
	chroot := path.Dir(l.names.root)
	if l.opts.KeepChroot && chroot != "/" {
		if _, err := l.read(ctx, chroot, false); errors.Is(err, zk.ErrNoNode) {
			return fmt.Errorf("the chroot %s does not exist, and is not to be created", chroot)
		} else if err != nil {
			return err
		}
	}
	return l.createAll(ctx, l.names.queues(), chroot)
}

// createAll creates a node and those above it. What is above the chroot may be of use to
// others too, and is open to all.
func (l *Locker) createAll(ctx context.Context, name, chroot string) error {
	acl := l.opts.ACL
	if len(name) < len(chroot) {
		acl = zk.WorldACL(zk.PermAll)
	}
	create := func() error {
		err := l.make(ctx, single(createOp(name, nil, acl, zk.FlagPersistent)))
		if errors.Is(err, zk.ErrNodeExists) {
			return nil
		}
		return err
	}
	err := create()
	if errors.Is(err, zk.ErrNoNode) && path.Dir(name) != "/" {
		if err = l.createAll(ctx, path.Dir(name), chroot); err == nil {
			err = create()
		}
	}
	return err
}

// upToDate returns the base, moved if the next token would lag the clock.
func (l *Locker) upToDate(ctx context.Context) (base, error) {
	for range maxTries {
		b, err := l.currentBase(ctx)
		if err != nil {
			return base{}, err
		}
		want := b.forZxid(l.dialer.seen()+1, time.Now())
		if want == b.value {
			return b, nil
		}
		if err := l.moveBase(ctx, b, want); err != nil && !errors.Is(err, zk.ErrBadVersion) {
			return base{}, err
		}
	}
	return base{}, l.outrun("others moved the base of the tokens")
}

// moveBase stores another base if it still is b, and makes other operations with that.
func (l *Locker) moveBase(ctx context.Context, b base, value int64, others ...op) error {
	move := setOp(l.names.base(), strconv.AppendInt(nil, value, 10), b.version)
	err := l.make(ctx, multi(append([]op{move}, others...)...))
	l.known.forget() // the watch would say so in a moment
	return err
}

// sameBase is the condition that the base is still b.
func (l *Locker) sameBase(b base) op { return checkOp(l.names.base(), b.version) }

// settle gives an entry at the head of its queue its token: by the base b, read when it
// was there, unless that has to move. It writes if the entry was created with another
// base. An error means that the outcome is unknown, or that the entry is gone.
func (l *Locker) settle(ctx context.Context, e entry, b base) (entry, error) {
	for range maxTries {
		want := b.forZxid(e.zxid, time.Now())
		if want == e.base && want == b.value {
			return e, nil
		}
		settled := e
		settled.base = want
		put := setOp(e.path(), settled.data(), anyVersion)
		var err error
		if want == b.value {
			err = l.make(ctx, multi(l.sameBase(b), put))
		} else {
			err = l.moveBase(ctx, b, want, put)
		}
		switch {
		case err == nil:
			return settled, nil
		case refused(err, 1, zk.ErrNoNode):
			return e, errPlaceLost
		case !refused(err, 0, zk.ErrBadVersion) && !refused(err, 0, zk.ErrNoNode):
			return e, err
		}
		l.known.forget()
		if b, err = l.currentBase(ctx); err != nil {
			return e, err
		}
	}
	return e, l.outrun("others moved the base of the tokens")
}

// tellAhead reports a token that is ahead of this process's clock: once in each epoch, of
// which each leader begins one.
func (l *Locker) tellAhead(e entry) {
	ahead := time.Duration(int64(e.token())-time.Now().UnixMicro()) * time.Microsecond
	if ahead <= maxLag || l.opts.OnEvent == nil {
		return
	}
	epoch := e.zxid >> 32
	l.known.mu.Lock()
	told := l.known.told == epoch
	l.known.told = epoch
	l.known.mu.Unlock()
	if told {
		return
	}
	l.opts.OnEvent(locker.Event{
		Kind:    locker.EventFenceJumped,
		Holding: locker.Holding{Key: e.key, Holder: locker.ShowHolder(e.holder), Token: e.token()},
		Err: fmt.Errorf("tokens are %s ahead of this clock: another leader was elected, which is about 72 minutes each, "+
			"or this clock is slow, or that of another client was fast", ahead.Round(time.Second)),
	})
}
