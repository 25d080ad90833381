package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"syscall"

	"github.com/locker-go/locker"
)

// Exit codes. Those from 64 on are of sysexits.h, which few programs use, so that
// they can be told from those of the command that locker run runs.
const (
	exitFailed        = 1
	exitUsage         = 64
	exitUnavailable   = 69
	exitInternal      = 70
	exitSystem        = 71
	exitNotHeld       = 74
	exitHeld          = 75
	exitEndangered    = 78 // of locker doctor alone
	exitCannotExecute = 126
	exitNotFound      = 127
	exitSignal        = 128 // + its number
)

const exitCodesHelp = `Exit codes:
  64       wrong use: arguments, the URL, or what the backend cannot do
  69       the backend does not answer, or not usefully
  70       an error that should not occur
  71       the operating system refused: no process, no place for the default backend
  74       the lock is not, or no longer, held
  75       somebody else holds the lock
  128+n    ended by signal n`

// exitError is an error with an exit code of its own. Without err nothing is printed.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

func usage(format string, args ...any) error {
	return &exitError{exitUsage, fmt.Errorf(format, args...)}
}

// signalError is the cause of a context that a signal ended.
type signalError struct{ signal os.Signal }

func (e *signalError) Error() string { return "interrupted by signal: " + e.signal.String() }

// classify gives err the exit code of its kind, unless it has one already.
func classify(ctx context.Context, err error) *exitError {
	if interrupt, ok := errors.AsType[*signalError](context.Cause(ctx)); ok {
		return &exitError{code: signalCode(interrupt.signal)}
	}
	if e, ok := errors.AsType[*exitError](err); ok {
		return e
	}
	if errors.Is(err, syscall.EPIPE) && !errors.Is(err, locker.ErrUnavailable) { // of standard output
		return &exitError{code: signalCode(syscall.SIGPIPE)}
	}
	code := exitInternal
	switch {
	case errors.Is(err, locker.ErrHeld):
		code = exitHeld
	case errors.Is(err, locker.ErrNotHeld):
		code = exitNotHeld
	case errors.Is(err, locker.ErrInvalid):
		code = exitUsage
	case errors.Is(err, locker.ErrUnavailable):
		code = exitUnavailable
	}
	return &exitError{code, err}
}

func signalCode(s os.Signal) int {
	if n, ok := s.(syscall.Signal); ok {
		return exitSignal + int(n)
	}
	return exitInternal
}

var userinfo = regexp.MustCompile(`://\S*@`)

// scrub hides user and password of URLs in a message. Errors of this module do not
// show them; what else a URL was given for, such as a flag, may be repeated by
// whoever complains about it.
func scrub(message string) string { return userinfo.ReplaceAllString(message, "://xxxxx@") }
