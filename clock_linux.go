package locker

import (
	"time"

	"golang.org/x/sys/unix"
)

// readSuspended returns for how long the machine has been suspended since it
// booted: what CLOCK_BOOTTIME counts and CLOCK_MONOTONIC does not. A thread that is
// off the CPU between the two readings gets less. As the start of a lease that makes
// it shorter; as its end it is made good by reading the time after it.
func readSuspended() time.Duration {
	var boot, monotonic unix.Timespec
	if unix.ClockGettime(unix.CLOCK_BOOTTIME, &boot) != nil || unix.ClockGettime(unix.CLOCK_MONOTONIC, &monotonic) != nil {
		return 0 // kernels before 2.6.39 have no CLOCK_BOOTTIME
	}
	return time.Duration(boot.Nano() - monotonic.Nano())
}
