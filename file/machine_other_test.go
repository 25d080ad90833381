//go:build !linux && !darwin

package file

import (
	"errors"
	"testing"

	"github.com/locker-go/locker"
)

func TestNewSaysThatItDoesNotWork(t *testing.T) {
	if _, err := New(t.TempDir(), nil); !errors.Is(err, locker.ErrUnavailable) || !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("got %v, want ErrUnavailable and ErrUnsupported", err)
	}
}
