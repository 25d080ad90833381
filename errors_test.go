package locker_test

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/locker-go/locker"
)

func TestOpError(t *testing.T) {
	err := error(&locker.OpError{Op: "renew", Backend: "redis", Key: "a\n\"b\"", Err: fmt.Errorf("%w: %w", locker.ErrUnavailable, io.EOF)})
	wantErr(t, err, locker.ErrUnavailable, io.EOF)
	if errors.Is(err, locker.ErrHeld) || errors.Is(err, locker.ErrNotHeld) || errors.Is(err, locker.ErrInvalid) {
		t.Errorf("%v is too much", err)
	}
	for _, tc := range []struct {
		err  locker.OpError
		want string
	}{
		{locker.OpError{Op: "renew", Backend: "redis", Key: "a\n\"b\"", Err: io.EOF}, `redis: renew "a\n\"b\"": EOF`},
		{locker.OpError{Op: "high-water", Backend: "redis", Err: io.EOF}, `redis: high-water: EOF`},
		{locker.OpError{Op: "acquire", Key: "k", Err: io.EOF}, `acquire "k": EOF`},
	} {
		if got := tc.err.Error(); got != tc.want {
			t.Errorf("got %s, want %s", got, tc.want)
		}
	}
}

func TestLongKeysAreShortenedInMessages(t *testing.T) {
	key := "begin" + strings.Repeat("\u00e9", 500) + "end"
	text := (&locker.OpError{Op: "acquire", Key: key, Err: io.EOF}).Error()
	if len(text) > 150 || !strings.Contains(text, "begin") || !strings.Contains(text, "end") {
		t.Errorf("got %s", text)
	}
}

func TestHeldError(t *testing.T) {
	for _, tc := range []struct {
		holding locker.Holding
		want    string
	}{
		{locker.Holding{}, "held"},
		{locker.Holding{Holder: "host.1#ab"}, "held by host.1#ab"},
		{locker.Holding{Holder: "host.1#ab", Token: 7, Remaining: 1500400 * time.Microsecond}, "held by host.1#ab with token 7, for another 1.5s"},
		{locker.Holding{Holder: "#ab", Remaining: locker.Forever}, "held by #ab, without expiry"},
	} {
		err := error(&locker.HeldError{Holding: tc.holding})
		if err.Error() != tc.want {
			t.Errorf("got %s, want %s", err, tc.want)
		}
		wantErr(t, err, locker.ErrHeld)
		if errors.Is(err, locker.ErrNotHeld) {
			t.Errorf("%v is ErrNotHeld", err)
		}
	}
}
