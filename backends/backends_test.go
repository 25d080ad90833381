package backends_test

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/locker-go/locker"
	"github.com/locker-go/locker/backends"
	"github.com/locker-go/locker/memory"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const canary = "c4n4ry"

// closing is a Locker that tells whether it was closed.
type closing struct {
	locker.Locker
	closed *bool
}

func (c closing) Close() error { *c.closed = true; return nil }

func TestOpenBuiltIn(t *testing.T) {
	for _, rawURL := range []string{"memory://", "MEMORY://?namespace=a", "file://" + t.TempDir()} {
		client, err := backends.Open(t.Context(), rawURL, &locker.Options{TTL: time.Minute})
		if err != nil {
			t.Fatalf("Open(%q): %v", rawURL, err)
		}
		err = client.Do(t.Context(), "k", func(_ context.Context, lease locker.Lease) error {
			if lease.Token == 0 || lease.TTL < time.Minute {
				t.Errorf("%s granted %v", rawURL, lease)
			}
			return nil
		})
		if err := errors.Join(err, client.Close()); err != nil {
			t.Errorf("%s: %v", rawURL, err)
		}
	}
}

func TestUnknownSchemeNamesTheKnownOnes(t *testing.T) {
	_, err := backends.OpenLocker(t.Context(), "redsi://localhost")
	if !errors.Is(err, locker.ErrInvalid) {
		t.Fatalf("got %v, want ErrInvalid", err)
	}
	for _, want := range []string{`"redsi"`, "etcd, etcds, file, memory, redis, redis+cluster, redis+sentinel, rediss, redlock, zookeeper"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q does not mention %s", err, want)
		}
	}
}

func TestWrongTTLIsAnErrorAtOpenTime(t *testing.T) { // dkron#93: it was found at run time
	_, err := backends.Open(t.Context(), "memory://", &locker.Options{TTL: time.Millisecond})
	if !errors.Is(err, locker.ErrInvalid) || !strings.Contains(err.Error(), "10ms") {
		t.Errorf("got %v, want ErrInvalid with the range", err)
	}
}

func TestRegistry(t *testing.T) {
	var (
		r      backends.Registry
		closed bool
		host   string
	)
	open := func(_ context.Context, u *url.URL) (locker.Locker, error) {
		host = u.Host
		return closing{memory.New(nil), &closed}, nil
	}
	if err := r.Register("mine+tls", open); err != nil {
		t.Fatal(err)
	}
	for _, scheme := range []string{"", "Mine", "a b", "1a", "a:", "redis", "memory", "mine+tls"} {
		if err := r.Register(scheme, open); !errors.Is(err, locker.ErrInvalid) {
			t.Errorf("Register(%q) = %v, want ErrInvalid", scheme, err)
		}
	}
	if err := r.Register("nothing", nil); !errors.Is(err, locker.ErrInvalid) {
		t.Errorf("Register with no opener = %v, want ErrInvalid", err)
	}
	client, err := r.OpenClient(t.Context(), "mine+tls://u:p@h1:1,h2", nil)
	if err != nil {
		t.Fatal(err)
	}
	if host != "h1:1,h2" {
		t.Errorf("the opener got the hosts %q", host)
	}
	if err := client.Close(); err != nil || !closed {
		t.Errorf("Close = %v, and closed what was opened: %t", err, closed)
	}
	if _, err := backends.OpenLocker(t.Context(), "mine+tls://h"); !errors.Is(err, locker.ErrInvalid) {
		t.Errorf("a scheme of one Registry is known elsewhere: %v", err)
	}
}

// unparsable have a password where url.Parse shows it in its error, or takes it for
// something that a backend would show.
var unparsable = []string{
	canary,
	"redis:" + canary,
	"user:" + canary + "@host:6379",
	"://" + canary,
	"re dis://u:" + canary + "@h",
	"redis://h:" + canary,
	"redis://u:" + canary + "@h:x" + canary,
	"redis://u:" + canary + "@h1:1,h2:x" + canary,
	"redis://u:" + canary + "@h1,,h2",
	"redis://u:" + canary + "@h1," + canary + "[",
	"redis://u:" + canary + "%zz@h",
	"redis://u:%zz" + canary + "@h1,h2",
	"redis://u:#" + canary + "@h",
	"redis://u:?" + canary + "@h",
	"redis://u:1?" + canary + "@h",
	"redis://u:1/" + canary + "@h",
	"redis://?" + canary + "@h",
	"redis://u:a@b?" + canary + "@h",
	"redis://u:p" + canary + "#@h",
	"redis://u:" + canary + "\n@h",
	"redis://u:" + canary + "\x7f@h",
	"redis://[" + canary,
	"redis://u:" + canary + "@[::1",
}

