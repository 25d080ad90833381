package file

import (
	"errors"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/locker-go/locker"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestSmoke(t *testing.T) {
	l, err := New(t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	a, err := l.Acquire(t.Context(), "k", time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.Acquire(t.Context(), "k", time.Second); !errors.Is(err, locker.ErrHeld) {
		t.Fatal(err)
	} else {
		t.Log(err)
	}
	time.AfterFunc(50*time.Millisecond, func() { t.Log(time.Now(), l.Release(t.Context(), a)) })
	b, err := l.AcquireWait(t.Context(), "k", time.Second)
	t.Log(time.Now(), err)
	if err != nil || b.Token <= a.Token {
		t.Fatal(a, b, err)
	}
	b, err = l.Renew(t.Context(), b, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	c, err := l.AcquireWait(t.Context(), "k", time.Second)
	t.Log(c, err, b.Deadline)
}
