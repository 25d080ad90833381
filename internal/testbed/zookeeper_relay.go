package testbed

import (
	"context"
	"io"
	"net"
	"sync"
	"testing"
	"time"
)

// relay passes connections on to target, and has them wait while nobody listens there.
// A follower that reaches its leader before that listens tries again; one that is let in
// and then turned out begins a new election.
func relay(t testing.TB, target string) (addr string) {
	t.Helper()
	l, err := net.Listen("tcp", loopback(0)) // it never comes back to its port
	if err != nil {
		t.Fatalf("relay: %v", err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var wg sync.WaitGroup
	t.Cleanup(func() {
		cancel()
		_ = l.Close()
		wg.Wait()
	})
	wg.Go(func() {
		for {
			from, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { pass(ctx, from, target) })
		}
	})
	return l.Addr().String()
}

// pass passes one connection on until either end is closed.
func pass(ctx context.Context, from net.Conn, target string) {
	defer from.Close()
	to, err := dialPatiently(ctx, target)
	if err != nil {
		return
	}
	defer to.Close()
	ended := context.AfterFunc(ctx, func() { _, _ = from.Close(), to.Close() })
	defer ended()
	var back sync.WaitGroup
	back.Go(func() {
		_, _ = io.Copy(from, to)
		_ = from.Close()
	})
	_, _ = io.Copy(to, from)
	_ = to.Close()
	back.Wait()
}

func dialPatiently(ctx context.Context, target string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	for {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", target)
		if err == nil || ctx.Err() != nil {
			return conn, err
		}
		select {
		case <-ctx.Done():
		case <-time.After(10 * time.Millisecond):
		}
	}
}
