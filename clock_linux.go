package locker

import (
	"time"

	"golang.org/x/sys/unix"
)

// suspended returns for how long the machine has been suspended since it booted:
// what CLOCK_BOOTTIME counts and CLOCK_MONOTONIC does not.
func suspended() time.Duration {
	var before, boot, after unix.Timespec
	for range 4 {
		if unix.ClockGettime(unix.CLOCK_MONOTONIC, &before) != nil ||
			unix.ClockGettime(unix.CLOCK_BOOTTIME, &boot) != nil ||
			unix.ClockGettime(unix.CLOCK_MONOTONIC, &after) != nil {
			return 0 // kernels before 2.6.39 have no CLOCK_BOOTTIME
		}
		if after.Nano()-before.Nano() < int64(100*time.Microsecond) {
			break // else this thread was off the CPU between two of the readings
		}
	}
	return time.Duration(boot.Nano() - (before.Nano()+after.Nano())/2)
}
