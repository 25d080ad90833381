//go:build unix

package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/locker-go/locker"
	"github.com/locker-go/locker/cmd/locker/internal/group"
)

const (
	// lingering is how long what the command leaves behind may take to end by itself:
	// enough for the last lines of a tee.
	lingering = time.Second

	// overdue is the time from SIGTERM to SIGKILL at most when the lease has ended
	// already, and somebody else may hold the lock.
	overdue = time.Second

	// undying is how long to wait for a group after SIGKILL.
	undying = 2 * time.Second

	emptyPoll = 5 * time.Millisecond // of a group whose command has ended
)

// stage says how far the end of the group has come.
type stage int

const (
	running    stage = iota
	ended            // the command has ended; what it left may end by itself
	terminated       // the group got SIGTERM
	killed           // the group got SIGKILL
)

// supervisor watches a command, the lock that it needs, and the signals for it.
type supervisor struct {
	app       *app
	group     *group.Group
	hold      *locker.Hold
	killAfter time.Duration
	terminal  *group.Terminal // nil without one
	given     bool            // the terminal, to the group
	stage     stage
	next      *time.Timer // the next stage is due
	lost      bool        // the lock, or it is about to be
	status    int         // the exit code of the command
}

// newSupervisor returns the supervisor of a command that is about to start. From now
// on the signals of job control, too, are the command's.
func newSupervisor(a *app, g *group.Group, hold *locker.Hold, killAfter time.Duration) *supervisor {
	s := &supervisor{
		app:       a,
		group:     g,
		hold:      hold,
		killAfter: min(killAfter, hold.Lease().TTL/2), // of a backend that granted less than asked
		terminal:  group.OpenTerminal(),
		next:      time.NewTimer(time.Hour),
	}
	s.next.Stop()
	signal.Notify(a.signals, syscall.SIGTSTP, syscall.SIGCONT, syscall.SIGWINCH)
	return s
}

// supervise returns the exit code of the command when nothing is left of its group.
func (s *supervisor) supervise() int {
	if s.terminal != nil {
		signal.Ignore(syscall.SIGTTOU) // else taking back the terminal would stop us
		defer s.terminal.Close()
		if s.terminal.Is(os.Stdin) && s.terminal.Is(os.Stdout) && s.terminal.Ours() {
			s.giveTerminal()
		}
	}
	lease := time.NewTimer(s.untilLate())
	defer lease.Stop()
	lost := s.hold.Lost()
	poll := time.NewTicker(emptyPoll)
	poll.Stop()
	defer poll.Stop()
	alive := true
	for {
		select {
		case sig := <-s.app.signals:
			s.signal(sig.(syscall.Signal))
		case change := <-s.group.Changes():
			if change.Stopped() {
				s.stopped(change.StopSignal())
				continue
			}
			alive = false
			s.exited(change)
			poll.Reset(emptyPoll)
		case <-lease.C:
			left := s.untilLate()
			if left <= 0 {
				s.lose()
				continue
			}
			lease.Reset(left)
		case <-lost:
			lost = nil
			s.lose()
		case <-s.next.C:
			if s.stage == killed && !alive {
				s.app.logf("processes of the group %d remain although they were killed", s.group.ID())
				return s.status
			}
			s.advance()
		case <-poll.C:
		}
		if !alive && s.group.Empty() {
			return s.status
		}
	}
}

// untilLate returns for how long the lease can go without renewal before the command
// must be ended, or a second: timers stand still in a suspend.
func (s *supervisor) untilLate() time.Duration {
	return min(s.hold.Lease().Remaining()-s.killAfter, time.Second)
}

// signal passes a signal on.
func (s *supervisor) signal(sig syscall.Signal) {
	if sig == syscall.SIGCONT {
		s.resume()
		return
	}
	s.group.Signal(sig)
}

// exited notes how the command ended.
func (s *supervisor) exited(change group.Change) {
	s.status = change.ExitStatus()
	if change.Signaled() {
		s.status = exitSignal + int(change.Signal())
	}
	if s.terminal != nil {
		_ = s.terminal.TakeBack(s.group.ID()) // fails if the terminal is gone
	}
	if s.stage == running {
		s.enter(ended, lingering)
	}
}

// lose ends the command because the lock is lost or will be before it can be renewed.
func (s *supervisor) lose() {
	if s.lost {
		return
	}
	s.lost = true
	left, grace := s.hold.Lease().Remaining(), s.killAfter
	switch why := context.Cause(s.hold.Context()); {
	case why != nil:
		s.app.logf("the lock is lost, so the command is ended: %v", why)
	case left > 0:
		s.app.logf("the lock could not be renewed and will be lost in %s, so the command is ended", left.Round(time.Millisecond))
		grace = min(grace, left)
	default:
		s.app.logf("the lock is lost, so the command is ended: nobody renewed it, as while locker is stopped")
	}
	if left <= 0 {
		grace = min(grace, overdue)
	}
	if s.stage < terminated {
		s.terminate(grace)
	}
}

// advance enters the next stage.
func (s *supervisor) advance() {
	switch s.stage {
	case ended:
		s.app.logf("the command has ended and left processes behind, which are ended too")
		s.terminate(s.killAfter)
	case terminated, killed:
		s.group.Signal(syscall.SIGKILL)
		s.enter(killed, undying)
	}
}

// terminate asks the group to end within grace.
func (s *supervisor) terminate(grace time.Duration) {
	s.group.Signal(syscall.SIGTERM)
	s.group.Signal(syscall.SIGCONT) // what is stopped cannot end
	s.enter(terminated, grace)
}

func (s *supervisor) enter(next stage, limit time.Duration) {
	s.stage = next
	s.next.Reset(limit)
}
