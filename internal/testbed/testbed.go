// Package testbed starts real servers for tests and breaks them: it stops, kills,
// pauses and restarts them, and puts a [Proxy] in front that delays, withholds and
// loses what passes.
//
// Servers listen on free loopback ports, keep their data in temporary directories,
// and die with the test binary, also when that is killed. Where the program of a
// server is not installed, a test is skipped and says so; with the environment
// variable LOCKER_TEST_SERVERS=require, which make test sets, it fails. Another etcd
// than the one that make servers builds is named by LOCKER_TEST_ETCD.
package testbed

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

const (
	startTimeout = 30 * time.Second
	stopTimeout  = 10 * time.Second
	startTries   = 5
)

// program returns the path of the first of the names that is installed. What to
// install is for the message.
func program(t testing.TB, install string, names ...string) string {
	t.Helper()
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	missing(t, fmt.Sprintf("no %s is installed: apt-get install %s, or run make test", names[0], install))
	return ""
}

// missing ends a test that has no server.
func missing(t testing.TB, message string) {
	t.Helper()
	if os.Getenv("LOCKER_TEST_SERVERS") == "require" {
		t.Fatal(message)
	}
	t.Skip(message)
}

// Spec describes a server to start.
type Spec struct {
	Name string // for messages
	Path string // of the program
	Arg0 string // what it is called as, if not as the path says
	Env  []string

	// Args are for a server that listens on port and has its data in dir.
	Args func(port int, dir string) []string

	// Ready returns nil once the server at addr serves requests.
	Ready func(ctx context.Context, addr string) error
}

// Server is a process that a test started. Its methods fail the test.
type Server struct {
	t    testing.TB
	spec Spec
	port int
	dir  string
	log  string // a file

	cmd  *exec.Cmd
	done chan struct{} // closed when the process has ended
}

// Start starts a server, which ends with the test.
func Start(t testing.TB, spec Spec) *Server {
	t.Helper()
	s := &Server{t: t, spec: spec, dir: filepath.Join(t.TempDir(), "data"), log: filepath.Join(t.TempDir(), "log")}
	t.Cleanup(func() {
		if s.cmd != nil {
			s.Kill()
		}
		if t.Failed() {
			t.Logf("%s: its log ends with\n%s", s, s.logTail())
		}
	})
	var err error
	for range startTries { // a stranger may take the port first
		s.port = reservePort(t)
		if err = s.start(); err == nil {
			return s
		}
	}
	t.Fatalf("%s did not start: %v\n%s", s, err, s.logTail())
	return nil
}

func (s *Server) String() string { return s.spec.Name + " at " + s.Addr() }

// Addr returns the address that the server listens on.
func (s *Server) Addr() string { return loopback(s.port) }

// Port returns the port of Addr.
func (s *Server) Port() int { return s.port }

// Pid returns the process's id.
func (s *Server) Pid() int { return s.cmd.Process.Pid }

// start starts the process and waits until it serves.
func (s *Server) start() error {
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return err
	}
	log, err := os.OpenFile(s.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(s.spec.Path, s.spec.Args(s.port, s.dir)...)
	if s.spec.Arg0 != "" {
		cmd.Args[0] = s.spec.Arg0
	}
	cmd.Dir, cmd.Stdout, cmd.Stderr = s.dir, log, log
	cmd.Env = append(os.Environ(), s.spec.Env...)
	cmd.SysProcAttr = diesWithParent()
	started, done := make(chan error), make(chan struct{})
	go func() {
		defer close(done)
		// The kernel ends the child with the thread that started it.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // how it ended is in its log
		}
	}()
	if err := <-started; err != nil {
		<-done
		return err
	}
	s.cmd, s.done = cmd, done
	if err := s.await(); err != nil {
		s.Kill()
		return err
	}
	return nil
}

// await waits until the server serves, and gives up when it has ended.
func (s *Server) await() error {
	ctx, cancel := context.WithTimeout(s.t.Context(), startTimeout)
	defer cancel()
	for {
		err := s.spec.Ready(ctx, s.Addr())
		if err == nil {
			return nil
		}
		select {
		case <-s.done:
			return fmt.Errorf("it ended at once: %w", err)
		case <-ctx.Done():
			return fmt.Errorf("it does not serve after %s: %w", startTimeout, err)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func (s *Server) signal(sig os.Signal) {
	s.t.Helper()
	if s.cmd == nil {
		s.t.Fatalf("%s is not running", s)
	}
	if err := s.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		s.t.Logf("%s: %v: %v", s, sig, err)
	}
}

func (s *Server) end(sig os.Signal) {
	s.t.Helper()
	s.signal(sig)
	select {
	case <-s.done:
	case <-time.After(stopTimeout):
		s.t.Errorf("%s did not end within %s of %v", s, stopTimeout, sig)
		s.signal(os.Kill)
		<-s.done
	}
	s.cmd = nil
}

// Stop ends the server as an operator would.
func (s *Server) Stop() { s.t.Helper(); s.end(syscall.SIGTERM) }

// Kill ends the server as a power failure would.
func (s *Server) Kill() { s.t.Helper(); s.end(os.Kill) }

// Pause stops the server from running, until Resume. Connections stay open.
func (s *Server) Pause() { s.t.Helper(); s.signal(stopSignal) }

// Resume undoes Pause.
func (s *Server) Resume() { s.t.Helper(); s.signal(continueSignal) }

// Restart kills the server and starts it again on the same port, with the data that
// it keeps or with none.
func (s *Server) Restart(keepData bool) {
	s.t.Helper()
	s.Kill()
	if !keepData {
		s.wipe()
	}
	s.StartAgain()
}

func (s *Server) wipe() {
	s.t.Helper()
	if err := os.RemoveAll(s.dir); err != nil {
		s.t.Fatalf("%s: remove its data: %v", s, err)
	}
}

func (s *Server) copyData(to, from string) {
	s.t.Helper()
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		s.t.Fatalf("%s: copy its data: %v", s, err)
	}
}

// StartAgain starts a server that was stopped or killed, on the same port.
func (s *Server) StartAgain() {
	s.t.Helper()
	if err := s.start(); err != nil {
		s.t.Fatalf("%s did not start again: %v\n%s", s, err, s.logTail())
	}
}

func (s *Server) logTail() string {
	b, err := os.ReadFile(s.log)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	return strings.Join(lines[max(0, len(lines)-20):], "\n")
}

// until polls a condition of servers, and fails the test if it does not come.
func until(t testing.TB, what string, condition func(ctx context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
	defer cancel()
	for {
		err := condition(ctx)
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("waited in vain until %s: %v", what, err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}
