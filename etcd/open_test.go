package etcd_test

import (
	"context"
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/locker-go/locker"
	"github.com/locker-go/locker/etcd"
	"github.com/locker-go/locker/internal/testbed"
)

func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		u    url.URL
		want string
	}{
		{"a path", url.URL{Path: "/x"}, "no path"},
		{"an unknown parameter", url.URL{RawQuery: "nonsense=1"}, "namespace, password_file, request_timeout, tls_ca_file"},
		{"no namespace", url.URL{RawQuery: "namespace="}, "must not be empty"},
		{"a namespace with a slash", url.URL{RawQuery: "namespace=a/b"}, "namespace"},
		{"a short limit", url.URL{RawQuery: "request_timeout=1ms"}, "from 10ms to 1m0s"},
		{"a port out of range", url.URL{Host: "h:0"}, "port"},
		{"a user alone", url.URL{User: url.User("u")}, "needs a password"},
		{"TLS files without TLS", url.URL{RawQuery: "tls_ca_file=x"}, "etcds://"},
		{"a CA file that is not there", url.URL{Scheme: "etcds", RawQuery: "tls_ca_file=/does/not/exist"}, "tls_ca_file"},
	} {
		if test.u.Scheme == "" {
			test.u.Scheme = "etcd"
		}
		_, err := etcd.Open(t.Context(), &test.u)
		if !errors.Is(err, locker.ErrInvalid) || !strings.Contains(err.Error(), test.want) {
			t.Errorf("with %s: %v, want an ErrInvalid that has %q", test.name, err, test.want)
		}
	}
}

func TestNewRefusesOptions(t *testing.T) {
	t.Parallel()
	for _, opts := range []etcd.Options{
		{Namespace: "a/b"},
		{RequestTimeout: time.Millisecond},
		{RequestTimeout: time.Hour},
	} {
		if _, err := etcd.New(nil, &opts); !errors.Is(err, locker.ErrInvalid) {
			t.Errorf("New with %+v: %v", opts, err)
		}
	}
}

