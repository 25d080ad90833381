package testbed

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

func put(t *testing.T, c *clientv3.Client, key string) {
	t.Helper()
	if _, err := c.Put(t.Context(), key, "1"); err != nil {
		t.Fatal(err)
	}
}

func count(t *testing.T, c *clientv3.Client, key string) int64 {
	t.Helper()
	got, err := c.Get(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	return got.Count
}

func TestEtcdIsBroken(t *testing.T) {
	t.Parallel()
	s := Etcd(t)
	put(t, EtcdClient(t, nil, s.Addr()), "k")
	s.Restart(true)
	if n := count(t, EtcdClient(t, nil, s.Addr()), "k"); n != 1 {
		t.Errorf("after a restart with data: %d keys, want 1", n)
	}
	s.Restart(false)
	if n := count(t, EtcdClient(t, nil, s.Addr()), "k"); n != 0 {
		t.Errorf("after a restart without data: %d keys, want none", n)
	}
	s.Stop()
	s.StartAgain()
	put(t, EtcdClient(t, nil, s.Addr()), "k")
}

func TestEtcdClusterIsBroken(t *testing.T) {
	t.Parallel()
	m := EtcdCluster(t, 3)
	c := EtcdClient(t, nil, m.Endpoints()...)
	before, err := c.Put(t.Context(), "k", "1")
	if err != nil {
		t.Fatal(err)
	}
	first := m.Leader()
	first.Kill()
	if second := m.Leader(); second == first {
		t.Error("a member that was killed leads")
	}
	first.StartAgain()
	if n := count(t, EtcdClient(t, nil, first.Addr()), "k"); n != 1 {
		t.Errorf("the old leader has %d keys, want 1", n)
	}
	m.Replace(m.Leader())
	for _, s := range m.Servers {
		if n := count(t, EtcdClient(t, nil, s.Addr()), "k"); n != 1 {
			t.Errorf("after a member was replaced, %s has %d keys, want 1", s, n)
		}
	}
	m.Restart(true)
	if n := count(t, c, "k"); n != 1 {
		t.Errorf("after a restart with data: %d keys, want 1", n)
	}
	m.Restart(false)
	after, err := c.Get(t.Context(), "k")
	if err != nil {
		t.Fatal(err)
	}
	if after.Count != 0 || after.Header.Revision >= before.Header.Revision {
		t.Errorf("after a restart without data: %d keys at revision %d", after.Count, after.Header.Revision)
	}
	if after.Header.ClusterId != before.Header.ClusterId {
		t.Errorf("the id of the cluster changed from %x to %x", before.Header.ClusterId, after.Header.ClusterId)
	}
}

func TestEtcdTLS(t *testing.T) {
	t.Parallel()
	certs := NewCertificates(t)
	s := EtcdTLS(t, certs, true)
	put(t, EtcdClient(t, certs.Client(t), s.Addr()), "k")
	ReadMetrics(t, s, certs.Client(t)).Sum("etcd_mvcc_put_total")
	stranger := certs.Client(t)
	stranger.Certificates = nil
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if _, err := EtcdClient(t, stranger, s.Addr()).Get(ctx, "k"); err == nil {
		t.Error("it answers a client without a certificate")
	}
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	s := Etcd(t)
	c := EtcdClient(t, nil, s.Addr())
	before := ReadMetrics(t, s, nil)
	if _, err := c.Grant(t.Context(), 60); err != nil {
		t.Fatal(err)
	}
	put(t, c, "k")
	after := ReadMetrics(t, s, nil)
	for _, tt := range []struct {
		name  string
		label []string
		want  float64
	}{
		{"etcd_mvcc_put_total", nil, 1},
		{"etcd_server_proposals_committed_total", nil, 2},
		{"etcd_debugging_lease_granted_total", nil, 1},
		{"etcd_debugging_lease_revoked_total", nil, 0},
		{"etcd_debugging_lease_renewed_total", nil, 0},
		{"grpc_server_handled_total", []string{`grpc_method="Put"`, `grpc_code="OK"`}, 1},
		{"grpc_server_handled_total", []string{`grpc_method="Txn"`}, 0},
	} {
		if got := after.Sum(tt.name, tt.label...) - before.Sum(tt.name, tt.label...); got != tt.want {
			t.Errorf("%s%q rose by %v, want %v", tt.name, tt.label, got, tt.want)
		}
	}
}

// gRPC is no protocol that the proxy knows.
func TestProxyOfEtcd(t *testing.T) {
	t.Parallel()
	p := NewProxy(t, Etcd(t).Addr(), Bytes)
	c := EtcdClient(t, nil, p.Addr())
	put(t, c, "k")
	resume := p.Stall()
	answer := make(chan error, 1)
	go func() { _, err := c.Get(t.Context(), "k"); answer <- err }()
	select {
	case err := <-answer:
		t.Errorf("answered in a stall: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	resume()
	if err := <-answer; err != nil {
		t.Errorf("after the stall: %v", err)
	}
	p.Cut()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := c.Get(ctx, "k"); err == nil {
		t.Error("answered although it was cut")
	}
	p.Heal()
	if n := count(t, c, "k"); n != 1 {
		t.Errorf("after Heal: %d keys, want 1", n)
	}
}

func TestEtcdBackup(t *testing.T) {
	t.Parallel()
	m := EtcdCluster(t, 1)
	c := EtcdClient(t, nil, m.Endpoints()...)
	put(t, c, "old")
	restore := m.Backup()
	put(t, c, "new")
	restore()
	if old, young := count(t, c, "old"), count(t, c, "new"); old != 1 || young != 0 {
		t.Errorf("after the restoration: %d keys from before the backup and %d from after it, want 1 and none", old, young)
	}
}

func TestEtcdProgram(t *testing.T) {
	root := t.TempDir()
	program := func(dir string) string {
		t.Helper()
		path := filepath.Join(root, dir, "etcd")
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o700); err != nil {
			t.Fatal(err)
		}
		return path
	}
	named, built, installed := program("named"), program("module/bin"), program("path")
	if err := os.WriteFile(filepath.Join(root, "module", "go.mod"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	below := filepath.Join(root, "module", "a", "b")
	for _, tt := range []struct{ env, dir, path, want, err string }{
		{named, below, filepath.Dir(installed), named, ""},
		{"", below, filepath.Dir(installed), built, ""},
		{"", root, filepath.Dir(installed), installed, ""},
		{"", root, "", "", "make servers"},
		{filepath.Join(root, "nowhere"), below, filepath.Dir(installed), "", "LOCKER_TEST_ETCD"},
	} {
		t.Setenv("LOCKER_TEST_ETCD", tt.env)
		t.Setenv("PATH", tt.path)
		got, err := etcdProgram(tt.dir)
		if got != tt.want || (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
			t.Errorf("%+v: got %q, %v", tt, got, err)
		}
	}
}
