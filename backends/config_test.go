package backends_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/google/go-cmp/cmp"

	"github.com/locker-go/locker"
	"github.com/locker-go/locker/backends"
)

// load loads a configuration from a file of that name.
func load(t *testing.T, name, content string) (backends.Config, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := backends.LoadConfig(path)
	if err != nil {
		err = relative{err, filepath.Dir(path) + "/"}
	}
	return c, err
}

// relative is an error without the directory of the file that it is about.
type relative struct {
	error
	dir string
}

func (r relative) Error() string { return strings.ReplaceAll(r.error.Error(), r.dir, "") }
func (r relative) Unwrap() error { return r.error }

const fullYAML = `# where locks are kept
url: redis://cache:6379/0?password_file=/run/secrets/redis
namespace: billing
ttl: 20s
wait: 1m
routes:
  - keys: invoice/*
    url: "etcd://e1:2379,e2:2379"
  - {keys: leader, url: 'etcd://e1', namespace: elections}
`

const fullJSON = `{
	"url": "redis:\/\/cache:6379/0?password_file=/run/secrets/redis",
	"namespace": "billing", "ttl": "20s", "wait": "1m",
	"routes": [
		{"keys": "invoice\u002f*", "url": "etcd://e1:2379,e2:2379"},
		{"namespace": "elections", "keys": "leader", "url": "etcd://e1"}
	]
}`

var full = backends.Config{
	URL:       "redis://cache:6379/0?password_file=/run/secrets/redis",
	Namespace: "billing",
	TTL:       20 * time.Second,
	Wait:      time.Minute,
	Routes: []backends.Route{
		{Keys: "invoice/*", URL: "etcd://e1:2379,e2:2379"},
		{Keys: "leader", URL: "etcd://e1", Namespace: "elections"},
	},
}

func TestConfigDecodes(t *testing.T) {
	for _, test := range []struct {
		name, content string
		want          backends.Config
	}{
		{"full.yaml", fullYAML, full},
		{"full.json", fullJSON, full},
		{"JSON.yaml", fullJSON, full}, // JSON is YAML too
		{"UPPER.JSON", fullJSON, full},
		{"no-extension", "url: memory://", backends.Config{URL: "memory://"}},
		{"bom.yml", "\ufeffurl: memory://\r\nttl: 10ms\r\n", backends.Config{URL: "memory://", TTL: 10 * time.Millisecond}},
		{"block.yaml", "url: >-\n  memory://\nroutes: []", backends.Config{URL: "memory://"}},
		{"document.yaml", "---\nurl: memory://\n...\n", backends.Config{URL: "memory://"}},
	} {
		got, err := load(t, test.name, test.content)
		if err != nil {
			t.Errorf("%s: %v", test.name, err)
		} else if diff := cmp.Diff(fmt.Sprintf("%#v", plain(test.want)), fmt.Sprintf("%#v", plain(got))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.name, diff)
		}
	}
}

// plain is a configuration that prints as it is.
func plain(c backends.Config) any {
	var routes [][3]string
	for _, r := range c.Routes {
		routes = append(routes, [3]string{r.Keys, r.URL, r.Namespace})
	}
	return []any{c.URL, c.Namespace, c.TTL, c.Wait, routes}
}

