package testbed

import (
	"net"
	"testing"
)

// Test binaries run side by side: a port must stay another's while its server is down.
func TestReservedPortIsNobodyElses(t *testing.T) {
	var port int
	t.Run("reserved", func(t *testing.T) {
		port = reservePort(t)
		if port < firstPort || port >= firstPort+ports {
			t.Errorf("port %d is outside of %d..%d", port, firstPort, firstPort+ports-1)
		}
		if l, err := net.Listen("tcp", loopback(port)); err != nil {
			t.Errorf("the port that was reserved is taken: %v", err)
		} else {
			_ = l.Close()
		}
		if claim, err := net.ListenPacket("udp", loopback(port)); err == nil {
			_ = claim.Close()
			t.Errorf("port %d can be reserved twice", port)
		}
	})
	claim, err := net.ListenPacket("udp", loopback(port))
	if err != nil {
		t.Fatalf("the port is reserved after its test: %v", err)
	}
	_ = claim.Close()
}

func TestNobodyListensAtUnused(t *testing.T) {
	if c, err := net.Dial("tcp", Unused(t)); err == nil {
		_ = c.Close()
		t.Error("somebody listens")
	}
}
