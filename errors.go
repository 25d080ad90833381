package locker

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// The kinds of failure. Every error of a Locker is one of them, by errors.Is.
var (
	// ErrHeld says that somebody else holds the lock. See also [HeldError].
	ErrHeld = errors.New("lock is held")

	// ErrNotHeld says that the lease is not, or no longer, the current grant of
	// its key: it expired, was released, or was broken.
	ErrNotHeld = errors.New("lock is not held")

	// ErrInvalid says that an argument can never be right. Nothing was sent.
	ErrInvalid = errors.New("invalid argument")

	// ErrUnavailable says that the backend gave no usable answer in time.
	ErrUnavailable = errors.New("backend unavailable")
)

// OpError tells which operation failed, where, and on which key.
type OpError struct {
	Op      string // acquire, renew, release, fence, inspect, list, break, raise, high-water, diagnose
	Backend string // the backend's name, such as redis; may be empty
	Key     string // may be empty
	Err     error
}

func (e *OpError) Error() string {
	var b strings.Builder
	if e.Backend != "" {
		b.WriteString(e.Backend + ": ")
	}
	b.WriteString(e.Op)
	if e.Key != "" {
		b.WriteString(" " + quoteKey(e.Key))
	}
	b.WriteString(": " + e.Err.Error())
	return b.String()
}

func (e *OpError) Unwrap() error { return e.Err }

// HeldError is an ErrHeld that tells what is known of the holder. Fields that are
// not known are zero.
type HeldError struct{ Holding }

func (e *HeldError) Error() string {
	var b strings.Builder
	b.WriteString("held")
	if e.Holder != "" {
		b.WriteString(" by " + e.Holder)
	}
	if e.Token != 0 {
		fmt.Fprintf(&b, " with token %d", e.Token)
	}
	switch {
	case e.Remaining == Forever:
		b.WriteString(", without expiry")
	case e.Remaining > 0:
		fmt.Fprintf(&b, ", for another %s", e.Remaining.Round(time.Millisecond))
	}
	return b.String()
}

// Is makes errors.Is(err, ErrHeld) true.
func (e *HeldError) Is(target error) bool { return target == ErrHeld }

// quoteKey quotes a key for a message, shortened in the middle where it is long.
func quoteKey(key string) string {
	const most = 80
	if len(key) > most {
		return strconv.QuoteToGraphic(key[:most/2]) + "..." + strconv.QuoteToGraphic(key[len(key)-most/4:])
	}
	return strconv.QuoteToGraphic(key)
}
