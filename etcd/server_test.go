package etcd_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/locker-go/locker/internal/testbed"
)

// fast makes elections quick, and one second the shortest TTL.
var fast = []string{"--heartbeat-interval", "50", "--election-timeout", "500"}

// program returns the path of an etcd server.
func program(t testing.TB) string {
	t.Helper()
	if path, err := filepath.Abs("../bin/etcd"); err == nil {
		if _, err := os.Stat(path); err == nil {
			return path
		}
	}
	path, err := exec.LookPath("etcd")
	if err == nil {
		return path
	}
	message := "no etcd in bin/ and none is installed: run make test"
	if os.Getenv("LOCKER_TEST_SERVERS") == "require" {
		t.Fatal(message)
	}
	t.Skip(message)
	return ""
}

// startCluster starts the members of a cluster, and waits until each of them serves.
func startCluster(t testing.TB, members int, args ...string) *cluster {
	t.Helper()
	path := program(t)
	peers, names := make([]string, members), make([]string, members)
	for i := range peers {
		peers[i] = "http://" + testbed.Unused(t)
		names[i] = fmt.Sprintf("m%d=%s", i, peers[i])
	}
	c := &cluster{t: t, members: make([]*testbed.Server, members), data: make([]string, members)}
	for i, peer := range peers {
		c.members[i] = testbed.Start(t, testbed.Spec{
			Name: fmt.Sprintf("etcd m%d", i),
			Path: path,
			Args: func(port int, dir string) []string {
				c.data[i] = filepath.Join(dir, "etcd")
				client := fmt.Sprintf("http://127.0.0.1:%d", port)
				own := []string{
					"--name", fmt.Sprintf("m%d", i), "--data-dir", c.data[i],
					"--listen-client-urls", client, "--advertise-client-urls", client,
					"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
					"--initial-cluster", strings.Join(names, ","), "--log-level", "warn",
				}
				return append(own, args...)
			},
			Ready: func(ctx context.Context, addr string) error {
				if members > 1 { // it serves only with the others
					conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
					if err == nil {
						_ = conn.Close()
					}
					return err
				}
				return serves(ctx, addr)
			},
		})
	}
	for _, m := range c.members {
		until(t, m.String()+" serves", func() bool { return serves(t.Context(), m.Addr()) == nil })
	}
	return c
}

// serves returns nil if a member answers as one of a majority.
func serves(ctx context.Context, addr string) error {
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{addr}, Logger: zap.NewNop()})
	if err != nil {
		return err
	}
	defer c.Close()
	_, err = c.Get(ctx, "any")
	return err
}

// cluster is what was started: its members, and where each has its data.
type cluster struct {
	t       testing.TB
	members []*testbed.Server
	data    []string
}

// restart kills all members and starts them again, with their data or with none.
func (c *cluster) restart(keepData bool) {
	c.t.Helper()
	for _, m := range c.members {
		m.Kill()
	}
	for i, m := range c.members {
		if !keepData {
			if err := os.RemoveAll(c.data[i]); err != nil {
				c.t.Fatalf("remove the data of %s: %v", m, err)
			}
		}
		m.StartAgain()
	}
}

func (c *cluster) url() string { return "etcd://" + testbed.Join(c.members) }

func (c *cluster) client() *clientv3.Client {
	addrs := make([]string, len(c.members))
	for i, m := range c.members {
		addrs[i] = m.Addr()
	}
	return connect(c.t, addrs...)
}

// startSecure starts a member that speaks only TLS with clients, and asks them for a
// certificate.
func startSecure(t testing.TB, certs *testbed.Certificates) *testbed.Server {
	t.Helper()
	path, peer := program(t), "http://"+testbed.Unused(t)
	return testbed.Start(t, testbed.Spec{
		Name: "etcd with TLS",
		Path: path,
		Args: func(port int, dir string) []string {
			client := fmt.Sprintf("https://127.0.0.1:%d", port)
			return []string{
				"--data-dir", filepath.Join(dir, "etcd"), "--log-level", "warn",
				"--listen-client-urls", client, "--advertise-client-urls", client,
				"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", "default=" + peer,
				"--cert-file", certs.ServerCert, "--key-file", certs.ServerKey, "--client-cert-auth", "--trusted-ca-file", certs.CA,
			}
		},
		Ready: func(ctx context.Context, addr string) error {
			c, err := clientv3.New(clientv3.Config{Endpoints: []string{"https://" + addr}, TLS: certs.Client(t), Logger: zap.NewNop()})
			if err != nil {
				return err
			}
			defer c.Close()
			_, err = c.Get(ctx, "any")
			return err
		},
	})
}
