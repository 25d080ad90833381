package redisnode

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// hashed returns the part of a name that a cluster hashes, by the specification's
// words, independently of tag.
func hashed(name string) string {
	before, rest, open := strings.Cut(name, "{")
	_ = before
	if !open {
		return name
	}
	inside, _, closed := strings.Cut(rest, "}")
	if !closed || inside == "" {
		return name
	}
	return inside
}

func TestKeysLieInOneSlot(t *testing.T) {
	fixed := []string{
		"a", "a}b", "}", "{", "{}", "{}a", "{}{a}", "{a}", "{a}b", "{{a}}", "a{b}c{d}", "}{", "a{", "}a{b}", "{a", "{ü}", "ü}",
		"{}}", "{\x01}", strings.Repeat("}", 1024), strings.Repeat("{", 1024), "foo{}{bar}",
	}
	check := func(t interface {
		Helper()
		Errorf(string, ...any)
	}, namespace, key string) {
		t.Helper()
		k := KeysOf(namespace, key)
		if got, want := slot(hashed(k.Fence)), slot(hashed(k.Lock)); got != want {
			t.Errorf("namespace %q, key %q: the fence %q is in slot %d, the lock %q in slot %d", namespace, key, k.Fence, got, k.Lock, want)
		}
		if !strings.Contains(k.Fence, "\x00") || !strings.Contains(k.Channel, "\x00") {
			t.Errorf("a key without NUL could be the fence %q or the channel %q", k.Fence, k.Channel)
		}
	}
	for _, key := range fixed {
		check(t, "locker", key)
		check(t, "", key)
	}
	rapid.Check(t, func(t *rapid.T) {
		key := rapid.StringOfN(rapid.RuneFrom([]rune("{}{}ab:ü")), 1, 12, -1).Draw(t, "key")
		check(t, rapid.SampledFrom([]string{"", "ns", "a-b.c"}).Draw(t, "namespace"), key)
	})
}

// The values are those that the cluster specification and CLUSTER KEYSLOT give.
func TestSlot(t *testing.T) {
	for name, want := range map[string]uint16{"": 0, "123456789": 0x31C3, "foo": 12182, "bar": 5061, "hello": 866} {
		if got := slot(name); got != want {
			t.Errorf("slot(%q) = %d, want %d", name, got, want)
		}
	}
}

func TestKeysDiffer(t *testing.T) {
	seen := make(map[string]string)
	for _, namespace := range []string{"", "a", "b", "a.b"} {
		for _, key := range []string{"a", "a/", "a:b", "b", "{a}", "fence:a"} {
			if namespace == "" && strings.Contains(key, ":") {
				continue // refused: it is the name of a namespace's lock
			}
			k := KeysOf(namespace, key)
			for _, name := range []string{k.Lock, k.Fence, k.Channel} {
				if other, ok := seen[name]; ok {
					t.Errorf("%q belongs to %s and to %s/%s", name, other, namespace, key)
				}
				seen[name] = namespace + "/" + key
			}
		}
	}
}

func TestParseValue(t *testing.T) {
	tests := []struct {
		value, holder string
		token         uint64
	}{
		{"host.1.ABC:1796089509046298", "host.1.ABC", 1796089509046298},
		{"host.1.ABC:9007199254740991", "host.1.ABC", 1<<53 - 1},
		{"host.1.ABC:9007199254740992", "host.1.ABC:9007199254740992", 0},
		{"host.1.ABC:0", "host.1.ABC:0", 0},
		{"host.1.ABC:01", "host.1.ABC:01", 0},
		{"host.1.ABC:", "host.1.ABC:", 0},
		{"host.1.ABC:-1", "host.1.ABC:-1", 0},
		{"host.1.ABC:+1", "host.1.ABC:+1", 0},
		{":1", ":1", 0},
		{"", "", 0},
		{"c2VjcmV0", "c2VjcmV0", 0},
		{"a:b:1796089509046298", "a:b", 1796089509046298},
		{"web1:4711", "web1:4711", 0},
	}
	for _, tt := range tests {
		holder, token := parseValue(tt.value)
		if holder != tt.holder || uint64(token) != tt.token {
			t.Errorf("parseValue(%q) = %q, %d; want %q, %d", tt.value, holder, token, tt.holder, tt.token)
		}
		if token != 0 && valueOf(holder, token) != tt.value {
			t.Errorf("valueOf(%q, %d) = %q, want %q", holder, token, valueOf(holder, token), tt.value)
		}
	}
}

func TestParseMessage(t *testing.T) {
	tests := []struct {
		payload   string
		ended     uint64
		listeners int
	}{
		{"1796089509046298 3", 1796089509046298, 3},
		{"7", 7, 0},
		{"", 0, 0},
		{"x y", 0, 0},
	}
	for _, tt := range tests {
		ended, listeners := ParseMessage(tt.payload)
		if uint64(ended) != tt.ended || listeners != tt.listeners {
			t.Errorf("ParseMessage(%q) = %d, %d; want %d, %d", tt.payload, ended, listeners, tt.ended, tt.listeners)
		}
	}
}

func TestEscapePattern(t *testing.T) {
	if got, want := escapePattern(`a*b?c[d]e\f`), `a\*b\?c\[d\]e\\f`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
