package testbed

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// Framing reads one request from what a client sends: its name and its bytes.
type Framing func(r *bufio.Reader) (name string, frame []byte, err error)

// RESP is the framing of Redis. The name is the command in lower case.
func RESP(r *bufio.Reader) (string, []byte, error) {
	line, err := r.ReadBytes('\n')
	if err != nil {
		return "", nil, err
	}
	if line[0] != '*' {
		return strings.ToLower(strings.Fields(string(line) + " ?")[0]), line, nil // typed by hand
	}
	frame := line
	n, err := strconv.Atoi(strings.TrimSpace(string(line[1:])))
	if err != nil {
		return "", nil, err
	}
	name := ""
	for i := range n {
		header, err := r.ReadBytes('\n')
		if err != nil {
			return "", nil, err
		}
		size, err := strconv.Atoi(strings.TrimSpace(string(header[1:])))
		if err != nil {
			return "", nil, err
		}
		word := make([]byte, size+2)
		if _, err := io.ReadFull(r, word); err != nil {
			return "", nil, err
		}
		if i == 0 {
			name = strings.ToLower(string(word[:size]))
		}
		frame = append(append(frame, header...), word...)
	}
	return name, frame, nil
}

// Bytes is the framing of a protocol that the proxy does not know: whatever arrives
// together, without a name.
func Bytes(r *bufio.Reader) (string, []byte, error) {
	if _, err := r.Peek(1); err != nil {
		return "", nil, err
	}
	frame := make([]byte, r.Buffered())
	_, err := io.ReadFull(r, frame)
	return "", frame, err
}

// Proxy stands between clients and a server, and disturbs what passes.
type Proxy struct {
	t       testing.TB
	target  string
	framing Framing
	addr    string
	wg      sync.WaitGroup
	closed  chan struct{}

	mu       sync.Mutex
	listener net.Listener
	links    map[*link]struct{}
	requests []string
	delay    time.Duration
	stalled  chan struct{}            // closed when it ends; nil if it is not
	lose     [][]string               // the next request with one of the names, for each entry
	hold     map[string]chan struct{} // closed to deliver, by the request's name
}

// link is one connection of a client and its counterpart to the server.
type link struct {
	client, server net.Conn
	mu             sync.Mutex
	loseReply      bool
}

// NewProxy starts a proxy for a server whose clients speak in the framing.
func NewProxy(t testing.TB, target string, framing Framing) *Proxy {
	t.Helper()
	p := &Proxy{
		t: t, target: target, framing: framing, closed: make(chan struct{}),
		links: make(map[*link]struct{}), hold: make(map[string]chan struct{}),
	}
	p.listen(loopback(reservePort(t)))
	t.Cleanup(func() {
		close(p.closed)
		p.Cut()
		p.wg.Wait()
	})
	return p
}

// Addr returns the address that clients connect to.
func (p *Proxy) Addr() string { return p.addr }

func (p *Proxy) listen(addr string) {
	p.t.Helper()
	l, err := net.Listen("tcp", addr)
	if err != nil {
		p.t.Fatalf("proxy: %v", err)
	}
	p.mu.Lock()
	p.listener, p.addr = l, l.Addr().String()
	p.mu.Unlock()
	p.wg.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return // it was cut
			}
			p.wg.Go(func() { p.serve(client) })
		}
	})
}

// Requests returns the names of the requests that clients sent so far.
func (p *Proxy) Requests() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string(nil), p.requests...)
}

// Delay holds up each request for d. It arrives even if its sender gives up.
func (p *Proxy) Delay(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.delay = d
}

// Stall lets clients connect and send, and lets nothing pass, until the function
// that it returns is called.
func (p *Proxy) Stall() (resume func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	stalled := make(chan struct{})
	p.stalled = stalled
	return sync.OnceFunc(func() {
		p.mu.Lock()
		p.stalled = nil
		p.mu.Unlock()
		close(stalled)
	})
}

// LoseReply lets the next request with one of the names reach the server, and
// breaks the connection instead of passing on the reply.
func (p *Proxy) LoseReply(names ...string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lose = append(p.lose, names)
}

