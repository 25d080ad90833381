package zookeeper

import (
	"time"

	"github.com/locker-go/locker"
)

// moment is a reading of the clock of leases, as the time since this process began. They
// can be compared, which instants cannot.
type moment time.Duration

var began = locker.Now()

func now() moment { return moment(began.Elapsed()) }

func (m moment) instant() locker.Instant { return began.Add(time.Duration(m)) }

// since returns the time from earlier to m.
func (m moment) since(earlier moment) time.Duration { return time.Duration(m - earlier) }

func (m moment) add(d time.Duration) moment { return m + moment(d) }