func TestConfigInsideAnother(t *testing.T) {
	var outer struct {
		Name   string          `json:"name" yaml:"name"`
		Locker backends.Config `json:"locker" yaml:"locker"`
	}
	err := json.Unmarshal([]byte(`{"name": "billing", "locker": `+fullJSON+`}`), &outer)
	if err != nil || fmt.Sprint(plain(outer.Locker)) != fmt.Sprint(plain(full)) {
		t.Errorf("JSON: got %v, %v", outer.Locker, err)
	}
	outer.Locker = backends.Config{}
	err = yaml.Unmarshal([]byte("name: billing\nlocker:\n  "+strings.ReplaceAll(fullYAML, "\n", "\n  ")), &outer)
	if err != nil || fmt.Sprint(plain(outer.Locker)) != fmt.Sprint(plain(full)) {
		t.Errorf("YAML: got %v, %v", outer.Locker, err)
	}

	// A YAML package of another kind, with keys that are not texts, and one that fails.
	failed := errors.New("failed")
	for _, unmarshal := range []func(any) error{
		func(to any) error { *to.(*any) = map[any]any{1: canary}; return nil },
		func(any) error { return failed },
	} {
		if err := new(backends.Config).UnmarshalYAML(unmarshal); !errors.Is(err, locker.ErrInvalid) && !errors.Is(err, failed) {
			t.Errorf("UnmarshalYAML = %v", err)
		}
	}

	for _, content := range []string{`{"url": "redis://u:c4n4ry@h", "tttl": 1}`, `{"url": "redis://u:c4n4ry@h:x"}`, `{"url": "memory://", "ttl": 5}`} {
		for name, unmarshal := range map[string]func([]byte, any) error{"JSON": json.Unmarshal, "YAML": func(b []byte, to any) error { return yaml.Unmarshal(b, to) }} {
			err := unmarshal([]byte(`{"name": "billing", "locker": `+content+`}`), &outer)
			if !errors.Is(err, locker.ErrInvalid) || strings.Contains(err.Error(), canary) {
				t.Errorf("%s: %s gave %v", name, content, err)
			}
		}
	}
}

