package backends

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestPattern(t *testing.T) {
	for _, test := range []struct {
		pattern   string
		match, no []string
	}{
		{"a", []string{"a"}, []string{"", "aa", "b", "a*"}},
		{"*", []string{"", "a", "a/b", "*"}, nil},
		{"a/*", []string{"a/", "a/b", "a/b/c"}, []string{"a", "b/a/", "A/b"}},
		{"*.lock", []string{".lock", "a.lock", ".lock.lock"}, []string{"lock", "a.lock "}},
		{"a*a", []string{"aa", "aba"}, []string{"a", "ab"}},
		{"a*b*c", []string{"abc", "a-b-b-c", "abcbc"}, []string{"acb", "ab", "ac"}},
		{"a**b", []string{"ab", "a*b"}, []string{"a"}},
		{"[ab]?", []string{"[ab]?"}, []string{"a", "ab"}},
		{"é*", []string{"é", "éa"}, []string{"e"}},
	} {
		p := parsePattern(test.pattern)
		for _, key := range test.match {
			if !p.match(key) {
				t.Errorf("%s does not match %q", test.pattern, key)
			}
		}
		for _, key := range test.no {
			if p.match(key) {
				t.Errorf("%s matches %q", test.pattern, key)
			}
		}
	}
}

// texts are all texts of up to six letters, of which patterns below have only a and b:
// enough to tell two patterns of up to four signs apart.
var texts = func() []string {
	all := []string{""}
	for begin, n := 0, 1; n <= 6; n++ {
		end := len(all)
		for _, s := range all[begin:end] {
			all = append(all, s+"a", s+"b", s+"c")
		}
		begin = end
	}
	return all
}()

func TestPatternsCover(t *testing.T) {
	patterns := rapid.StringMatching(`[ab*]{0,4}`)
	rapid.Check(t, func(t *rapid.T) {
		p, q := patterns.Draw(t, "p"), patterns.Draw(t, "q")
		prefix := rapid.StringMatching(`[ab]{0,3}`).Draw(t, "prefix")
		covers, meets, all := true, false, true
		for _, s := range texts {
			in := parsePattern(p).match(s)
			if parsePattern(q).match(s) && !in {
				covers = false
			}
			if strings.HasPrefix(s, prefix) {
				meets = meets || in
				all = all && in
			}
		}
		if got := parsePattern(p).covers(parsePattern(q)); got != covers {
			t.Errorf("%q covers %q: got %t, want %t", p, q, got, covers)
		}
		if got := parsePattern(p).meets(prefix); got != meets {
			t.Errorf("%q meets %q: got %t, want %t", p, prefix, got, meets)
		}
		if got := parsePattern(p).covers(beginning(prefix)); got != all {
			t.Errorf("%q covers all that begins with %q: got %t, want %t", p, prefix, got, all)
		}
	})
}
