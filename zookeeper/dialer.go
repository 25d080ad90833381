package zookeeper

import (
	"context"
	"crypto/tls"
	"math/rand/v2"
	"net"
	"sync"
	"time"
)

// Dialer makes the connections of a zk.Conn, and sees what the driver does not tell: for
// how long the ensemble keeps the session, which is less than was asked for where the
// servers allow less, when it was last known to be alive, and that it is another one.
// The requests of a [Locker] travel on its connections too, beside those of the driver,
// which takes no context and does not tell what became of a request. Give it to
// zk.Connect by zk.WithDialer(dialer.Dial), and then to [New]. The zero value is good.
// Each zk.Conn needs one of its own.
type Dialer struct {
	// TLS makes the connections use TLS, if it is not nil. Without a ServerName, the
	// host that is dialled is the name on the server's certificate.
	TLS *tls.Config

	// Auth is what the servers are told at each connection, before anything else, of who
	// the client is. What is told by AddAuth of a zk.Conn may come too late for a Locker.
	Auth []Auth

	mu      sync.Mutex
	closed  bool
	closing chan struct{} // closed with it; nil unless pauses are made
	failed  int           // how many attempts in a row
	conns   map[*conn]struct{}
	session session
	zxid    int64 // the highest that an answer had
	touches touches
	changed chan struct{} // closed at the next change of the session, or its connection
	refused moment        // since when servers turn the client away; 0 if they do not
	failure error         // of the last attempt to connect, until one succeeds
}

// Auth is a credential, such as {"digest", []byte("user:password")}.
type Auth struct {
	Scheme string
	Data   []byte
}

// session is what the ensemble and the client agreed on.
type session struct {
	id      int64         // 0 if there is none: not yet, or since the last one expired
	timeout time.Duration // as granted
	conn    *conn         // nil while there is none
}

// refusedFor is for how long servers may turn the client away before it forgets the
// latest change that it has seen. A server that has not seen that change turns it away:
// one that lags, and, for ever, one of an ensemble that lost its data.
const refusedFor = 2 * time.Second

// Dial is for zk.WithDialer.
func (d *Dialer) Dial(network, address string, timeout time.Duration) (net.Conn, error) {
	d.pause()
	ctx, cancel := context.WithTimeout(context.Background(), timeout) // the driver has no other
	defer cancel()
	c, err := d.dial(ctx, network, address)
	if err != nil {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.failure = err
		return nil, err
	}
	return c, nil
}

// retryAfter returns for how long to wait before the next attempt to connect, of which some
// have failed in a row.
func retryAfter(failed int) time.Duration {
	const first, last = 10 * time.Millisecond, time.Second
	d := min(first<<min(failed, 10), last)
	return d/2 + rand.N(d/2)
}

// pause waits before another attempt to connect, for a client of Open's. The driver waits
// for a second after it has tried all servers, also before it tries the only one again.
func (d *Dialer) pause() {
	d.mu.Lock()
	closing, failed := d.closing, d.failed
	d.failed++
	d.mu.Unlock()
	if closing == nil || failed == 0 {
		return
	}
	timer := time.NewTimer(retryAfter(failed))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-closing:
	}
}

// isClosed says whether no more connections are made.
func (d *Dialer) isClosed() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.closed
}

func (d *Dialer) dial(ctx context.Context, network, address string) (net.Conn, error) {
	d.mu.Lock()
	closed := d.closed
	d.mu.Unlock()
	if closed {
		return nil, net.ErrClosed
	}
	raw, err := new(net.Dialer).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	if d.TLS != nil {
		if raw, err = handshake(ctx, raw, d.TLS, address); err != nil {
			return nil, err
		}
	}
	c := newConn(d, raw)
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		_ = raw.Close()
		return nil, net.ErrClosed
	}
	if d.conns == nil {
		d.conns = make(map[*conn]struct{})
	}
	d.conns[c] = struct{}{}
	return c, nil
}

func handshake(ctx context.Context, raw net.Conn, config *tls.Config, address string) (net.Conn, error) {
	if config.ServerName == "" {
		config = config.Clone()
		host, _, err := net.SplitHostPort(address)
		if err != nil {
			host = address
		}
		config.ServerName = host
	}
	secure := tls.Client(raw, config)
	if err := secure.HandshakeContext(ctx); err != nil {
		_ = raw.Close()
		return nil, err
	}
	return secure, nil
}

// close ends all connections, and refuses to make others: the driver would wait for
// answers of a server that is silent.
func (d *Dialer) close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
	if d.closing != nil {
		close(d.closing)
	}
	for c := range d.conns {
		_ = c.Conn.Close()
	}
}

// lost notes that a connection ended.
func (d *Dialer) lost(c *conn) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.conns, c)
	if d.session.conn == c {
		d.session.conn = nil
		d.notify()
	}
}

// notify tells of a change of the session, or its connection.
func (d *Dialer) notify() {
	if d.changed != nil {
		close(d.changed)
		d.changed = nil
	}
}

// current returns the session.
func (d *Dialer) current() session {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.session
}

// await returns the session, once there is one with a connection, or what ctx ended with.
func (d *Dialer) await(ctx context.Context) (session, error) {
	for {
		d.mu.Lock()
		s := d.session
		if s.conn == nil && d.changed == nil {
			d.changed = make(chan struct{})
		}
		changed := d.changed
		d.mu.Unlock()
		if s.conn != nil {
			return s, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return session{}, ctx.Err()
		}
	}
}

// seen returns a number that no change that this client heard of is above.
func (d *Dialer) seen() int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.zxid
}

// lastSeen is seen, as a server is told at the beginning of a connection: what the driver
// has seen counts as well.
func (d *Dialer) lastSeen(zxid int64) int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.refused != 0 && now().since(d.refused) > refusedFor {
		d.zxid = 0
		return 0
	}
	return max(d.zxid, zxid)
}

// touched returns when the session was touched for the last time, as far as the leader
// knows when it confirms a request that is sent at that moment.
func (d *Dialer) touched(at moment, tick time.Duration) moment {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.touches.known(at, tick)
}

// lastFailure returns why there is no connection, if that is known.
func (d *Dialer) lastFailure() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.failure
}

// established notes the answer to the request that begins a connection.
func (d *Dialer) established(c *conn, id int64, timeout time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.refused, d.failure, d.failed = 0, nil, 0
	if id != d.session.id {
		d.zxid = 0 // it may be the first session after the loss of all data
	}
	d.session = session{id, timeout, c}
	if id == 0 {
		d.session.conn = nil
	}
	d.touches.reset(c.asked)
	d.notify()
}

// turnedAway notes that a server ended a connection instead of answering.
func (d *Dialer) turnedAway(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.failure = err
	if d.refused == 0 {
		d.refused = now()
	}
}

func (d *Dialer) pinged() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.touches.ping(now())
}

// answered notes an answer: of a ping, or another.
func (d *Dialer) answered(ping bool, zxid int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.zxid = max(d.zxid, zxid)
	if ping {
		d.touches.answer(now())
	}
}
