//go:build unix

package main

import (
	"os/signal"
	"syscall"
	"time"
)

// A terminal has one foreground group, which gets its signals and may read from it; who
// else reads is stopped. The shell makes our job that group, and knows nothing of the
// command's. If standard input and output are the terminal, nobody else in the job can need
// it, and the command's group gets it at once. Else (locker run ... | less) it gets it
// when it wants it, which shows in that it is stopped.

// giveTerminal makes the command's group the foreground group.
func (s *supervisor) giveTerminal() {
	if s.terminal.Give(s.group.ID()) == nil {
		s.given = true
		s.group.Signal(syscall.SIGCONT) // it may have been stopped just before
	}
}

// stopped does what is due when a signal has stopped the command.
func (s *supervisor) stopped(by syscall.Signal) {
	switch {
	case s.terminal == nil || s.stage != running:
		return
	case by == syscall.SIGTTIN || by == syscall.SIGTTOU:
		if s.terminal.Has(s.group.ID()) { // it was stopped just before it got it
			s.group.Signal(syscall.SIGCONT)
			return
		}
		if s.terminal.Ours() {
			s.giveTerminal()
			return
		}
	case by != syscall.SIGTSTP:
		return // somebody stopped the command alone
	}
	// Stop our job, as the terminal would have, for the shell to see. Nobody renews
	// until it goes on.
	signal.Ignore(syscall.SIGTSTP)
	_ = syscall.Kill(0, syscall.SIGTSTP) // cannot fail: this process is there
	signal.Notify(s.app.signals, syscall.SIGTSTP)
	// This process itself stops by a signal that it never caught, since the runtime
	// does not give back the default action of one that it did. Where no shell could
	// continue us, the kernel does not let us stop. It takes a moment to know.
	_ = syscall.Kill(syscall.Getpid(), syscall.SIGTTIN)
	time.Sleep(100 * time.Millisecond)
	s.resume()
}

// resume lets a command that was stopped go on, if the lock is still held.
func (s *supervisor) resume() {
	if s.untilLate() <= 0 {
		s.lose()
		return
	}
	if s.given && s.terminal.Ours() {
		s.giveTerminal()
		return
	}
	s.group.Signal(syscall.SIGCONT)
}
