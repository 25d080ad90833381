package testbed

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
)

type silent struct{}

func (silent) Printf(string, ...any) {}

// zooKeeperClient returns a client that has a session, and ends with the test.
func zooKeeperClient(t testing.TB, config *tls.Config, timeout time.Duration, addrs ...string) *zk.Conn {
	t.Helper()
	dial := net.DialTimeout
	if config != nil {
		dial = func(network, addr string, timeout time.Duration) (net.Conn, error) {
			return tls.DialWithDialer(&net.Dialer{Timeout: timeout}, network, addr, config)
		}
	}
	c, events, err := zk.Connect(addrs, timeout, zk.WithLogger(silent{}), zk.WithLogInfo(false), zk.WithDialer(dial))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Close()
		for range events { // until its goroutines have ended
		}
	})
	return c
}

func createNode(t *testing.T, c *zk.Conn, path string) {
	t.Helper()
	if _, err := c.Create(path, nil, zk.FlagPersistent, zk.WorldACL(zk.PermAll)); err != nil {
		t.Fatal(err)
	}
}

func hasNode(t *testing.T, c *zk.Conn, path string) bool {
	t.Helper()
	if _, err := c.Sync(path); err != nil {
		t.Fatal(err)
	}
	found, _, err := c.Exists(path)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func TestZooKeeperIsBroken(t *testing.T) {
	t.Parallel()
	s := ZooKeeper(t)
	createNode(t, zooKeeperClient(t, nil, time.Second, s.Addr()), "/n")
	s.Restart(true)
	if !hasNode(t, zooKeeperClient(t, nil, time.Second, s.Addr()), "/n") {
		t.Error("a restart with data lost it")
	}
	s.Restart(false)
	if hasNode(t, zooKeeperClient(t, nil, time.Second, s.Addr()), "/n") {
		t.Error("a restart without data kept it")
	}
	if stats := ZooKeeperStats(t, s); stats["zk_server_state"] != "standalone" {
		t.Errorf("the server is %q", stats["zk_server_state"])
	}
	c := zooKeeperClient(t, nil, time.Second, s.Addr())
	createNode(t, c, "/a")
	before := ZooKeeperWrites(t, s)
	createNode(t, c, "/a/b")
	hasNode(t, c, "/a/b")
	if n := ZooKeeperWrites(t, s) - before; n != 1 {
		t.Errorf("it counts %d writes, want 1", n)
	}
}

func TestZooKeeperClusterIsBroken(t *testing.T) {
	t.Parallel()
	z := ZooKeeperCluster(t, 3)
	createNode(t, zooKeeperClient(t, nil, time.Second, z.Endpoints()...), "/n")
	first := z.Leader()
	first.Kill()
	if second := z.Leader(); second == first {
		t.Error("a server that was killed leads")
	}
	first.StartAgain()
	if !hasNode(t, zooKeeperClient(t, nil, time.Second, first.Addr()), "/n") {
		t.Error("the old leader has lost the node")
	}
	z.Restart(true)
	if !hasNode(t, zooKeeperClient(t, nil, time.Second, z.Endpoints()...), "/n") {
		t.Error("a restart with data lost it")
	}
	z.Restart(false)
	if hasNode(t, zooKeeperClient(t, nil, time.Second, z.Endpoints()...), "/n") {
		t.Error("a restart without data kept it")
	}
}

// A follower that is cut from its leader goes on answering its clients for a while, and
// does not know what the others did since.
func TestZooKeeperIsolate(t *testing.T) {
	t.Parallel()
	z := ZooKeeperIsolable(t, 3)
	leader := z.Leader()
	follower := z.Servers[(slices.Index(z.Servers, leader)+1)%3]
	near, far := zooKeeperClient(t, nil, 2*time.Second, follower.Addr()), zooKeeperClient(t, nil, 2*time.Second, leader.Addr())
	createNode(t, near, "/before")
	heal := z.Isolate(follower)
	createNode(t, far, "/after")
	for _, path := range []string{"/before", "/after"} {
		found, _, err := near.Exists(path)
		if err != nil || found != (path == "/before") {
			t.Errorf("the follower has %s: %t, %v", path, found, err)
		}
	}
	heal()
	if !hasNode(t, near, "/after") {
		t.Error("the follower did not catch up")
	}
}

func TestZooKeeperTLS(t *testing.T) {
	t.Parallel()
	certs := NewCertificates(t)
	s := ZooKeeperTLS(t, certs, true)
	createNode(t, zooKeeperClient(t, certs.Client(t), time.Second, s.Addr()), "/n")
	stranger := certs.Client(t)
	stranger.Certificates = nil
	conn, err := tls.DialWithDialer(&net.Dialer{Timeout: time.Second}, "tcp", s.Addr(), stranger)
	if err == nil {
		defer conn.Close()
		_ = conn.SetReadDeadline(time.Now().Add(5 * time.Second))
		_, err = conn.Read(make([]byte, 1))
	}
	if ne, ok := err.(net.Error); err == nil || ok && ne.Timeout() {
		t.Errorf("it does not turn away a client without a certificate: %v", err)
	}
}

func TestProxyOfZooKeeper(t *testing.T) {
	t.Parallel()
	p := NewProxy(t, ZooKeeper(t).Addr(), ZooKeeperWire)
	c := zooKeeperClient(t, nil, 2*time.Second, p.Addr())
	createNode(t, c, "/n")
	p.LoseReply("setData")
	if _, err := c.Set("/n", []byte("x"), -1); err != zk.ErrConnectionClosed {
		t.Errorf("the reply was not lost: %v", err)
	}
	data, _, err := c.Get("/n")
	if err != nil || string(data) != "x" {
		t.Errorf("the request did not arrive: %q, %v", data, err)
	}
	requests := slices.DeleteFunc(p.Requests(), func(name string) bool { return name == "ping" })
	if want := []string{"connect", "create", "setData", "connect", "getData"}; !slices.Equal(requests, want) {
		t.Errorf("requests %q, want %q", requests, want)
	}
}

func TestZooKeeperWire(t *testing.T) {
	connect := append([]byte{0, 0, 0, 44}, make([]byte, 44)...)
	ping := []byte{0, 0, 0, 8, 0xff, 0xff, 0xff, 0xfe, 0, 0, 0, 11}
	reconfig := []byte{0, 0, 0, 9, 0, 0, 0, 7, 0, 0, 0, 16, 1}
	r := bufio.NewReader(bytes.NewReader(slices.Concat(connect, ping, reconfig, []byte{0, 0, 0, 1})))
	for _, want := range []struct {
		name  string
		frame []byte
	}{{"connect", connect}, {"ping", ping}, {"request of type 16", reconfig}} {
		name, frame, err := ZooKeeperWire(r)
		if err != nil || name != want.name || !bytes.Equal(frame, want.frame) {
			t.Errorf("got %q of %d bytes, %v; want %q of %d", name, len(frame), err, want.name, len(want.frame))
		}
	}
	if _, _, err := ZooKeeperWire(r); err == nil {
		t.Error("a frame without a header is read")
	}
}

func TestZooKeeperClassPath(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("LOCKER_TEST_ZOOKEEPER", "")
	if _, err := zooKeeperClassPath(dir); err == nil || !strings.Contains(err.Error(), "make servers") {
		t.Errorf("with no ZooKeeper: %v", err)
	}
	jar := filepath.Join(dir, "zookeeper.jar")
	if err := os.WriteFile(jar, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if path, err := zooKeeperClassPath(dir); err != nil || !strings.HasPrefix(path, jar) {
		t.Errorf("with the jar of a package: %q, %v", path, err)
	}
	t.Setenv("LOCKER_TEST_ZOOKEEPER", "elsewhere/*")
	if path, err := zooKeeperClassPath(dir); err != nil || path != "elsewhere/*" {
		t.Errorf("with a class path: %q, %v", path, err)
	}
}
