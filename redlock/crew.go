package redlock

import (
	"sync"
	"time"
)

// idle is how long a goroutine of a crew waits for more to do.
const idle = time.Second

// crew runs functions at once, in goroutines that it uses again: their stacks have
// grown to what a request takes, which costs as much as all else in this process.
type crew struct {
	jobs   chan func()
	closed chan struct{}
	wg     sync.WaitGroup
}

func newCrew() *crew {
	return &crew{jobs: make(chan func()), closed: make(chan struct{})}
}

// run has f run.
func (c *crew) run(f func()) {
	select {
	case c.jobs <- f:
	default:
		c.wg.Go(func() { c.work(f) })
	}
}

func (c *crew) work(f func()) {
	timer := time.NewTimer(idle)
	defer timer.Stop()
	for {
		f()
		timer.Reset(idle)
		select {
		case f = <-c.jobs:
		case <-timer.C:
			return
		case <-c.closed:
			return
		}
	}
}

// close waits for what runs. Nothing may be run from now on.
func (c *crew) close() {
	close(c.closed)
	c.wg.Wait()
}
