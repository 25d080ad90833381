package backends_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/locker-go/locker"
	"github.com/locker-go/locker/backends"
	"github.com/locker-go/locker/conformance"
	"github.com/locker-go/locker/memory"
)

// stores is a Registry whose scheme test:// opens, by host, a store of this process.
type stores struct {
	backends.Registry
	mu     sync.Mutex
	byHost map[string]*memory.Store
	opened []string // URLs
	closed []string // hosts
}

// store is a client that records that it is closed. What it has besides Locker is
// told by its type.
type store struct {
	locker.Locker
	host string
	all  *stores
}

func (s *store) Close() error {
	s.all.mu.Lock()
	defer s.all.mu.Unlock()
	s.all.closed = append(s.all.closed, s.host)
	if strings.HasPrefix(s.host, "fails") {
		return errors.New("closing " + s.host + " failed")
	}
	return nil
}

// wide has all optional interfaces too.
type wide struct {
	*store
	locker.Waiter
	locker.Admin
}

func newStores(t *testing.T) *stores {
	s := &stores{byHost: make(map[string]*memory.Store)}
	err := s.Register("test", func(_ context.Context, u *url.URL) (locker.Locker, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.opened = append(s.opened, u.String())
		if u.Host == "down" {
			return nil, fmt.Errorf("%w: it is down", locker.ErrUnavailable)
		}
		if s.byHost[u.Host] == nil {
			s.byHost[u.Host] = new(memory.Store)
		}
		l := memory.New(s.byHost[u.Host])
		narrow := &store{struct{ locker.Locker }{l}, u.Host, s}
		if strings.HasPrefix(u.Host, "narrow") {
			return narrow, nil
		}
		return wide{narrow, l, l}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// at returns a client of one of the stores alone.
func (s *stores) at(host string) *memory.Locker {
	s.mu.Lock()
	defer s.mu.Unlock()
	return memory.New(s.byHost[host])
}

func (s *stores) open(t *testing.T, c backends.Config) locker.Locker {
	t.Helper()
	l, err := s.OpenConfig(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// The keys of the suite are conformance/ and 26 random characters, of which about half
// have an M.
func suiteRoutes(urls ...string) backends.Config {
	return backends.Config{URL: urls[0], Routes: []backends.Route{{Keys: "*/a", URL: urls[1]}, {Keys: "*M*", URL: urls[2]}}}
}

func TestConformanceOfRoutes(t *testing.T) {
	for name, config := range map[string]backends.Config{
		"wide":   suiteRoutes("test://a", "test://b", "test://c"),
		"narrow": suiteRoutes("test://narrow-a", "test://narrow-b", "test://narrow-c"), // without Admin and Waiter
		"files":  suiteRoutes("file://"+t.TempDir(), "file://"+t.TempDir(), "memory://?namespace=routes"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStores(t)
			conformance.Run(t, conformance.Backend{
				Open: func(ctx context.Context) (locker.Locker, error) { return s.OpenConfig(ctx, config) },
				TTL:  500 * time.Millisecond,
			})
		})
	}
}

func TestKeysGoWhereTheirRoutesSay(t *testing.T) {
	s := newStores(t)
	l := s.open(t, backends.Config{URL: "test://rest", Routes: []backends.Route{
		{Keys: "a/b/*", URL: "test://first"},
		{Keys: "a/*", URL: "test://second"},
		{Keys: "leader", URL: "test://first"},
	}})
	for key, host := range map[string]string{
		"a/b/c": "first", "a/b/": "first", "a/b": "second", "a/": "second", "a": "rest", "leader": "first", "leader/": "rest", "é": "rest",
	} {
		lease, err := l.Acquire(t.Context(), key, time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		for _, h := range []string{"first", "second", "rest"} {
			if _, err := s.at(h).FenceToken(t.Context(), lease); (err == nil) != (h == host) {
				t.Errorf("%q in the store %s: %v", key, h, err)
			}
		}
	}
	if want := []string{"test://first", "test://second", "test://rest"}; !slices.Equal(s.opened, want) {
		t.Errorf("opened %v, want %v: each once", s.opened, want)
	}
}

func TestNamespaces(t *testing.T) {
	s := newStores(t)
	s.open(t, backends.Config{URL: "test://h?a=b", Namespace: "all", Routes: []backends.Route{
		{Keys: "1", URL: "test://h1"},
		{Keys: "2", URL: "test://h2?namespace=its-own"},
		{Keys: "3", URL: "test://h3", Namespace: "routes"},
		{Keys: "4", URL: "test://h4?namespace="},
		{Keys: "5", URL: "test://h?a=b", Namespace: "another"},
		{Keys: "6", URL: "TEST://h?a=b", Namespace: "all"},
	}})
	want := []string{
		"test://h1?namespace=all", "test://h2?namespace=its-own", "test://h3?namespace=routes", "test://h4?namespace=",
		"test://h?a=b&namespace=another", "test://h?a=b&namespace=all",
	}
	if !slices.Equal(s.opened, want) {
		t.Errorf("opened\n%v, want\n%v", s.opened, want)
	}
	s.opened = nil
	s.open(t, backends.Config{URL: "test://h", Namespace: "n"})
	if want := []string{"test://h?namespace=n"}; !slices.Equal(s.opened, want) {
		t.Errorf("opened %v, want %v", s.opened, want)
	}
}

func TestWithoutRoutesItIsTheBackendItself(t *testing.T) {
	l, err := new(backends.Registry).OpenConfig(t.Context(), backends.Config{URL: "memory://"})
	if _, ok := l.(*memory.Locker); err != nil || !ok {
		t.Errorf("got a %T and %v", l, err)
	}
}

// holdings returns the keys that are yielded, sorted, and the error at the end.
func holdings(t *testing.T, l locker.Locker, prefix string) (keys []string, err error) {
	t.Helper()
	admin, ok := locker.As[locker.Admin](l)
	if !ok {
		t.Fatal("it is no Admin")
	}
	for h, e := range admin.Holdings(t.Context(), prefix) {
		if err != nil {
			t.Error("it goes on after an error")
		}
		if e != nil {
			err = e
			continue
		}
		keys = append(keys, h.Key)
	}
	slices.Sort(keys)
	return keys, err
}

func TestHoldingsOfRoutes(t *testing.T) {
	s := newStores(t)
	l := s.open(t, backends.Config{URL: "test://rest", Routes: []backends.Route{
		{Keys: "a/b/*", URL: "test://first"},
		{Keys: "narrow/*", URL: "test://narrow"},
		{Keys: "a/*", URL: "test://second"},
	}})
	for _, key := range []string{"a/b/1", "a/c", "b", "narrow/1"} {
		if _, err := l.Acquire(t.Context(), key, time.Minute); err != nil {
			t.Fatal(err)
		}
	}
	// A lock that was taken where the key is not routed to any more is another's.
	if _, err := s.at("rest").Acquire(t.Context(), "a/old", time.Minute); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		prefix string
		want   []string
		fails  bool // since it cannot tell all
	}{
		{"a/", []string{"a/b/1", "a/c"}, false},
		{"a/b/", []string{"a/b/1"}, false},
		{"b", []string{"b"}, false},
		{"narrow", nil, true},
		{"narrow/", nil, true},
		{"", []string{"a/b/1", "a/c", "b"}, true},
	} {
		got, err := holdings(t, l, test.prefix)
		if !slices.Equal(got, test.want) || (err != nil) != test.fails || err != nil && !errors.Is(err, locker.ErrInvalid) {
			t.Errorf("%q: got %v and %v, want %v", test.prefix, got, err, test.want)
		}
	}
}

func TestHoldingsAskNoStoreInVain(t *testing.T) {
	s := newStores(t)
	l := s.open(t, backends.Config{URL: "test://narrow", Routes: []backends.Route{{Keys: "a/*", URL: "test://a"}, {Keys: "*/b", URL: "test://narrow-b"}}})
	for prefix, fails := range map[string]bool{"a/": false, "a/c": false, "a": true, "": true, "b": true} {
		if _, err := holdings(t, l, prefix); (err != nil) != fails {
			t.Errorf("%q: %v", prefix, err)
		}
	}
}

func TestAdminAsFarAsTheBackendsHaveIt(t *testing.T) {
	s := newStores(t)
	config := backends.Config{URL: "test://narrow-rest", Routes: []backends.Route{{Keys: "a", URL: "test://narrow-a"}}}
	if _, ok := locker.As[locker.Admin](s.open(t, config)); ok {
		t.Error("it is an Admin although no backend is")
	}
	config.Routes[0].URL = "test://wide"
	l := s.open(t, config)
	admin, ok := locker.As[locker.Admin](l)
	if !ok {
		t.Fatal("it is no Admin although a backend is")
	}
	for _, key := range []string{"a", "b"} {
		lease, err := l.Acquire(t.Context(), key, time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		_, inspect := admin.Inspect(t.Context(), key)
		raise := admin.Raise(t.Context(), key, lease.Token)
		brk := admin.Break(t.Context(), lease.Holding())
		for op, err := range map[string]error{"inspect": inspect, "raise": raise, "break": brk} {
			if key == "a" && err != nil {
				t.Errorf("%s: %v", op, err)
			}
			if op, ok := errors.AsType[*locker.OpError](err); key == "b" && (!errors.Is(err, locker.ErrInvalid) || !ok || op.Key != key) {
				t.Errorf("%s of the other backend: %v", op, err)
			}
		}
	}
	if _, err := admin.HighWater(t.Context()); !errors.Is(err, locker.ErrInvalid) {
		t.Errorf("HighWater without one of the backends: %v", err)
	}
}

func TestHighWaterIsThatOfAll(t *testing.T) {
	s := newStores(t)
	l := s.open(t, backends.Config{URL: "test://a", Routes: []backends.Route{{Keys: "b", URL: "test://b"}}})
	for _, host := range []string{"a", "b"} {
		floor := locker.Token(time.Now().Add(5 * time.Second).UnixMicro())
		if err := s.at(host).Raise(t.Context(), "k", floor); err != nil {
			t.Fatal(err)
		}
		admin, _ := locker.As[locker.Admin](l)
		if high, err := admin.HighWater(t.Context()); err != nil || high < floor {
			t.Errorf("HighWater = %d, %v; want %d", high, err, floor)
		}
	}
}

func TestRoutesClose(t *testing.T) {
	s := newStores(t)
	client, err := s.OpenConfigClient(t.Context(), backends.Config{URL: "test://fails-1", Routes: []backends.Route{
		{Keys: "a", URL: "test://b"}, {Keys: "b", URL: "test://fails-2"}, {Keys: "c", URL: "memory://"}, {Keys: "d", URL: "test://b"},
	}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	err = client.Close()
	slices.Sort(s.closed)
	if want := []string{"b", "fails-1", "fails-2"}; !slices.Equal(s.closed, want) {
		t.Errorf("closed %v, want %v", s.closed, want)
	}
	for _, want := range []string{"closing fails-1 failed", "closing fails-2 failed"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Close = %v, want %s", err, want)
		}
	}
}

func TestWhatWasOpenedIsClosedIfTheRestFails(t *testing.T) {
	s := newStores(t)
	_, err := s.OpenConfig(t.Context(), backends.Config{URL: "test://never", Routes: []backends.Route{{Keys: "a", URL: "test://a"}, {Keys: "b", URL: "test://down"}}})
	if !errors.Is(err, locker.ErrUnavailable) || !strings.Contains(err.Error(), "routes[1].url") {
		t.Errorf("got %v, want ErrUnavailable of routes[1].url", err)
	}
	if want := []string{"a"}; !slices.Equal(s.closed, want) {
		t.Errorf("closed %v, want %v", s.closed, want)
	}
}

func TestSchemesAreKnownBeforeAnythingIsOpened(t *testing.T) {
	s := newStores(t)
	_, err := s.OpenConfig(t.Context(), backends.Config{URL: "test://a", Routes: []backends.Route{{Keys: "a", URL: "test://a"}, {Keys: "b", URL: "tset://a"}}})
	if !errors.Is(err, locker.ErrInvalid) || !strings.Contains(err.Error(), `routes[1].url: invalid argument: unknown URL scheme "tset": known are etcd`) {
		t.Errorf("got %v", err)
	}
	if len(s.opened) > 0 {
		t.Errorf("opened %v", s.opened)
	}
}

func TestTTLAndWaitOfTheConfiguration(t *testing.T) {
	const limit = 10 * time.Minute // of who would wait for ever
	for _, test := range []struct {
		config    backends.Config
		opts      *locker.Options
		ttl, wait time.Duration
	}{
		{backends.Config{TTL: time.Minute}, nil, time.Minute, limit},
		{backends.Config{TTL: time.Minute, Wait: time.Second}, &locker.Options{TTL: time.Hour, Wait: time.Hour}, time.Minute, time.Second},
		{backends.Config{}, &locker.Options{TTL: time.Hour, Wait: 2 * time.Second}, time.Hour, 2 * time.Second},
		{backends.Config{}, nil, 30 * time.Second, limit},
	} {
		synctest.Test(t, func(t *testing.T) {
			test.config.URL = "memory://?namespace=ttl"
			open := func() *locker.Client {
				client, err := backends.OpenConfig(t.Context(), test.config, test.opts)
				if err != nil {
					t.Fatal(err)
				}
				return client
			}
			client, other := open(), open()
			hold, err := client.Lock(t.Context(), "k")
			if err != nil {
				t.Fatal(err)
			}
			if ttl := hold.Lease().TTL; ttl != test.ttl {
				t.Errorf("%v with %v: the TTL is %s, want %s", test.config, test.opts, ttl, test.ttl)
			}
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			began := time.Now()
			_, err = other.Lock(ctx, "k")
			if waited := time.Since(began); !errors.Is(err, locker.ErrHeld) || waited != test.wait {
				t.Errorf("%v with %v: waited %s, until %v; want %s", test.config, test.opts, waited, err, test.wait)
			}
			if err := errors.Join(hold.Unlock(), other.Close(), client.Close()); err != nil {
				t.Error(err)
			}
		})
	}
	// dkron#93: a wrong TTL was found at run time.
	for _, c := range []backends.Config{{TTL: time.Millisecond}, {TTL: -1}, {Wait: -1}} {
		c.URL = "memory://"
		if _, err := backends.OpenConfig(t.Context(), c, nil); !errors.Is(err, locker.ErrInvalid) {
			t.Errorf("%v: %v", c, err)
		}
	}
}
