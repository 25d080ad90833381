package zookeeper

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"net"
	"os"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"
)

// conn is a connection of the driver, on which requests of the Locker's own travel too,
// beside those of the driver and numbered otherwise. The driver begins it, keeps it
// alive by pings, and ends it.
type conn struct {
	net.Conn
	dialer *Dialer
	r      *bufio.Reader

	// These belong to the goroutine of the driver that begins the connection, and after
	// that reads.
	asked  moment
	begun  bool // by a request
	agreed bool // by an answer
	head   [lengthSize]byte
	body   []byte    // of the answer that is read
	rest   [2][]byte // of what the driver has not taken yet

	turn  chan struct{} // taken by who writes
	limit time.Time     // of writing; belongs to the turn

	mu      sync.Mutex
	ended   bool
	number  int32 // of the last request
	calls   map[int32]*call
	watches map[string]watch
}

const (
	lengthSize = 4
	maxAnswer  = 256 << 20 // what is longer is no answer of a ZooKeeper

	// Numbers of requests. Those of the driver are positive, others have a meaning.
	eventNumber = -1
	pingNumber  = -2
	firstNumber = math.MinInt32
	lastNumber  = -1000

	// writeLimit is for how long a server may take nothing, until the connection is given
	// up.
	writeLimit = 5 * time.Second
)

// errCut says that the connection ended before an answer came. Whether the request
// arrived is open.
var errCut = zk.ErrConnectionClosed

// call is a request under way.
type call struct {
	watch  string          // the path that it watches, or empty
	done   chan struct{}   // closed when what follows is there
	zxid   int64           // as of which the server answered
	err    error           // the server's, or errCut
	answer answerReader    // what follows the error
	fired  <-chan struct{} // closed when the node changes that it watches
}

// watch is one of a node, by however many: the server keeps it until it fires. It is
// closed when the node changes, or the connection ends.
type watch chan struct{}

func newConn(d *Dialer, raw net.Conn) *conn {
	return &conn{
		Conn: raw, dialer: d, r: bufio.NewReaderSize(raw, 16<<10),
		turn: make(chan struct{}, 1), number: firstNumber,
		calls: make(map[int32]*call), watches: make(map[string]watch),
	}
}

// Close ends the connection. Whoever waits for an answer, or for a node, is told.
func (c *conn) Close() error {
	err := c.Conn.Close()
	c.mu.Lock()
	was := c.ended
	c.ended = true
	calls, watches := c.calls, c.watches
	c.calls, c.watches = nil, nil
	c.mu.Unlock()
	if was {
		return err
	}
	c.dialer.lost(c)
	for _, call := range calls {
		call.err = errCut
		close(call.done)
	}
	for _, w := range watches {
		close(w)
	}
	return err
}

// Write passes on one request of the driver, which writes them one by one.
func (c *conn) Write(b []byte) (int, error) {
	if !c.begun {
		c.begun = true
		return c.begin(b)
	}
	if len(b) >= lengthSize+4 && int32(binary.BigEndian.Uint32(b[lengthSize:])) == pingNumber {
		c.dialer.pinged()
	}
	c.turn <- struct{}{}
	defer func() { <-c.turn }()
	return len(b), c.write(b)
}

// begin passes the request on that begins the connection. The driver would wait for an
// answer to it for several times the session's timeout, although other servers may be
// well.
func (c *conn) begin(b []byte) (int, error) {
	const (
		zxidAt    = lengthSize + 4 // after the protocol's version
		timeoutAt = zxidAt + 8
	)
	if len(b) < timeoutAt+4 {
		return 0, errors.New("the driver begins a connection in an unknown way")
	}
	own := append([]byte(nil), b...)
	zxid := c.dialer.lastSeen(int64(binary.BigEndian.Uint64(own[zxidAt:])))
	binary.BigEndian.PutUint64(own[zxidAt:], uint64(zxid))
	timeout := time.Duration(binary.BigEndian.Uint32(own[timeoutAt:])) * time.Millisecond
	limit := min(max(timeout/3, time.Second), 5*time.Second)
	if err := c.Conn.SetReadDeadline(time.Now().Add(limit)); err != nil {
		return 0, err
	}
	c.asked = now()
	return len(b), c.write(own)
}

// write writes. A request of which a part was written must not be followed by another.
func (c *conn) write(b []byte) error {
	if at := time.Now(); c.limit.Sub(at) < writeLimit {
		c.limit = at.Add(2 * writeLimit)
		if err := c.Conn.SetWriteDeadline(c.limit); err != nil {
			return err
		}
	}
	_, err := c.Conn.Write(b)
	if err != nil {
		_ = c.Conn.Close() // the reader notices
	}
	return err
}

// SetReadDeadline lets no other limit replace that of begin.
func (c *conn) SetReadDeadline(t time.Time) error {
	if !c.agreed {
		return nil
	}
	return c.Conn.SetReadDeadline(t)
}

// SetWriteDeadline does nothing: write has a limit of its own.
func (c *conn) SetWriteDeadline(time.Time) error { return nil }

