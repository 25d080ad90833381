package testbed

import (
	"math/rand/v2"
	"net"
	"strconv"
	"testing"
)

// Servers and proxies listen below the ports that systems hand to clients, from
// 32768 on Linux and from 49152 elsewhere: one that comes back to its port would
// sooner or later find the connection of a client there, also an ended one that the
// kernel remembers for a minute. A node of a Redis Cluster takes its port + 10000 too.
const firstPort, ports = 10000, 10000

// reservePort returns a free port that no other test binary takes before the test
// ends, also while nothing listens there.
func reservePort(t testing.TB) int {
	t.Helper()
	var err error
	for range 1000 {
		port := firstPort + rand.IntN(ports)
		// No server here speaks UDP, so the UDP port of the same number is the claim.
		// It is given up however the test binary ends.
		var claim net.PacketConn
		if claim, err = net.ListenPacket("udp", loopback(port)); err != nil {
			continue
		}
		var l net.Listener
		if l, err = net.Listen("tcp", loopback(port)); err != nil {
			_ = claim.Close()
			continue
		}
		_ = l.Close()
		t.Cleanup(func() { _ = claim.Close() })
		return port
	}
	t.Fatalf("find a free port: %v", err)
	return 0
}

func loopback(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

// Unused returns an address at which nobody listens while the test runs.
func Unused(t testing.TB) string {
	t.Helper()
	return loopback(reservePort(t))
}
