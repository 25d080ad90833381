package locker_test

import (
	"errors"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/locker-go/locker"
)

func TestValidateKey(t *testing.T) {
	for _, tc := range []struct {
		key string
		ok  bool
	}{
		{"", false},
		{"a", true},
		{" ", true},
		{"/", true},
		{"///", true}, // rancher#1383
		{"/leading", true},
		{"a/", true},
		{"..", true},
		{"{a}b{", true},
		{"\n\t\r\x01\x7f", true},
		{"ключ \U0001F512", true},
		{"a\u0301", true},
		{"\ufffd", true},
		{"\x00", false},
		{"a\x00", false},
		{"\xff", false},
		{"a\xc3", false},
		{"\xed\xa0\x80", false}, // a surrogate
		{"\xc0\x80", false},     // NUL, overlong
		{strings.Repeat("k", locker.MaxKeyLen), true},
		{strings.Repeat("k", locker.MaxKeyLen+1), false},
		{strings.Repeat("\u00e9", locker.MaxKeyLen/2), true},
		{strings.Repeat("\u00e9", locker.MaxKeyLen/2) + "e", false},
	} {
		check(t, tc.key, locker.ValidateKey(tc.key), tc.ok)
	}
}

// check fails the test unless err is nil, if what may pass, or else ErrInvalid.
func check(t *testing.T, what any, err error, ok bool) {
	t.Helper()
	if ok && err != nil || !ok && !errors.Is(err, locker.ErrInvalid) {
		t.Errorf("%q: got %v, may pass: %t", what, err, ok)
	}
}

func FuzzValidateKey(f *testing.F) {
	f.Add("invoice:42")
	f.Add("a\x00b")
	f.Add("\xff")
	f.Fuzz(func(t *testing.T, key string) {
		want := len(key) >= 1 && len(key) <= 1024 && utf8.ValidString(key) && !strings.Contains(key, "\x00")
		err := locker.ValidateKey(key)
		check(t, key, err, want)
		// An error names keys in a form that is printable, and short.
		text := (&locker.OpError{Op: "acquire", Backend: "memory", Key: key, Err: locker.ErrHeld}).Error()
		if len(text) > 700 || !utf8.ValidString(text) || strings.ContainsAny(text, "\n\r\x00\x1b") {
			t.Errorf("%q in an error: %q", key, text)
		}
	})
}

func TestValidateTTL(t *testing.T) {
	for _, tc := range []struct {
		ttl time.Duration
		ok  bool
	}{
		// redislock v0.10.0: 500 us, 0 and -1 s returned a lock of which no key existed.
		{500 * time.Microsecond, false},
		{0, false},
		{-time.Second, false},
		{-1 << 63, false},
		{locker.MinTTL - 1, false},
		{10 * time.Millisecond, true},
		{time.Minute, true},
		{locker.MaxTTL, true},
		{locker.MaxTTL + 1, false},
		{1<<63 - 1, false},
	} {
		check(t, tc.ttl.String(), locker.ValidateTTL(tc.ttl), tc.ok)
	}
}

func TestValidateNamespace(t *testing.T) {
	for _, tc := range []struct {
		namespace string
		ok        bool
	}{
		{"", true},
		{"locker", true},
		{"A-Z.a_z-09", true},
		{strings.Repeat("n", 128), true},
		{strings.Repeat("n", 129), false},
		{"a b", false},
		{"a:b", false},
		{"a/b", false},
		{"{a}", false},
		{"\u00e9", false},
		{"a\x00", false},
		{"\xff", false},
	} {
		check(t, tc.namespace, locker.ValidateNamespace(tc.namespace), tc.ok)
	}
}

func TestValidateFloor(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	clock := locker.Token(now.UnixMicro())
	for _, tc := range []struct {
		name         string
		floor, fence locker.Token
		ok           bool
	}{
		{"none", 0, 0, true},
		{"the clock", clock, 0, true},
		{"10 s ahead of the clock", clock + 10_000_000, 0, true},
		{"more than 10 s ahead of the clock", clock + 10_000_001, 0, false},
		{"a fence far ahead, stepped", clock + 1<<40 + 1<<20, clock + 1<<40, true},
		{"a fence far ahead, jumped", clock + 1<<40 + 1<<20 + 1, clock + 1<<40, false},
		{"below a fence", clock, clock + 1<<40, true},
		{"the last token", locker.MaxToken, locker.MaxToken - 1, true},
		{"beyond the last token", locker.MaxToken + 1, locker.MaxToken, false},
		{"the highest number", 1<<64 - 1, locker.MaxToken, false},
	} {
		check(t, tc.name, locker.ValidateFloor(tc.floor, tc.fence, now), tc.ok)
	}
}
