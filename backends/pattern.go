package backends

import "strings"

// pattern is a text in which each * stands for any text, also none. It is what is
// between the stars.
type pattern []string

func parsePattern(s string) pattern { return strings.Split(s, "*") }

// beginning returns the pattern of all keys that begin with prefix, which is taken
// literally.
func beginning(prefix string) pattern { return pattern{prefix, ""} }

func (p pattern) match(s string) bool {
	first, last := p[0], p[len(p)-1]
	if len(p) == 1 {
		return s == first
	}
	s, ok := strings.CutPrefix(s, first)
	if !ok {
		return false
	}
	for _, middle := range p[1 : len(p)-1] {
		if _, s, ok = strings.Cut(s, middle); !ok {
			return false
		}
	}
	return strings.HasSuffix(s, last)
}

// covers reports whether p matches all that q does. Between its stars p has no star, so
// only a star of p can match one of q, and then it matches anything in its place.
func (p pattern) covers(q pattern) bool { return p.match(strings.Join(q, "*")) }

// meets reports whether p matches a key that begins with prefix.
func (p pattern) meets(prefix string) bool {
	if len(p) == 1 {
		return strings.HasPrefix(p[0], prefix)
	}
	return strings.HasPrefix(p[0], prefix) || strings.HasPrefix(prefix, p[0])
}