// wrongConfigs are refused, each with a message that tells the place and what is allowed.
var wrongConfigs = []struct{ name, content, want string }{
	{"unknown.yaml", "url: memory://\ntttl: 5s", "unknown.yaml:2:1: invalid argument: unknown field tttl: known are namespace, routes, ttl, url, wait"},
	{"unknown.json", "{\n \"url\": \"memory://\",\n  \"tttl\": \"5s\"}", "unknown.json:3:3: invalid argument: unknown field tttl: known are namespace, routes, ttl, url, wait"},
	{"case.json", `{"URL": "memory://"}`, "case.json:1:2: invalid argument: unknown field URL"}, // encoding/json would take it
	{"route.yaml", "url: memory://\nroutes:\n- keys: a\n  url: memory://\n  ttl: 5s", "route.yaml:5:3: routes[0]: invalid argument: unknown field ttl: known are keys, namespace, url"},
	{"twice.yaml", "url: memory://\nurl: memory://", "twice.yaml:2:1: url: invalid argument: it is given twice"},
	{"twice.json", `{"url": "memory://", "url": "memory://"}`, "twice.json:1:22: url: invalid argument: it is given twice"},
	{"number.yaml", "url: memory://\nttl: 30", "number.yaml:2:6: ttl: invalid argument: it must be a duration with a unit, such as 300ms, 30s or 2h, not a number"},
	{"number.json", `{"url": "memory://", "ttl": 3e10}`, "number.json:1:29: ttl: invalid argument: it must be a duration with a unit"},
	{"unitless.yaml", "url: memory://\nttl: \"30\"", "unitless.yaml:2:6: ttl: invalid argument: it must be a duration"},
	{"short.yaml", "url: memory://\nttl: 9ms", "short.yaml:2:6: ttl: invalid argument: the TTL is 9ms; it must be from 10ms to 876000h0m0s"}, // dkron#93
	{"zero.json", `{"url": "memory://", "ttl": "0s"}`, "it must be from 10ms"},
	// tooz: blocking=True was read as one second.
	{"true.yaml", "url: memory://\nwait: true", "true.yaml:2:7: wait: invalid argument: it must be a duration with a unit, such as 300ms, 30s or 2h, not a truth value"},
	{"no-wait.yaml", "url: memory://\nwait: 0s", "no-wait.yaml:2:7: wait: invalid argument: it must be more than 0s and at most 876000h0m0s; leave it out to wait without limit"},
	{"null.yaml", "url:\nttl: 5s", "null.yaml:1:5: url: invalid argument: it must be a text, not nothing"},
	{"null.json", `{"url": null}`, "null.json:1:9: url: invalid argument: it must be a text, not null"},
	{"list.yaml", "- url: memory://", "list.yaml:1:1: invalid argument: it must be a mapping, not a list"},
	{"routes.yaml", "url: memory://\nroutes:\n  invoice/*: memory://", "routes.yaml:3:3: routes: invalid argument: it must be a list, not a mapping"},
	{"empty.yaml", "", "empty.yaml: invalid argument: it is empty"},
	{"comment.yaml", "# url: memory://\n", "comment.yaml: invalid argument: it is empty"},
	{"empty.json", "", "empty.json:1:1: invalid argument: it cannot be parsed as JSON"},
	{"latin1.yaml", "url: memory://\xe9", "latin1.yaml: invalid argument: it is not valid UTF-8"},
	{"latin1.json", "{\"url\": \"memory://\xe9\"}", "latin1.json: invalid argument: it is not valid UTF-8"},
	{"two.yaml", "url: memory://\n---\nurl: memory://", "two.yaml:3:1: invalid argument: a second document begins here"},
	{"two.json", `{"url": "memory://"} {}`, "two.json:1:22: invalid argument: it cannot be parsed as JSON"},
	{"comma.json", "{\n\"url\": \"memory://\",\n}", "comma.json:3:1: invalid argument: it cannot be parsed as JSON"},
	{"tab.yaml", "url: memory://\nroutes:\n\t- keys: a", "tab.yaml:3:1: invalid argument: it cannot be parsed as YAML"},
	{"brace.yaml", "{url: memory://", "brace.yaml:1:1: invalid argument: it cannot be parsed as YAML (the line is not shown, since a password may be in it)"},
	{"gap.yaml", "url: memory://\nroutes:\n- keys: a\n  url: memory://\n- ", "gap.yaml:5:3: routes[1]: invalid argument: it must be a mapping, not nothing"}, // goccy/go-yaml#274
	{"alias.yaml", "url: memory://\nroutes:\n- keys: *a", "alias.yaml:3:9: invalid argument: anchors, aliases, tags and directives are not taken: put a text that begins with & * ! or % into quotes"},
	{"anchor.yaml", "url: &u memory://", "anchor.yaml:1:6: invalid argument: anchors"},
	{"merge.yaml", "<<: {url: memory://}", "merge.yaml:1:1: invalid argument: the name of a field must be a plain text"},
	{"tag.yaml", "url: !!str memory://", "tag.yaml:1:6: invalid argument: anchors"},
	{"missing.yaml", "ttl: 5s", "missing.yaml:1:1: url: invalid argument: the URL is missing: write one such as file:///path/to/directory"},
	{"host.yaml", "url: redis//host", "host.yaml:1:6: url: invalid argument: a locker URL has the form scheme://..."},
	{"namespace.yaml", "url: memory://\nnamespace: a/b", "namespace.yaml:2:12: namespace: invalid argument: it must have at most 128 characters of A-Z"},
	{"raw.yaml", "url: redis://h\nnamespace: ''", "raw.yaml:2:12: namespace: invalid argument: it is empty: leave it out, or for raw keys on Redis write a URL that ends with ?namespace="},
	{"twofold.yaml", "url: memory://?namespace=a\nnamespace: a", "twofold.yaml:2:12: namespace: invalid argument: the URL beside it has a namespace already"},
	{"keys.yaml", "url: memory://\nroutes:\n  - url: memory://", "keys.yaml:3:5: routes[0].keys: invalid argument: the pattern is missing: write a key, or a pattern such as invoice/*"},
	{"nul.yaml", "url: memory://\nroutes:\n  - {url: memory://, keys: \"a\\0\"}", "routes[0].keys: no key matches it: invalid argument: the key has a NUL byte"},
	{"all.yaml", "url: memory://\nroutes:\n  - url: memory://\n    keys: \"**\"", "all.yaml:4:11: routes[0].keys: invalid argument: it matches every key: put its URL at the top"},
	{"covered.yaml", "url: memory://\nroutes:\n- {keys: a/*, url: memory://}\n- {keys: b, url: memory://}\n- {keys: a/*/c, url: memory://}", "covered.yaml:5:10: routes[2].keys: invalid argument: routes[0] before it matches all its keys: put it first, or leave it out"},
	{"nested.yaml", "url: [memory://]", "nested.yaml:1:6: url: invalid argument: it must be a text, not a list"},
}