func TestOpenFailsWhereNobodyAnswers(t *testing.T) {
	t.Parallel()
	_, err := openURL(t.Context(), "etcd://"+testbed.Unused(t)+"?request_timeout=200ms")
	if !errors.Is(err, locker.ErrUnavailable) {
		t.Errorf("got %v, want ErrUnavailable", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := openURL(ctx, "etcd://"+testbed.Unused(t)); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want the context's error", err)
	}
}

// A minority that is down does not keep anybody from opening, or from working.
func TestOneMemberDown(t *testing.T) {
	t.Parallel()
	cluster := startCluster(t, 3, fast...)
	l := open(t, cluster.url())
	lease := mustAcquire(t, l, "k")
	cluster.members[0].Kill()
	var err error
	until(t, "the others go on", func() bool {
		lease, err = l.Renew(t.Context(), lease, testTTL)
		if err != nil && !errors.Is(err, locker.ErrUnavailable) {
			t.Fatal(err)
		}
		return err == nil
	})
	other := open(t, cluster.url())
	if token, err := other.FenceToken(t.Context(), lease); err != nil || token != lease.Token {
		t.Errorf("FenceToken: %d, %v", token, err)
	}
	mustRelease(t, l, lease)
	cluster.members[0].StartAgain()
}

func TestTLS(t *testing.T) {
	t.Parallel()
	certs := testbed.NewCertificates(t)
	server := testbed.EtcdTLS(t, certs, true)
	u := func(query string) *url.URL { return &url.URL{Scheme: "etcds", Host: server.Addr(), RawQuery: query} }
	both := "tls_ca_file=" + certs.CA + "&tls_cert_file=" + certs.ClientCert + "&tls_key_file=" + certs.ClientKey
	l, err := etcd.Open(t.Context(), u(both))
	if err != nil {
		t.Fatal(err)
	}
	mustRelease(t, l, mustAcquire(t, l, "k"))
	closeLocker(t, l.(*etcd.Locker))
	for _, query := range []string{"tls_ca_file=" + certs.CA, "", both[strings.Index(both, "tls_cert_file"):]} {
		if _, err := etcd.Open(t.Context(), u(query+"&request_timeout=500ms")); !errors.Is(err, locker.ErrUnavailable) {
			t.Errorf("Open with %q: %v, want ErrUnavailable", query, err)
		}
	}
}

// A user who may use one namespace can lock there, and nowhere else.
func TestAuthorisation(t *testing.T) {
	t.Parallel()
	cluster := startCluster(t, 1)
	addr, c := cluster.members[0].Addr(), cluster.client()
	const password = "c4n4ry"
	ctx := t.Context()
	prefix := "jobs/"
	_, err := c.RoleAdd(ctx, "jobs")
	_, err2 := c.RoleGrantPermission(ctx, "jobs", prefix, clientv3.GetPrefixRangeEnd(prefix), clientv3.PermissionType(clientv3.PermReadWrite))
	_, err3 := c.UserAdd(ctx, "app", password)
	_, err4 := c.UserGrantRole(ctx, "app", "jobs")
	_, err5 := c.UserAdd(ctx, "root", password)
	_, err6 := c.UserGrantRole(ctx, "root", "root")
	_, err7 := c.AuthEnable(ctx)
	if err := errors.Join(err, err2, err3, err4, err5, err6, err7); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(file, []byte(password+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	u := &url.URL{Scheme: "etcd", Host: addr, User: url.User("app"), RawQuery: "namespace=jobs&password_file=" + url.QueryEscape(file)}
	l, err := etcd.Open(ctx, u)
	if err != nil {
		t.Fatal(err)
	}
	defer closeLocker(t, l.(*etcd.Locker))
	lease := mustAcquire(t, l, "k")
	w := wait(t, l.(*etcd.Locker), "k")
	if _, err := l.Acquire(ctx, "k", testTTL); !errors.Is(err, locker.ErrHeld) {
		t.Errorf("Acquire of a held key: %v", err)
	}
	if lease, err = l.Renew(ctx, lease, 2*testTTL); err != nil {
		t.Errorf("Renew: %v", err)
	}
	mustRelease(t, l, lease)
	mustRelease(t, l, w.granted(t))

	for _, wrong := range []url.URL{
		{User: url.UserPassword("app", password), RawQuery: "namespace=others"},
		{User: url.UserPassword("app", password), RawQuery: "namespace=jobs2"},
		{User: url.UserPassword("app", "not "+password), RawQuery: "namespace=jobs"},
		{RawQuery: "namespace=jobs"},
	} {
		wrong.Scheme, wrong.Host = "etcd", addr
		_, err := etcd.Open(ctx, &wrong)
		if !errors.Is(err, locker.ErrUnavailable) {
			t.Errorf("Open with %s: %v, want ErrUnavailable", wrong.Redacted(), err)
		}
		if err != nil && strings.Contains(err.Error(), password) {
			t.Errorf("the error shows the password: %v", err)
		}
	}
	admin, err := clientv3.New(clientv3.Config{Endpoints: []string{addr}, Username: "root", Password: password, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close()
	if _, err := admin.AuthDisable(ctx); err != nil {
		t.Fatal(err)
	}
}

func TestNamespacesDoNotMeet(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 1).client()
	a, b := on(t, c, &etcd.Options{Namespace: "a"}), on(t, c, &etcd.Options{Namespace: "a.b"})
	first, second := mustAcquire(t, a, "k"), mustAcquire(t, b, "k")
	if _, err := b.FenceToken(t.Context(), first); !errors.Is(err, locker.ErrNotHeld) {
		t.Errorf("another namespace knows the lease: %v", err)
	}
	for h, err := range a.Holdings(t.Context(), "") {
		if err != nil || h.Token != first.Token {
			t.Errorf("Holdings: %v, %v", h, err)
		}
	}
	mustRelease(t, a, first)
	mustRelease(t, b, second)
}
