package zookeeper

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/locker-go/locker"
)

var _ locker.Diagnoser = (*Locker)(nil)

// Diagnose asks each server that the URL names, or the one that the client of New is
// connected to, by the commands srvr and conf. It reads the ensemble's configuration, the
// base of the tokens and the namespace's ACL, and begins and ends two sessions to learn
// how short and how long one can be. It is an error if the client has no session.
func (l *Locker) Diagnose(ctx context.Context) ([]locker.Finding, error) {
	if !l.tasks.begin() {
		return nil, l.fail(ctx, "diagnose", "", errClosed)
	}
	defer l.tasks.calls.Done()
	r, err := l.examine(ctx)
	if err != nil {
		return nil, l.fail(ctx, "diagnose", "", err)
	}
	return r.findings(), nil
}

// report is what an ensemble told.
type report struct {
	asked    time.Time
	servers  []server
	named    bool  // the servers are those of the URL
	voters   int   // in the configuration; 0 if it names none
	noConfig error // why it was not told
	noQuorum error // why the leader did not answer
	zxid     int64 // the highest that was seen
	base     base
	unused   bool  // the namespace is not there yet
	noBase   error // why the base is not known
	acl      []zk.ACL
	noACL    error // why it was not told

	session     session
	longest     time.Duration // TTL that is granted
	assumed     time.Duration // tick
	least, most time.Duration // of the timeouts of sessions
	noSession   error         // why they are not known
}

// server is one of an ensemble.
type server struct {
	addr    string
	err     error // why it gave no answer
	version string
	mode    string
	silent  string        // what it answered instead
	tick    time.Duration // 0 if it is not told
}

// configNode is where servers keep what ensemble they are, since ZooKeeper 3.5.
const configNode = "/zookeeper/config"

func (l *Locker) examine(ctx context.Context) (report, error) {
	r := report{asked: time.Now()}
	s, err := bounded(ctx, l, l.dialer.await)
	addrs, connected := l.addrs, ""
	r.named = len(addrs) > 0
	switch {
	case err == nil:
		r.session, r.longest, r.assumed = s, l.longest(s), l.tick(s)
		r.noQuorum, connected = l.sync(ctx), s.conn.RemoteAddr().String()
		if !r.named {
			addrs = []string{connected}
		}
	case r.named:
		r.noQuorum = err
	default: // there is nobody to ask
		return r, err
	}
	if ctx.Err() != nil {
		return r, ctx.Err()
	}
	r.servers = make([]server, len(addrs))
	var asking sync.WaitGroup
	for i, addr := range addrs {
		asking.Go(func() { r.servers[i] = l.askServer(ctx, addr) })
	}
	if r.noQuorum == nil {
		asking.Go(func() { r.voters, r.noConfig = l.countVoters(ctx) })
		asking.Go(func() { r.base, r.unused, r.noBase = l.storedBase(ctx) })
		asking.Go(func() { r.acl, r.noACL = l.storedACL(ctx) })
		asking.Go(func() { r.least, r.most, r.noSession = l.sessions(ctx, connected) })
	}
	asking.Wait()
	r.zxid = l.dialer.seen()
	if ctx.Err() != nil {
		return r, ctx.Err()
	}
	if r.noQuorum != nil && !slices.ContainsFunc(r.servers, func(s server) bool { return s.err == nil }) {
		return r, r.noQuorum
	}
	return r, nil
}

// storedBase returns the base of the tokens, if there is one.
func (l *Locker) storedBase(ctx context.Context) (b base, unused bool, err error) {
	n, err := l.read(ctx, l.names.base(), false)
	if errors.Is(err, zk.ErrNoNode) {
		return base{}, true, nil
	}
	if err == nil {
		b, err = l.readBase(n)
	}
	return b, false, err
}

// storedACL returns the namespace's, or the one that it will have.
func (l *Locker) storedACL(ctx context.Context) ([]zk.ACL, error) {
	c, _, err := l.query(ctx, request{kind: opGetACL, body: appendText(nil, l.names.root)})
	if errors.Is(err, zk.ErrNoNode) {
		return l.opts.ACL, nil
	}
	if err != nil {
		return nil, err
	}
	acl := c.answer.acls()
	return acl, c.answer.err
}

// countVoters returns how many servers vote, by the ensemble's configuration, which has
// lines such as server.1=h:2888:3888:participant;0.0.0.0:2181.
func (l *Locker) countVoters(ctx context.Context) (int, error) {
	n, err := l.read(ctx, configNode, false)
	if err != nil {
		return 0, err
	}
	voters := 0
	for line := range strings.Lines(string(n.data)) {
		peer, _, _ := strings.Cut(strings.TrimSpace(line), ";")
		if strings.HasPrefix(peer, "server.") && !strings.HasSuffix(peer, ":observer") {
			voters++
		}
	}
	return voters, nil
}

