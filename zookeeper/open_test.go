package zookeeper_test

import (
	"context"
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/locker-go/locker"
	"github.com/locker-go/locker/internal/testbed"
	"github.com/locker-go/locker/zookeeper"
)

func TestOpenRefuses(t *testing.T) {
	for rawURL, want := range map[string]string{
		"h?nonsense=1":              "known are create_chroot, namespace",
		"h?session_timeout=10ms":    "from 100ms to 1h",
		"h?session_timeout=2h":      "from 100ms to 1h",
		"h?request_timeout=1ms":     "from 10ms to 1m",
		"h?tick_time=-1s":           "from 0s to 1m",
		"h?namespace=":              "must not be empty",
		"h?namespace=a/b":           "namespace",
		"h?namespace=..":            "no name of a node",
		"h?create_chroot=maybe":     "one of true, false",
		"h?tls_ca_file=x":           "use tls=true",
		"h?tls=true&tls_ca_file=no": "no such file",
		"h/a//b":                    "/name/name",
		"h/a/../b":                  "/name/name",
		"h/a%20b":                   "/name/name",
		"h:0":                       "port from 1",
		"user@h":                    "a user needs a password",
		"h?password_file=/dev/null": "",
		"a:b:c@h":                   "",
	} {
		path, query, _ := strings.Cut(rawURL, "?")
		host, path, _ := strings.Cut(path, "/")
		u := &url.URL{Scheme: "zookeeper", Host: host, RawQuery: query}
		if path != "" {
			u.Path = "/" + path
		}
		if user, rest, ok := strings.Cut(host, "@"); ok {
			u.Host = rest
			u.User = url.User(user)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		_, err := zookeeper.Open(ctx, u)
		cancel()
		if want == "" {
			continue // only not to crash
		}
		if !errors.Is(err, locker.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want ErrInvalid that says %q", rawURL, err, want)
		}
	}
}

func TestNewRefuses(t *testing.T) {
	for _, opts := range []zookeeper.Options{
		{Namespace: "a b"}, {Namespace: "."}, {Chroot: "a"}, {Chroot: "/a/"}, {Chroot: "//"}, {Chroot: "/a\x00"},
		{RequestTimeout: 1}, {RequestTimeout: time.Hour}, {TickTime: -1}, {TickTime: time.Hour},
	} {
		if _, err := zookeeper.New(new(zookeeper.Dialer), &opts); !errors.Is(err, locker.ErrInvalid) {
			t.Errorf("New with %+v: %v", opts, err)
		}
	}
}

func TestOpenUnreachable(t *testing.T) {
	t.Parallel()
	for _, hosts := range []string{testbed.Unused(t), testbed.Unused(t) + "," + testbed.Unused(t)} {
		_, err := openURL(t.Context(), "zookeeper://"+hosts+"?request_timeout=200ms")
		if !errors.Is(err, locker.ErrUnavailable) || !strings.Contains(err.Error(), "refused") {
			t.Errorf("Open: %v", err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := openURL(ctx, "zookeeper://"+testbed.Unused(t)); !errors.Is(err, context.Canceled) {
		t.Errorf("Open with a context that has ended: %v", err)
	}
}

// What is no ZooKeeper ends the opening too.
func TestOpenSomethingElse(t *testing.T) {
	t.Parallel()
	redis := testbed.Redis(t)
	if _, err := openURL(t.Context(), "zookeeper://"+redis.Addr()+"?request_timeout=500ms"); !errors.Is(err, locker.ErrUnavailable) {
		t.Errorf("Open: %v", err)
	}
}

func TestTLS(t *testing.T) {
	t.Parallel()
	certs := testbed.NewCertificates(t)
	server := testbed.ZooKeeperTLS(t, certs, true)
	addr := strings.Replace(server.Addr(), "127.0.0.1", "localhost", 1) // names reach the certificate's check
	l := open(t, "zookeeper://"+addr+"?tls=true&tls_ca_file="+certs.CA+"&tls_cert_file="+certs.ClientCert+"&tls_key_file="+certs.ClientKey)
	mustRelease(t, l, mustAcquire(t, l, "k"))
	for name, query := range map[string]string{
		"without a certificate": "tls=true&tls_ca_file=" + certs.CA,
		"without its authority": "tls=true",
		"without TLS":           "tls=false",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := openURL(t.Context(), "zookeeper://"+addr+"?request_timeout=500ms&"+query)
			if !errors.Is(err, locker.ErrUnavailable) {
				t.Errorf("Open: %v", err)
			}
		})
	}
}

// Nodes of a user are of no use to others.
func testUsers(t *testing.T, b *bed) {
	password := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(password, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	mine := "zookeeper://app:secret@" + b.proxy.Addr() + "?namespace=" + b.namespace
	l := open(t, mine)
	lease := mustAcquire(t, l, "k")
	b.proxy.Reset() // it says who it is at each connection
	until(t, "the client is back", func() bool {
		_, err := l.FenceToken(t.Context(), lease)
		if err != nil && errors.Is(err, zk.ErrNoAuth) {
			t.Fatal(err)
		}
		return err == nil
	})
	u := &url.URL{Scheme: "zookeeper", Host: b.server.Addr(), User: url.User("app"), RawQuery: "namespace=" + b.namespace + "&password_file=" + password}
	same, err := zookeeper.Open(t.Context(), u)
	if err != nil {
		t.Fatal(err)
	}
	defer closeLocker(t, same.(*zookeeper.Locker))
	if _, err := same.Acquire(t.Context(), "k", testTTL); !errors.Is(err, locker.ErrHeld) {
		t.Errorf("another client of the same user: %v", err)
	}
	mustRelease(t, l, lease)
	for _, user := range []string{"", "app:wrong@", "other:secret@"} {
		_, err := openURL(t.Context(), "zookeeper://"+user+b.server.Addr()+"?namespace="+b.namespace)
		if !errors.Is(err, locker.ErrUnavailable) || !errors.Is(err, zk.ErrNoAuth) || strings.Contains(err.Error(), "secret") {
			t.Errorf("the user %q: %v", user, err)
		}
	}
	app := driver(t, time.Minute, &zookeeper.Dialer{Auth: []zookeeper.Auth{{Scheme: "digest", Data: []byte("app:secret")}}}, b.server.Addr())
	for _, path := range []string{"/" + b.namespace, "/" + b.namespace + "/base", "/" + b.namespace + "/queue"} {
		acl, _, err := app.GetACL(path)
		if err != nil || len(acl) != 1 || acl[0].Scheme != "digest" {
			t.Errorf("%s may be used by %v, %v", path, acl, err)
		}
	}
}

func testChroot(t *testing.T, b *bed) {
	at := func(query string) string {
		return "zookeeper://user:password@" + b.server.Addr() + "/" + b.namespace + "/a/b?" + query
	}
	_, err := openURL(t.Context(), at("create_chroot=false"))
	if !errors.Is(err, locker.ErrUnavailable) || !strings.Contains(err.Error(), "/a/b does not exist") {
		t.Errorf("without the chroot: %v", err)
	}
	l := open(t, at(""))
	mustRelease(t, l, mustAcquire(t, l, "k"))
	user := driver(t, time.Minute, &zookeeper.Dialer{Auth: []zookeeper.Auth{{Scheme: "digest", Data: []byte("user:password")}}}, b.server.Addr())
	for path, scheme := range map[string]string{"": "world", "/a": "world", "/a/b": "digest", "/a/b/locker": "digest"} {
		acl, _, err := user.GetACL("/" + b.namespace + path)
		if err != nil || len(acl) != 1 || acl[0].Scheme != scheme {
			t.Errorf("%s may be used by %v, %v; want %s", path, acl, err, scheme)
		}
	}
	same := open(t, at("create_chroot=false"))
	lease := mustAcquire(t, same, "k")
	if _, err := l.Acquire(t.Context(), "k", testTTL); !errors.Is(err, locker.ErrHeld) {
		t.Errorf("another client of the same chroot: %v", err)
	}
	mustRelease(t, same, lease)
}
