package locker

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestElapsedCountsTheTimeInSuspend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := Now()
		time.Sleep(time.Second)
		if d := i.Elapsed(); d != time.Second {
			t.Errorf("%s elapsed, want 1 s", d)
		}
		Suspended.Add(int64(time.Hour))
		if d := i.Elapsed(); d != time.Hour+time.Second {
			t.Errorf("%s elapsed, want 1 h and 1 s", d)
		}
		Suspended.Add(-int64(2 * time.Hour)) // as a wall clock that was set back
		if d := i.Elapsed(); d != time.Second {
			t.Errorf("%s elapsed, want 1 s", d)
		}
		Suspended.Add(int64(time.Hour + 900*time.Microsecond)) // the two clocks cannot be read in one step
		if d := i.Elapsed(); d != time.Second {
			t.Errorf("%s elapsed, want 1 s", d)
		}
	})
}

// On a machine that is not suspended just now, two readings agree.
func TestReadSuspendedIsSteady(t *testing.T) {
	first := readSuspended()
	if first < -time.Second {
		t.Errorf("suspended for %s", first)
	}
	for range 1000 {
		if d := readSuspended() - first; d > 100*time.Millisecond || d < -100*time.Millisecond {
			t.Fatalf("two readings are %s apart", d)
		}
	}
}
