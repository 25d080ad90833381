package locker

import (
	"math"
	"time"

	"golang.org/x/sys/unix"
)

// readSuspended returns for how long the machine has been suspended since it
// booted: what CLOCK_BOOTTIME counts and CLOCK_MONOTONIC does not. Between two
// readings this thread may be off the CPU; the quickest of a few is taken.
func readSuspended() time.Duration {
	const quick = int64(100 * time.Microsecond)
	var before, boot, after unix.Timespec
	best, took := int64(0), int64(math.MaxInt64)
	for range 4 {
		if unix.ClockGettime(unix.CLOCK_MONOTONIC, &before) != nil ||
			unix.ClockGettime(unix.CLOCK_BOOTTIME, &boot) != nil ||
			unix.ClockGettime(unix.CLOCK_MONOTONIC, &after) != nil {
			return 0 // kernels before 2.6.39 have no CLOCK_BOOTTIME
		}
		if d := after.Nano() - before.Nano(); d < took {
			best, took = boot.Nano()-(before.Nano()+after.Nano())/2, d
		}
		if took < quick {
			break
		}
	}
	return time.Duration(best)
}