// HoldRequest withholds the next request of that name, until deliver is called: also
// if its sender has given up by then.
func (p *Proxy) HoldRequest(name string) (deliver func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	ready := make(chan struct{})
	p.hold[name] = ready
	return sync.OnceFunc(func() { close(ready) })
}

// Cut resets all connections and refuses new ones, until Heal.
func (p *Proxy) Cut() {
	p.mu.Lock()
	if p.listener != nil {
		_ = p.listener.Close()
		p.listener = nil
	}
	p.mu.Unlock()
	p.Reset()
}

// Heal undoes Cut.
func (p *Proxy) Heal() { p.t.Helper(); p.listen(p.addr) }

// Reset resets all connections. Clients may connect again.
func (p *Proxy) Reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		l.reset()
	}
}

func (l *link) reset() {
	if c, ok := l.client.(*net.TCPConn); ok {
		_ = c.SetLinger(0) // an RST instead of a FIN
	}
	_ = l.client.Close()
	_ = l.server.Close()
}

func (p *Proxy) serve(client net.Conn) {
	server, err := net.Dial("tcp", p.target)
	if err != nil {
		_ = client.Close() // what a client of a server that is down sees
		return
	}
	l := &link{client: client, server: server}
	p.mu.Lock()
	cut := p.listener == nil
	p.links[l] = struct{}{}
	p.mu.Unlock()
	if cut {
		l.reset()
	}
	var replies sync.WaitGroup
	replies.Go(func() { p.replies(l) })
	if err := p.forward(l); err != nil && !errors.Is(err, net.ErrClosed) && !errors.Is(err, io.EOF) {
		l.reset()
	}
	// The server sees all that was sent before it sees the end.
	if c, ok := server.(*net.TCPConn); ok {
		_ = c.CloseWrite()
	}
	replies.Wait()
	_ = client.Close()
	_ = server.Close()
	p.mu.Lock()
	delete(p.links, l)
	p.mu.Unlock()
}

// forward passes requests on until the client ends.
func (p *Proxy) forward(l *link) error {
	r := bufio.NewReader(l.client)
	for {
		name, frame, err := p.framing(r)
		if err != nil {
			return err
		}
		p.mu.Lock()
		p.requests = append(p.requests, name)
		delay, stalled, held := p.delay, p.stalled, p.hold[name]
		delete(p.hold, name)
		lose := slices.IndexFunc(p.lose, func(names []string) bool { return slices.Contains(names, name) })
		if lose >= 0 {
			p.lose = slices.Delete(p.lose, lose, lose+1)
		}
		p.mu.Unlock()
		if lose >= 0 {
			l.mu.Lock()
			l.loseReply = true
			l.mu.Unlock()
		}
		for _, obstacle := range []<-chan struct{}{held, stalled, after(delay)} {
			if obstacle == nil {
				continue
			}
			select {
			case <-obstacle:
			case <-p.closed:
				return net.ErrClosed
			}
		}
		if _, err := l.server.Write(frame); err != nil {
			return fmt.Errorf("to the server: %w", err)
		}
	}
}

func after(d time.Duration) <-chan struct{} {
	if d <= 0 {
		return nil
	}
	done := make(chan struct{})
	time.AfterFunc(d, func() { close(done) })
	return done
}

// replies passes replies on until the server ends. A client that is gone does not
// stop it: the server must not see its requests withdrawn.
func (p *Proxy) replies(l *link) {
	buffer := make([]byte, 32<<10)
	for {
		n, err := l.server.Read(buffer)
		if err != nil {
			_ = l.client.Close()
			return
		}
		l.mu.Lock()
		lose := l.loseReply
		l.mu.Unlock()
		if lose {
			l.reset()
			return
		}
		p.mu.Lock()
		stalled := p.stalled
		p.mu.Unlock()
		if stalled != nil {
			select {
			case <-stalled:
			case <-p.closed:
				return
			}
		}
		_, _ = l.client.Write(buffer[:n])
	}
}