// askServer asks a server by the commands of four letters, of which many answer srvr alone.
func (l *Locker) askServer(ctx context.Context, addr string) server {
	s := server{addr: addr}
	text, err := l.command(ctx, addr, "srvr")
	if err != nil {
		s.err = err
		return s
	}
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		switch name {
		case "Zookeeper version":
			s.version, _, _ = strings.Cut(value, "-")
			s.version, _, _ = strings.Cut(s.version, ",")
		case "Mode":
			s.mode = value
		}
	}
	if s.mode == "" {
		s.silent = strings.TrimSpace(text)
	}
	text, err = l.command(ctx, addr, "conf")
	if err != nil {
		return s
	}
	for line := range strings.Lines(text) {
		if ticks, ok := strings.CutPrefix(strings.TrimSpace(line), "tickTime="); ok {
			if n, err := strconv.Atoi(ticks); err == nil {
				s.tick = time.Duration(n) * time.Millisecond
			}
		}
	}
	return s
}

// command sends a command of four letters over a connection of its own.
func (l *Locker) command(ctx context.Context, addr, word string) (string, error) {
	return bounded(ctx, l, func(ctx context.Context) (string, error) {
		conn, err := l.connection(ctx, addr)
		if err != nil {
			return "", err
		}
		defer conn.Close()
		if _, err := io.WriteString(conn, word); err != nil {
			return "", err
		}
		const most = 64 << 10
		text, err := io.ReadAll(io.LimitReader(conn, most))
		if len(text) > 0 {
			err = nil // the server ends the connection, more or less politely
		}
		return string(text), err
	})
}

// connection makes one of which the dialer does not know, since it is not the session's.
// It ends with ctx.
func (l *Locker) connection(ctx context.Context, addr string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	if l.dialer.TLS != nil {
		if conn, err = handshake(ctx, conn, l.dialer.TLS, addr); err != nil {
			return nil, err
		}
	}
	if deadline, ok := ctx.Deadline(); ok {
		err = conn.SetDeadline(deadline)
	}
	return conn, err
}

// sessions returns the timeouts of the shortest and of the longest session that a server
// grants.
func (l *Locker) sessions(ctx context.Context, addr string) (least, most time.Duration, err error) {
	if least, err = l.trySession(ctx, addr, 1); err == nil {
		most, err = l.trySession(ctx, addr, math.MaxInt32)
	}
	return least, most, err
}

// trySession begins and ends a session with a timeout in milliseconds, and returns what
// was granted.
func (l *Locker) trySession(ctx context.Context, addr string, millis uint32) (time.Duration, error) {
	return bounded(ctx, l, func(ctx context.Context) (time.Duration, error) {
		conn, err := l.connection(ctx, addr)
		if err != nil {
			return 0, err
		}
		defer conn.Close()
		const password = 16 // bytes, of a session; a new one has none
		begin := make([]byte, lengthSize, 64)
		begin = binary.BigEndian.AppendUint32(begin, 0) // the protocol's version
		begin = binary.BigEndian.AppendUint64(begin, 0) // no change was seen
		begin = binary.BigEndian.AppendUint32(begin, millis)
		begin = binary.BigEndian.AppendUint64(begin, 0) // no session yet
		begin = binary.BigEndian.AppendUint32(begin, password)
		begin = append(begin, make([]byte, password)...)
		answer, err := roundTrip(conn, begin)
		if err != nil {
			return 0, err
		}
		const timeoutAt = 4 // after the protocol's version
		if len(answer) < timeoutAt+4 {
			return 0, errors.New("the first answer is too short")
		}
		granted := time.Duration(binary.BigEndian.Uint32(answer[timeoutAt:])) * time.Millisecond
		const closeSession = 1<<32 - 11
		end := binary.BigEndian.AppendUint32(make([]byte, lengthSize, 16), 1) // the request's number
		end = binary.BigEndian.AppendUint32(end, closeSession)
		if _, err := roundTrip(conn, end); err != nil {
			return 0, fmt.Errorf("a session of %s was left behind: %w", granted, err)
		}
		return granted, nil
	})
}

// roundTrip sends a message, of which the first bytes are for its length, and returns
// the answer.
func roundTrip(conn net.Conn, message []byte) ([]byte, error) {
	binary.BigEndian.PutUint32(message, uint32(len(message)-lengthSize))
	if _, err := conn.Write(message); err != nil {
		return nil, err
	}
	var head [lengthSize]byte
	if _, err := io.ReadFull(conn, head[:]); err != nil {
		return nil, err
	}
	const most = 1 << 10
	size := binary.BigEndian.Uint32(head[:])
	if size > most {
		return nil, errors.New("the answer is too long")
	}
	answer := make([]byte, size)
	_, err := io.ReadFull(conn, answer)
	return answer, err
}
