package testbed

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// etcdProgram returns the path of etcd for a test in dir: what LOCKER_TEST_ETCD names,
// else what make servers has built in a module around dir, else what is installed.
func etcdProgram(dir string) (string, error) {
	if path := os.Getenv("LOCKER_TEST_ETCD"); path != "" {
		path, err := exec.LookPath(path)
		if err != nil {
			return "", fmt.Errorf("LOCKER_TEST_ETCD: %w", err)
		}
		return path, nil
	}
	for ; dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err != nil {
			continue
		}
		if path, err := exec.LookPath(filepath.Join(dir, "bin", "etcd")); err == nil {
			return path, nil
		}
	}
	path, err := exec.LookPath("etcd")
	if err != nil {
		return "", fmt.Errorf("no etcd is built or installed: run make servers, or make test: %w", err)
	}
	return path, nil
}

// EtcdMembers are the members of an etcd cluster.
type EtcdMembers struct {
	t       testing.TB
	program string
	args    []string
	certs   *Certificates // nil without TLS
	peers   []string      // URLs, in the order of Servers
	joining bool          // the member that starts joins a cluster that exists

	Servers []*Server
}

// Etcd starts a cluster of one member, with more arguments. It elects within half a
// second, so that the shortest lease is 1 s instead of 2 s.
func Etcd(t testing.TB, args ...string) *Server {
	t.Helper()
	return EtcdCluster(t, 1, args...).Servers[0]
}

// EtcdTLS starts an etcd that speaks only TLS with clients, with the certificates,
// and asks them for one if mutual.
func EtcdTLS(t testing.TB, certs *Certificates, mutual bool) *Server {
	t.Helper()
	args := []string{"--cert-file=" + certs.ServerCert, "--key-file=" + certs.ServerKey}
	if mutual {
		args = append(args, "--client-cert-auth", "--trusted-ca-file="+certs.CA)
	}
	return startEtcd(t, 1, certs, args).Servers[0]
}

// EtcdCluster starts a cluster of n members, with more arguments.
func EtcdCluster(t testing.TB, n int, args ...string) *EtcdMembers {
	t.Helper()
	return startEtcd(t, n, nil, args)
}

func startEtcd(t testing.TB, n int, certs *Certificates, args []string) *EtcdMembers {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	program, err := etcdProgram(dir)
	if err != nil {
		missing(t, err.Error())
	}
	m := &EtcdMembers{t: t, program: program, args: args, certs: certs}
	for range n {
		m.peers = append(m.peers, "http://"+loopback(reservePort(t)))
	}
	for i := range n {
		m.Servers = append(m.Servers, Start(t, m.spec(i)))
	}
	m.awaitAll()
	return m
}

func etcdName(i int) string { return fmt.Sprintf("m%d", i) }

func (m *EtcdMembers) spec(i int) Spec {
	return Spec{
		Name: "etcd",
		Path: m.program,
		Args: func(port int, dir string) []string { return m.arguments(i, port, dir) },
		Ready: func(ctx context.Context, addr string) error {
			if running := 1 + m.othersRunning(addr); running <= len(m.peers)/2 {
				return dials(ctx, strings.TrimPrefix(m.peers[i], "http://")) // alone it does not serve clients
			}
			return m.serves(ctx, addr)
		},
	}
}

// arguments returns those of member i. Of an argument that comes twice the last counts.
func (m *EtcdMembers) arguments(i, port int, dir string) []string {
	scheme, state := "http://", "new"
	if m.certs != nil {
		scheme = "https://"
	}
	if m.joining {
		state = "existing"
	}
	var cluster []string
	for i, peer := range m.peers {
		cluster = append(cluster, etcdName(i)+"="+peer)
	}
	return append([]string{
		"--name=" + etcdName(i), "--data-dir=" + dir, "--log-level=warn",
		"--listen-client-urls=" + scheme + loopback(port), "--advertise-client-urls=" + scheme + loopback(port),
		"--listen-peer-urls=" + m.peers[i], "--initial-advertise-peer-urls=" + m.peers[i],
		"--initial-cluster=" + strings.Join(cluster, ","), "--initial-cluster-state=" + state,
		"--heartbeat-interval=50", "--election-timeout=500",
		"--unsafe-no-fsync",             // a killed process leaves its data to the kernel
		"--strict-reconfig-check=false", // else members of a cluster younger than 5 s cannot be replaced
		"--enable-grpc-gateway=false",
	}, m.args...)
}

func (m *EtcdMembers) othersRunning(addr string) int {
	n := 0
	for _, s := range m.Servers {
		if s.Addr() != addr && s.cmd != nil {
			n++
		}
	}
	return n
}

func dials(ctx context.Context, addr string) error {
	probe, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	return probe.Close()
}

