package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"syscall"
	"testing"

	"github.com/locker-go/locker"
)

func TestClassify(t *testing.T) {
	interrupted, cancel := context.WithCancelCause(t.Context())
	cancel(&signalError{syscall.SIGTERM})
	for _, test := range []struct {
		name string
		ctx  context.Context
		err  error
		code int
	}{
		{"held, and waiting ended", t.Context(), fmt.Errorf("%w: %w", locker.ErrHeld, context.DeadlineExceeded), 75},
		{"held", t.Context(), &locker.OpError{Op: "acquire", Err: &locker.HeldError{}}, 75},
		{"not held", t.Context(), &locker.OpError{Op: "renew", Err: locker.ErrNotHeld}, 74},
		{"unavailable", t.Context(), fmt.Errorf("%w: %w", locker.ErrUnavailable, io.EOF), 69},
		{"invalid", t.Context(), locker.ErrInvalid, 64},
		{"with a code of its own", t.Context(), errors.Join(&exitError{126, io.EOF}, locker.ErrUnavailable), 126},
		{"unexpected", t.Context(), io.EOF, 70},
		{"signal", interrupted, locker.ErrUnavailable, 128 + 15},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := classify(test.ctx, test.err).code; got != test.code {
				t.Errorf("got %d, want %d", got, test.code)
			}
		})
	}
}

func TestScrub(t *testing.T) {
	for in, want := range map[string]string{
		"redis://u:c4n4ry@h:1/0 failed":           "redis://xxxxx@h:1/0 failed",
		`"redis://u:c4@n4ry/x@h" and "x@y"`:       `"redis://xxxxx@h" and "x@y"`,
		"file:///home/a: not a directory":         "file:///home/a: not a directory",
		"two: redis://a:b@h\nredis+x://c:d@h1,h2": "two: redis://xxxxx@h\nredis+x://xxxxx@h1,h2",
	} {
		if got := scrub(in); got != want {
			t.Errorf("scrub(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestShow(t *testing.T) { // a key or a holder must not move columns, or control the terminal
	for in, want := range map[string]string{
		"a/b:c{d}": "a/b:c{d}", "": `""`, "a b": `"a b"`, "a\tb": `"a\tb"`, "\x1b[2J": `"\x1b[2J"`, "é": "é", "\u202e": `"\u202e"`, `"`: `"\""`,
	} {
		if got := show(in); got != want {
			t.Errorf("show(%q) = %s, want %s", in, got, want)
		}
	}
}
