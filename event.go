package locker

// EventKind says what an [Event] reports.
type EventKind string

// The events of a hold begin with EventGranted and end with exactly one of
// EventReleased, EventReleaseFailed and EventLost, so that they can be counted.
const (
	EventGranted       EventKind = "granted"        // a hold began
	EventReleased      EventKind = "released"       // a hold ended as it should
	EventRenewFailed   EventKind = "renew failed"   // one renewal failed; the hold goes on until its deadline
	EventLost          EventKind = "lost"           // a hold ended before it was unlocked
	EventReleaseFailed EventKind = "release failed" // a hold was unlocked; the lock is freed by its TTL instead
	EventFenceJumped   EventKind = "fence jumped"   // a backend's fence or clock differs from this process's clock by more than 10 s

	// A node of several gives no votes for a while, since it may have forgotten grants.
	EventNodeQuarantined EventKind = "node quarantined"
)

// Event tells of something worth counting or alerting on. It carries no secret.
type Event struct {
	Kind    EventKind
	Holding Holding // the lock that it is about, as far as it is known
	Err     error   // why, for what failed
}
