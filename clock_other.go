//go:build !linux

package locker

import "time"

var started = time.Now()

// suspended returns by how much the wall clock has run ahead of the monotonic one,
// which stands still in a suspend.
func suspended() time.Duration {
	now := time.Now()
	return now.Round(0).Sub(started.Round(0)) - now.Sub(started)
}