// wrong can be parsed, and are refused by the backend.
var wrong = []string{
	"redis://u:" + canary + "@h?nonsense=1",
	"redis://h?password=" + canary,
	"redis://h?%zz=" + canary,
	"redis://h#" + canary,
	"redis://u:" + canary + "@h/x",
	"redis://u:" + canary + "@h1,h2",
	"redis+sentinel://u:" + canary + "@h1,h2",
	"redis+cluster://u:" + canary + "@h:0",
	"redlock://u:" + canary + "@h1,h2",
	"redlock://u:" + canary + "@h1,h2,h3/x",
	"redlock://u:" + canary + "@h1,h2,h3?nonsense=1",
	"etcd://u:" + canary + "@h1,h2/x",
	"etcd://u:" + canary + "@h?nonsense=1",
	"etcd://" + canary + "@h",
	"etcds://u:" + canary + "@h1,h2:0",
	"zookeeper://u:" + canary + "@h1,h2/a//b",
	"zookeeper://u:" + canary + "@h?nonsense=1",
	"file://u:" + canary + "@/tmp",
	"file://" + canary,
	"memory://u:" + canary + "@",
	"memory:///" + canary,
	"nonsense://u:" + canary + "@h/" + canary + "?a=" + canary,
}

func TestNoErrorShowsAPassword(t *testing.T) {
	for _, rawURL := range append(unparsable, wrong...) {
		_, err := backends.OpenLocker(t.Context(), rawURL)
		if !errors.Is(err, locker.ErrInvalid) {
			t.Errorf("OpenLocker(%q) = %v, want ErrInvalid", rawURL, err)
			continue
		}
		for e := err; e != nil; e = errors.Unwrap(e) {
			if strings.Contains(e.Error(), canary) {
				t.Errorf("the error for %q shows the password: %v", rawURL, e)
			}
		}
	}
}

func TestRedact(t *testing.T) {
	for _, test := range []struct{ rawURL, want string }{
		{"redis://h:6379/1", "redis://h:6379/1"},
		{"REDIS://user:" + canary + "@h1:1,h2/0", "redis://user:xxxxx@h1:1,h2/0"},
		{"redis://:" + canary + "@h", "redis://:xxxxx@h"},
		{"redis://" + canary + "@h", "redis://xxxxx@h"},
		{"redis://h?password=" + canary + "&namespace=n", "redis://h?namespace=n&password=xxxxx"},
		{"redis://h?password_file=/run/secret&apikey=" + canary, "redis://h?apikey=xxxxx&password_file=%2Frun%2Fsecret"},
		{"redis://h?%zz" + canary, "redis://h?xxxxx"},
		{"redis://h#" + canary, "redis://h#xxxxx"},
		{"file:///var/lib/a@b", "file:///var/lib/a@b"},
		{"redis://h:" + canary, "redis://xxxxx"},
		{canary, "xxxxx"},
	} {
		if got := backends.Redact(test.rawURL); got != test.want {
			t.Errorf("Redact(%q) = %q, want %q", test.rawURL, got, test.want)
		}
	}
	for _, rawURL := range unparsable {
		if got := backends.Redact(rawURL); strings.Contains(got, canary) {
			t.Errorf("Redact(%q) = %q", rawURL, got)
		}
	}
}

func TestHostLists(t *testing.T) {
	var got *url.URL
	var r backends.Registry
	err := r.Register("x", func(_ context.Context, u *url.URL) (locker.Locker, error) {
		got = u
		return memory.New(nil), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, hosts := range []string{"h", "h:1", "h1,h2", "h1:1,h2", "h1,h2:2", "h1:1,h2:2", "[::1]:1,[::2]:2", "[::1],h"} {
		got = nil
		if _, err := r.Open(t.Context(), "x://u:p%40@"+hosts+"/path?a=b"); err != nil {
			t.Errorf("the hosts %s: %v", hosts, err)
			continue
		}
		if password, _ := got.User.Password(); got.Host != hosts || password != "p@" || got.Path != "/path" || got.RawQuery != "a=b" {
			t.Errorf("the hosts %s became %q, the password %q, the path %q, the query %q", hosts, got.Host, password, got.Path, got.RawQuery)
		}
	}
}

func FuzzNothingShowsAPassword(f *testing.F) {
	f.Add("u", "p", "h1:1,h2", "/x")
	f.Add("a@b", "/?#", "[::1]", "?a=%zz")
	var r backends.Registry // whose backends show all of the URL but its user information
	err := r.Register("x", func(_ context.Context, u *url.URL) (locker.Locker, error) {
		u.User = nil
		return nil, errors.New(u.String())
	})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, user, password, host, tail string) {
		if strings.HasPrefix(user, "/") {
			return // no host, but a path, in which an @ is an @
		}
		rawURL := "x://" + user + ":" + canary + password + "@" + host + tail
		if got := backends.Redact(rawURL); strings.Contains(got, canary) {
			t.Errorf("Redact(%q) = %q", rawURL, got)
		}
		if _, err := r.Open(t.Context(), rawURL); err == nil || strings.Contains(err.Error(), canary) {
			t.Errorf("Open(%q) = %v", rawURL, err)
		}
	})
}
