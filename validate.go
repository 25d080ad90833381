package locker

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

const (
	// MaxKeyLen is how many bytes a key may have.
	MaxKeyLen = 1024

	// MinTTL is the shortest TTL; drift would eat a shorter one.
	MinTTL = 10 * time.Millisecond

	// MaxTTL is the longest TTL: a hundred years, beyond which clocks overflow.
	MaxTTL = 100 * 365 * 24 * time.Hour
)

// ValidateKey returns an ErrInvalid unless key is valid UTF-8 of 1 to MaxKeyLen
// bytes without a NUL. Every backend takes exactly the keys that pass, and takes
// keys that differ in any byte as different locks.
func ValidateKey(key string) error {
	switch {
	case key == "":
		return fmt.Errorf("%w: the key is empty; a key has 1 to %d bytes", ErrInvalid, MaxKeyLen)
	case len(key) > MaxKeyLen:
		return fmt.Errorf("%w: the key has %d bytes; a key has 1 to %d", ErrInvalid, len(key), MaxKeyLen)
	case !utf8.ValidString(key):
		return fmt.Errorf("%w: the key is not valid UTF-8", ErrInvalid)
	case strings.IndexByte(key, 0) >= 0:
		return fmt.Errorf("%w: the key has a NUL byte", ErrInvalid)
	}
	return nil
}

// ValidateTTL returns an ErrInvalid unless ttl is from MinTTL to MaxTTL.
func ValidateTTL(ttl time.Duration) error {
	if ttl < MinTTL || ttl > MaxTTL {
		return fmt.Errorf("%w: the TTL is %s; it must be from %s to %s", ErrInvalid, ttl, MinTTL, MaxTTL)
	}
	return nil
}

// ValidateNamespace returns an ErrInvalid unless namespace consists of letters,
// digits, and the characters '.', '_' and '-', and has at most 128 of them. Two
// namespaces on one store never meet. The empty one passes; a backend for which
// it has no meaning refuses it.
func ValidateNamespace(namespace string) error {
	const most = 128
	bad := strings.IndexFunc(namespace, func(r rune) bool { return !namespaceRune(r) })
	if bad >= 0 || len(namespace) > most {
		return fmt.Errorf("%w: the namespace %q must have at most %d characters of A-Z a-z 0-9 . _ -", ErrInvalid, namespace, most)
	}
	return nil
}

func namespaceRune(r rune) bool {
	return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r == '.' || r == '_' || r == '-'
}

const (
	// fenceLead is how far a fence may be lifted ahead of the clock.
	fenceLead = 10 * time.Second

	// fenceStep is how far a fence that is ahead of the clock already may be lifted.
	fenceStep = 1 << 20
)

// ValidateFloor returns an ErrInvalid if lifting a fence to floor would take it
// absurdly far ahead: more than 10 s (in microseconds) ahead of now, the clock of
// whoever keeps the fence, and also more than 2^20 above fence, where it stands.
func ValidateFloor(floor, fence Token, now time.Time) error {
	most := max(Token(now.Add(fenceLead).UnixMicro()), fence+fenceStep)
	if floor > min(most, MaxToken) {
		return fmt.Errorf("%w: the token %d is too far ahead of the clock (%s): at most %d is allowed",
			ErrInvalid, floor, now.UTC().Format(time.RFC3339), min(most, MaxToken))
	}
	return nil
}
