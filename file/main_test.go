//go:build linux || darwin

package file

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/locker-go/locker"
)

// childEnv, where it is set, makes the test binary another process of a test: its
// value names one of children, and its arguments are that one's.
const childEnv = "LOCKER_FILE_TEST_CHILD"

func TestMain(m *testing.M) {
	if name := os.Getenv(childEnv); name != "" {
		go func() { // so that children end with the test, however that ends
			_, _ = io.Copy(io.Discard, os.Stdin)
			os.Exit(3)
		}()
		l, err := New(os.Args[1], nil)
		if err == nil {
			err = children[name](context.Background(), l, os.Args[2:])
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// process is a child that runs.
type process struct {
	*exec.Cmd
	out *bufio.Reader
	in  io.Closer
}

// start starts a child on dir. It is killed at the end of the test, if not before.
func start(t *testing.T, name, dir string, args ...string) *process {
	t.Helper()
	cmd := exec.Command(os.Args[0], append([]string{dir}, args...)...)
	cmd.Env = append(os.Environ(), childEnv+"="+name, "GORACE=atexit_sleep_ms=0")
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p := &process{cmd, bufio.NewReader(out), in}
	t.Cleanup(p.kill)
	return p
}

// line returns the child's next line of output, without its end.
func (p *process) line(t *testing.T) string {
	t.Helper()
	s, err := p.out.ReadString('\n')
	if err != nil {
		t.Fatalf("the child ended or closed its output: %v", err)
	}
	return s[:len(s)-1]
}

// lines returns what the child has still written, line by line. An unfinished line is dropped.
func (p *process) lines() (all []string) {
	for {
		s, err := p.out.ReadString('\n')
		if err != nil {
			return all
		}
		all = append(all, s[:len(s)-1])
	}
}

// kill sends SIGKILL and waits. Errors say only that it had ended before.
func (p *process) kill() {
	_ = p.Process.Kill()
	_, _ = io.Copy(io.Discard, p.out)
	_ = p.Wait()
}

func open(t testing.TB, dir string, opts *Options) *Locker {
	t.Helper()
	l, err := New(dir, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

func acquire(t testing.TB, l locker.Locker, key string, ttl time.Duration) locker.Lease {
	t.Helper()
	lease, err := l.Acquire(t.Context(), key, ttl)
	if err != nil {
		t.Fatal(err)
	}
	return lease
}

func release(t testing.TB, l locker.Locker, lease locker.Lease) {
	t.Helper()
	if err := l.Release(t.Context(), lease); err != nil {
		t.Fatal(err)
	}
}
