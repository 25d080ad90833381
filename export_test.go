package locker

import (
	"sync/atomic"
	"time"
)

// Suspended is for how long the tests' machine has been suspended, in nanoseconds.
var Suspended atomic.Int64

func init() {
	suspended = func() time.Duration { return time.Duration(Suspended.Load()) }
}
