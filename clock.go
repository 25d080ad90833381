package locker

import "time"

// Instant is a reading of the clock that leases are measured with: monotonic, and
// running on while the machine is suspended (on Linux by CLOCK_BOOTTIME; on other
// systems a suspend is inferred from the wall clock, so that there a wall clock
// set forward ends leases early). A virtual machine that was paused from outside
// cannot know it; that is what fencing tokens are for.
type Instant struct {
	at        time.Time
	suspended time.Duration
}

// suspended returns for how long the machine has been suspended since some moment
// in the past. Tests replace it.
var suspended = readSuspended

// Now reads the clock.
func Now() Instant { return Instant{time.Now(), suspended()} }

// Elapsed returns the time since i, suspended time included.
func (i Instant) Elapsed() time.Duration { return suspendedSince(i.suspended) + time.Since(i.at) }

// Add returns the instant d after i.
func (i Instant) Add(d time.Duration) Instant { return Instant{i.at.Add(d), i.suspended} }

// suspendedSince returns for how long the machine was suspended after a call of
// suspended returned then. The two clocks behind it cannot be read in one step, so
// that a difference within the drift allowance is none.
func suspendedSince(then time.Duration) time.Duration {
	if d := suspended() - then; d > time.Millisecond {
		return d
	}
	return 0
}

// drift is what a lease is cut short by, so that a clock that runs faster here
// than the backend's does not outlast the backend's promise.
func drift(kept time.Duration) time.Duration { return kept/100 + 2*time.Millisecond }