func TestWrongConfig(t *testing.T) {
	for _, test := range wrongConfigs {
		c, err := load(t, test.name, test.content)
		if !errors.Is(err, locker.ErrInvalid) {
			t.Errorf("%s: got %v, %v", test.name, c, err)
			continue
		}
		if !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s:\ngot  %v\nwant %s", test.name, err, test.want)
		}
	}
}

func TestAllThatIsWrongIsToldAtOnce(t *testing.T) {
	_, err := load(t, "c.yaml", "urls: x\nttl: 1\nroutes: [{keys: 1}, a]")
	for _, want := range []string{"c.yaml:1:1: ", "c.yaml:2:6: ttl: ", "c.yaml:3:17: routes[0].keys: ", "c.yaml:3:21: routes[1]: "} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not mention %s", err, want)
		}
	}
	_, err = load(t, "c.yaml", "url: x\nnamespace: \"?\"\nroutes: [{keys: \"*\", url: memory://}]")
	for _, want := range []string{"c.yaml:1:6: url: ", "c.yaml:2:12: namespace: ", "c.yaml:3:17: routes[0].keys: "} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not mention %s", err, want)
		}
	}
}

func TestConfigFile(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing.yaml")
	if _, err := backends.LoadConfig(missing); !errors.Is(err, fs.ErrNotExist) || !errors.Is(err, locker.ErrInvalid) || !strings.Contains(err.Error(), missing) {
		t.Errorf("a missing file: %v", err)
	}
	if _, err := load(t, "long.yaml", "url: memory:// #"+strings.Repeat(" long", 1<<14)); !errors.Is(err, locker.ErrInvalid) || !strings.Contains(err.Error(), "65536") {
		t.Errorf("a long file: %v", err)
	}
	if _, err := backends.LoadConfig("redis://u:" + canary + "@h"); !errors.Is(err, locker.ErrInvalid) || strings.Contains(err.Error(), canary) {
		t.Errorf("a URL for a file: %v", err)
	}
}

// secretive have a password where a parser, or a check, would quote it.
var secretive = []string{
	"url: redis://u:" + canary + "@h:x",
	"url: 'redis://u:" + canary + "@h",
	"url: \"redis://u:\\q" + canary + "@h\"",
	"url: redis://u:" + canary + "@h: x",
	"url redis://u:" + canary + "@h",
	"redis://u: " + canary + "@h",
	"redis://u:" + canary + "@h: x",
	"{\"redis://u:" + canary + "@h\": 1}",
	"redis://u:" + canary + "@h",
	"- redis://u:" + canary + "@h",
	"url: redis://u:" + canary + "@h\n\tttl: 5s",
	"url: redis://u:" + canary + "@h\n ttl: 5s",
	"url: redis://u:" + canary + "@h\nttl: 5",
	"url: !" + canary + " x",
	"url: &" + canary + " x",
	"url: *" + canary,
	"url: {redis://u: " + canary + "@h}",
	"url: [redis://u:" + canary + "@h",
	"url: memory://\nnamespace: \"//u:" + canary + "@h\"",
	"url: memory://\nttl: redis://u:" + canary + "@h",
	"url: memory://\nroutes:\n- redis://u:" + canary + "@h",
	"url: memory://\nroutes:\n- keys: \"redis://u:" + canary + "@h\\0\"",
	"url: memory://\nroutes:\n- keys: redis://u:" + canary + "@h\n  url: redis://u:" + canary + "@h:x",
	"%YAML " + canary + "\n---\nurl: x",
}