// Read returns what is for the driver.
func (c *conn) Read(p []byte) (int, error) {
	for len(c.rest[0])+len(c.rest[1]) == 0 {
		if err := c.next(); err != nil {
			if !c.agreed && !errors.Is(err, os.ErrDeadlineExceeded) {
				c.dialer.turnedAway(err)
			}
			return 0, err
		}
	}
	n := 0
	for i := range c.rest {
		copied := copy(p[n:], c.rest[i])
		c.rest[i] = c.rest[i][copied:]
		n += copied
	}
	return n, nil
}

// next reads the next answer, and keeps it for the driver if it is for that.
func (c *conn) next() error {
	if _, err := io.ReadFull(c.r, c.head[:]); err != nil {
		return err
	}
	size := int(binary.BigEndian.Uint32(c.head[:]))
	if size > maxAnswer {
		return errGarbled
	}
	if cap(c.body) < size {
		c.body = make([]byte, size)
	}
	c.body = c.body[:size]
	if _, err := io.ReadFull(c.r, c.body); err != nil {
		return err
	}
	mine, err := c.take(answerReader{b: c.body})
	if !mine {
		c.rest = [2][]byte{c.head[:], c.body}
	}
	return err
}

// take looks at an answer, and reports whether it was for a request of the Locker's.
func (c *conn) take(r answerReader) (mine bool, err error) {
	if !c.agreed {
		return false, c.agree(r)
	}
	number, zxid, code := r.int32(), r.int64(), r.int32()
	if r.err != nil {
		return false, r.err
	}
	c.dialer.answered(number == pingNumber, zxid)
	switch {
	case number == eventNumber:
		r.take(2 * 4) // what happened, and the state of the session
		return c.fire(string(r.data())), r.err
	case number <= lastNumber:
		c.deliver(number, zxid, serverError(code), r.b)
		return true, nil
	}
	return false, nil
}

// agree reads the answer that begins the session, or goes on with it.
func (c *conn) agree(r answerReader) error {
	r.take(4) // the protocol's version
	timeout := time.Duration(r.int32()) * time.Millisecond
	id := r.int64()
	if r.err != nil {
		return r.err
	}
	c.agreed = true
	if id != 0 {
		for _, a := range c.dialer.Auth {
			// Before all others. What the server says of it shows in their answers.
			body := appendText(appendText(appendInt(nil, 0), a.Scheme), a.Data)
			if err := c.write(frame(lastNumber, opAuth, body)); err != nil {
				return err
			}
		}
	}
	c.dialer.established(c, id, timeout)
	if id == 0 {
		return c.Close() // the driver forgets to
	}
	return c.Conn.SetReadDeadline(time.Time{})
}

func frame(number, kind int32, body []byte) []byte {
	b := make([]byte, 0, lengthSize+2*4+len(body))
	b = appendInt(appendInt(appendInt(b, int32(2*4+len(body))), number), kind)
	return append(b, body...)
}

// deliver hands an answer to who waits for it.
func (c *conn) deliver(number int32, zxid int64, err error, body []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	call := c.calls[number]
	if call == nil {
		return // what the servers say of who the client is
	}
	delete(c.calls, number)
	if call.watch != "" && err == nil {
		w := c.watches[call.watch]
		if w == nil {
			w = make(watch)
			c.watches[call.watch] = w
		}
		call.fired = w
	}
	call.zxid, call.err = zxid, err
	call.answer.b = append([]byte(nil), body...)
	close(call.done)
}

// fire tells who watches a node, and reports whether anybody does.
func (c *conn) fire(path string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	w := c.watches[path]
	if w == nil {
		return false
	}
	delete(c.watches, path)
	close(w)
	return true
}

// send sends requests, one after the other, and returns a call for each. The server
// answers them in that order.
func (c *conn) send(ctx context.Context, requests ...request) ([]*call, error) {
	select {
	case c.turn <- struct{}{}:
		defer func() { <-c.turn }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	calls := make([]*call, len(requests))
	var all []byte
	c.mu.Lock()
	if c.ended {
		c.mu.Unlock()
		return nil, errNotSent
	}
	for i, r := range requests {
		if c.number++; c.number >= lastNumber {
			c.number = firstNumber
		}
		calls[i] = &call{watch: r.watch, done: make(chan struct{})}
		c.calls[c.number] = calls[i]
		b := frame(c.number, r.kind, r.body)
		if all == nil {
			all = b
		} else {
			all = append(all, b...)
		}
	}
	c.mu.Unlock()
	if err := c.write(all); err != nil {
		return calls, nil // the reader ends the calls
	}
	return calls, nil
}

// watched returns what is closed when a node changes, if a watch of it is set already.
func (c *conn) watched(path string) (<-chan struct{}, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	w, ok := c.watches[path]
	return w, ok
}

// wait waits for the answer until ctx ends.
func (c *call) wait(ctx context.Context) error {
	select {
	case <-c.done:
	case <-ctx.Done():
		select {
		case <-c.done: // it has come all the same
		default:
			return ctx.Err()
		}
	}
	return c.err
}