// serves returns nil if the member at addr answers a linearizable read, also if it
// wants a password for it.
func (m *EtcdMembers) serves(ctx context.Context, addr string) error {
	if err := dials(ctx, addr); err != nil { // the client would try again by a slow schedule
		return err
	}
	c, err := newEtcdClient(m.clientTLS(), addr)
	if err != nil {
		return err
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	if _, err = c.Get(ctx, "ready"); errors.Is(err, rpctypes.ErrUserEmpty) {
		return nil
	}
	return err
}

func (m *EtcdMembers) awaitAll() {
	m.t.Helper()
	for _, s := range m.Servers {
		until(m.t, s.String()+" serves", func(ctx context.Context) error { return m.serves(ctx, s.Addr()) })
	}
}

func (m *EtcdMembers) clientTLS() *tls.Config {
	if m.certs == nil {
		return nil
	}
	return m.certs.Client(m.t)
}

// Endpoints returns the addresses at which the members serve clients.
func (m *EtcdMembers) Endpoints() []string { return addrs(m.Servers) }

// Leader returns the member that leads, once there is one.
func (m *EtcdMembers) Leader() *Server {
	m.t.Helper()
	var leader *Server
	until(m.t, "a member leads", func(ctx context.Context) error {
		c, err := newEtcdClient(m.clientTLS(), m.Endpoints()...)
		if err != nil {
			return err
		}
		defer c.Close()
		for _, s := range m.Servers {
			if s.cmd == nil || dials(ctx, s.Addr()) != nil {
				continue
			}
			ctx, cancel := context.WithTimeout(ctx, time.Second)
			status, err := c.Status(ctx, s.Addr())
			cancel()
			if err == nil && status.Leader == status.Header.MemberId {
				leader = s
				return nil
			}
		}
		return errors.New("none says so")
	})
	return leader
}

// Restart kills all members and starts them again on the same ports, with the data
// that they keep or with none. The cluster's id stays.
func (m *EtcdMembers) Restart(keepData bool) {
	m.t.Helper()
	m.restart(func(s *Server) {
		if !keepData {
			s.wipe()
		}
	})
}

// Backup restarts all members and copies their data meanwhile. The function that it
// returns restarts them with the copy, as one restores a backup: what was written in
// between is gone, and revisions are given out again.
func (m *EtcdMembers) Backup() (restore func()) {
	m.t.Helper()
	copies := make(map[*Server]string)
	m.restart(func(s *Server) {
		copies[s] = filepath.Join(m.t.TempDir(), "backup")
		s.copyData(copies[s], s.dir)
	})
	return func() {
		m.t.Helper()
		m.restart(func(s *Server) {
			s.wipe()
			s.copyData(s.dir, copies[s])
		})
	}
}

// restart kills all members that run, and starts all after what is to be done to each.
func (m *EtcdMembers) restart(while func(*Server)) {
	m.t.Helper()
	for _, s := range m.Servers {
		if s.cmd != nil {
			s.Kill()
		}
	}
	for _, s := range m.Servers {
		while(s)
		s.StartAgain()
	}
	m.awaitAll()
}

// Replace wipes one member, while the others serve, and has it join as a new one on
// the same ports: etcd takes none back that forgot what it confirmed.
func (m *EtcdMembers) Replace(s *Server) {
	m.t.Helper()
	i := slices.Index(m.Servers, s)
	if s.cmd != nil {
		s.Kill()
	}
	s.wipe()
	others := slices.DeleteFunc(m.Endpoints(), func(addr string) bool { return addr == s.Addr() })
	c, err := newEtcdClient(m.clientTLS(), others...)
	if err != nil {
		m.t.Fatal(err)
	}
	defer c.Close()
	var id uint64
	// It may have led, and the others may still be electing.
	until(m.t, s.String()+" is a member no more", func(ctx context.Context) error {
		list, err := c.MemberList(ctx)
		if err != nil {
			return err
		}
		for _, member := range list.Members {
			if slices.Contains(member.PeerURLs, m.peers[i]) {
				id = member.ID
				_, err = c.MemberRemove(ctx, id)
				return errors.Join(err, errors.New("to be removed"))
			}
		}
		return nil
	})
	until(m.t, s.String()+" is a member again", func(ctx context.Context) error {
		_, err := c.MemberAdd(ctx, []string{m.peers[i]})
		if errors.Is(err, rpctypes.ErrPeerURLExist) {
			return nil
		}
		return err
	})
	m.joining = true
	s.StartAgain()
	m.joining = false
}

// EtcdClient returns a client without a log, which ends with the test. The
// configuration may be nil.
func EtcdClient(t testing.TB, config *tls.Config, endpoints ...string) *clientv3.Client {
	t.Helper()
	c, err := newEtcdClient(config, endpoints...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func newEtcdClient(config *tls.Config, endpoints ...string) (*clientv3.Client, error) {
	return clientv3.New(clientv3.Config{Endpoints: endpoints, TLS: config, Logger: zap.NewNop()})
}
