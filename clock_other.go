//go:build !linux

package locker

import "time"

var started = time.Now()

// readSuspended returns by how much the wall clock has run ahead of the monotonic one,
// which stands still in a suspend.
func readSuspended() time.Duration {
	now := time.Now()
	return now.Round(0).Sub(started.Round(0)) - now.Sub(started)
}
