package zookeeper

import (
	"errors"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"
)

// client is a zk.Conn of our own.
type client struct {
	conn   *zk.Conn
	events <-chan zk.Event // closed when nothing of it runs any more
}

// mute is a logger for the driver: what it would print is in the errors.
type mute struct{}

func (mute) Printf(string, ...any) {}

func newClient(addrs []string, timeout time.Duration, dialer *Dialer) (*client, error) {
	dialer.closing = make(chan struct{})
	conn, events, err := zk.Connect(addrs, timeout,
		zk.WithDialer(dialer.Dial), zk.WithHostProvider(&hosts{dialer: dialer}), zk.WithLogger(mute{}), zk.WithLogInfo(false))
	if err != nil {
		return nil, err
	}
	return &client{conn, events}, nil
}

// close ends the session, and waits until nothing of the client runs any more.
func (c *client) close(dialer *Dialer, limit time.Duration) error {
	c.conn.Close() // within a few seconds
	dialer.close() // or it would wait for a server that is silent
	timer := time.NewTimer(limit)
	defer timer.Stop()
	for {
		select {
		case _, open := <-c.events:
			if !open {
				return nil
			}
		case <-timer.C:
			return errors.New("the client does not end")
		}
	}
}

// hosts are the servers, one after the other. Unlike the driver's own list it keeps their
// names, for TLS and for addresses that change. The dialer makes the pauses.
type hosts struct {
	dialer *Dialer

	mu    sync.Mutex
	addrs []string
	next  int
}

func (h *hosts) Init(addrs []string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.addrs = addrs
	return nil
}

func (h *hosts) Len() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.addrs)
}

// Next returns the server to try next. When the driver is asked to pause, it looks
// whether it was closed.
func (h *hosts) Next() (addr string, pause bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	addr = h.addrs[h.next]
	h.next = (h.next + 1) % len(h.addrs)
	return addr, h.dialer.isClosed()
}

func (h *hosts) Connected() {}
