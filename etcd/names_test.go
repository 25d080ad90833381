package etcd

import (
	"strings"
	"testing"
)

func FuzzEncode(f *testing.F) {
	f.Add("a", "a/")
	f.Add("a", "a/b")
	f.Add("%", "%25")
	f.Add("é", "\xc3")
	f.Fuzz(func(t *testing.T, a, b string) {
		n := names{"locker/"}
		if got, ok := decode(encode(a)); !ok || got != a {
			t.Errorf("%q comes back as %q, %t", a, got, ok)
		}
		if key, ok := n.key(n.entry(a, 7)); !ok || key != a {
			t.Errorf("the entry of %q is taken for one of %q, %t", a, key, ok)
		}
		if a != b && strings.HasPrefix(n.queue(a), n.queue(b)) {
			t.Errorf("the queue of %q is within that of %q", a, b)
		}
		if got, want := strings.HasPrefix(n.queue(a), n.queues(b)), strings.HasPrefix(a, b); got != want {
			t.Errorf("%q begins with %q: %t, their queues: %t", a, b, want, got)
		}
	})
}

func TestDecodeRefuses(t *testing.T) {
	for _, code := range []string{"%", "%4", "%zz", "%2f", "%41", "a b", "/"} {
		if key, ok := decode(code); ok {
			t.Errorf("%q is taken for the code of %q", code, key)
		}
	}
}

// Of these, a leader that was deposed could take an expired lease for alive.
func TestSupportedVersions(t *testing.T) {
	for version, want := range map[string]bool{
		"3.3.27": false, "3.4.30": false, "3.4.31": true, "3.5.0": false, "3.5.12": false, "3.5.13": true,
		"3.6.0": true, "3.7.3": true, "4.0.0": true, "": false, "x": false,
	} {
		if err := supported(version); (err == nil) != want {
			t.Errorf("version %q: %v", version, err)
		}
	}
}