func TestNoConfigErrorShowsAPassword(t *testing.T) {
	for _, content := range secretive {
		for _, name := range []string{"c.yaml", "c.json"} {
			_, err := load(t, name, content)
			if !errors.Is(err, locker.ErrInvalid) {
				t.Errorf("%s with %q: %v", name, content, err)
				continue
			}
			for e := err; e != nil; e = errors.Unwrap(e) {
				if strings.Contains(e.Error(), canary) {
					t.Errorf("the error for %s with %q shows the password: %v", name, content, e)
				}
			}
		}
	}
	for _, rawURL := range append(unparsable, wrong...) {
		for _, c := range []backends.Config{
			{URL: rawURL},
			{URL: rawURL, Namespace: "a"},
			{URL: "memory://", Routes: []backends.Route{{Keys: "a", URL: rawURL}}},
		} {
			_, err := backends.OpenConfig(t.Context(), c, nil)
			if !errors.Is(err, locker.ErrInvalid) || strings.Contains(err.Error(), canary) {
				t.Errorf("OpenConfig with %q = %v", rawURL, err)
			}
		}
	}
}

func TestConfigShowsNoPassword(t *testing.T) {
	c := backends.Config{
		URL: "redis://u:" + canary + "@h?namespace=n&key=" + canary, TTL: time.Second,
		Routes: []backends.Route{{Keys: "a&*", URL: "redis://" + canary + "@h", Namespace: "m"}},
	}
	const want = `{"url":"redis://u:xxxxx@h?key=xxxxx&namespace=n","ttl":"1s","routes":[{"keys":"a&*","url":"redis://xxxxx@h","namespace":"m"}]}`
	if got := c.String(); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	outer := struct {
		C  backends.Config
		P  *backends.Config
		R  []backends.Route
		in any
	}{c, &c, c.Routes, nil}
	var out bytes.Buffer
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%d", "%x"} {
		fmt.Fprintf(&out, verb+" "+verb+" "+verb+"\n", c, c.Routes, outer)
	}
	for _, logger := range []*slog.Logger{slog.New(slog.NewTextHandler(&out, nil)), slog.New(slog.NewJSONHandler(&out, nil))} {
		logger.Info("read", "config", c, "routes", c.Routes, "outer", outer)
	}
	for _, marshal := range []func(any) ([]byte, error){json.Marshal, yaml.Marshal} {
		b, err := marshal(outer)
		if err != nil {
			t.Fatal(err)
		}
		out.Write(b)
	}
	if strings.Contains(out.String(), canary) || strings.Contains(out.String(), fmt.Sprintf("%x", canary)) {
		t.Errorf("the password is shown:\n%s", out.String())
	}
	if n := strings.Count(out.String(), "u:xxxxx@h"); n < 20 {
		t.Errorf("only %d times is there a URL in\n%s", n, out.String())
	}
}

func FuzzLoadConfig(f *testing.F) {
	for _, test := range wrongConfigs {
		f.Add(test.content, strings.HasSuffix(test.name, ".json"))
	}
	for _, content := range secretive {
		f.Add(content, false)
	}
	f.Add("url:\n}", false) // goccy/go-yaml#890: it panicked
	f.Add(fullYAML, false)
	f.Add(fullJSON, true)
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, content string, isJSON bool) {
		path := filepath.Join(dir, "c.yaml")
		if isJSON {
			path = filepath.Join(dir, "c.json")
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		c, err := backends.LoadConfig(path)
		if err == nil && c.URL == "" || err != nil && !errors.Is(err, locker.ErrInvalid) {
			t.Errorf("got %v, %v", c, err)
		}
		if err != nil && strings.Contains(err.Error(), canary) {
			t.Errorf("the error shows a password: %v", err)
		}
	})
}
