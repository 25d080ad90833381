package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// screen is a terminal with a session of its own.
type screen struct {
	t    *testing.T
	user *os.File // the user's end
	cmd  *exec.Cmd
	dir  string

	mu      sync.Mutex
	written bytes.Buffer
	seen    int // of what was written, by await
}

// onTerminal starts a program as the first of a session on a new terminal, by default
// with all three standard files on it.
func onTerminal(t *testing.T, change func(*exec.Cmd), name string, args ...string) *screen {
	t.Helper()
	user, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY|unix.O_NONBLOCK, 0)
	if err != nil {
		t.Skipf("no terminals here: %v", err)
	}
	t.Cleanup(func() { user.Close() })
	n, err := unlock(user)
	if err != nil {
		t.Fatal(err)
	}
	tty, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer tty.Close()
	s := &screen{t: t, user: user, dir: t.TempDir()}
	s.cmd = exec.Command(name, args...)
	s.cmd.Stdin, s.cmd.Stdout, s.cmd.Stderr = tty, tty, tty
	s.cmd.Dir = s.dir
	s.cmd.Env = append(os.Environ(), "XDG_STATE_HOME="+filepath.Join(s.dir, "state"), "GORACE=atexit_sleep_ms=0", "PS1=prompt>", "LOCKER_URL=")
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if change != nil {
		change(s.cmd)
	}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	read := make(chan struct{})
	go func() {
		defer close(read)
		b := make([]byte, 1024)
		for {
			n, err := user.Read(b)
			s.mu.Lock()
			s.written.Write(b[:n])
			s.mu.Unlock()
			if err != nil { // EIO: nobody has the terminal open any more
				return
			}
		}
	}()
	t.Cleanup(func() {
		user.Close() // hangs up on all who are left
		_ = s.cmd.Process.Kill()
		_ = s.cmd.Wait()
		<-read
	})
	return s
}

// unlock lets the other end of the terminal be opened, and returns its number.
func unlock(user *os.File) (n int, err error) {
	conn, err := user.SyscallConn() // unlike Fd it leaves Close able to end a Read
	if err != nil {
		return 0, err
	}
	controlErr := conn.Control(func(fd uintptr) {
		if err = unix.IoctlSetPointerInt(int(fd), unix.TIOCSPTLCK, 0); err == nil {
			n, err = unix.IoctlGetInt(int(fd), unix.TIOCGPTN)
		}
	})
	return n, errors.Join(controlErr, err)
}

// await waits for text that was not waited for before.
func (s *screen) await(text string) {
	s.t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		s.mu.Lock()
		all := s.written.String()
		at := strings.Index(all[s.seen:], text)
		if at >= 0 {
			s.seen += at + len(text)
			s.mu.Unlock()
			return
		}
		s.mu.Unlock()
		if time.Now().After(deadline) {
			s.t.Fatalf("%q does not come; the terminal shows\n%s", text, all)
		}
	}
}

func (s *screen) enter(keys string) {
	s.t.Helper()
	if _, err := s.user.WriteString(keys); err != nil {
		s.t.Fatal(err)
	}
}

// ends waits for the end of the program.
func (s *screen) ends(code int) {
	s.t.Helper()
	stuck := time.AfterFunc(patience, func() { _ = s.cmd.Process.Kill() })
	defer stuck.Stop()
	_ = s.cmd.Wait()
	if got := s.cmd.ProcessState.ExitCode(); got != code {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.t.Errorf("exit code %d, want %d; the terminal shows\n%s", got, code, s.written.String())
	}
}

const (
	ctrlC = "\x03"
	ctrlZ = "\x1a"
)

// reader asks for a line and tells what it got. The text that it prints is not the
// text of the command, which the terminal may show as well.
var reader = []string{"locker", "run", "k", "--", "sh", "-c", `printf 're%s\n' ady >/dev/tty; read x; printf 'got %s\n' "$x" >/dev/tty`}

// elsewhere makes standard output something else than the terminal.
func elsewhere(cmd *exec.Cmd) { cmd.Stdout = nil }

// A command in a background group that reads from the terminal is stopped, and one that
// is not in the foreground group gets no Ctrl-C: both must work as without locker.
func TestCommandUsesTheTerminal(t *testing.T) {
	for name, change := range map[string]func(*exec.Cmd){"on it": nil, "output elsewhere": elsewhere} {
		t.Run(name, func(t *testing.T) {
			s := onTerminal(t, change, reader[0], reader[1:]...)
			s.await("ready")
			s.enter("line\n")
			s.await("got line")
			s.ends(0)
		})
		t.Run(name+", Ctrl-C", func(t *testing.T) {
			s := onTerminal(t, change, reader[0], reader[1:]...)
			s.await("ready")
			s.enter(ctrlC)
			s.ends(exitSignal + int(syscall.SIGINT))
		})
		t.Run(name+", Ctrl-Z without a shell", func(t *testing.T) {
			s := onTerminal(t, change, reader[0], reader[1:]...)
			s.await("ready")
			s.enter(ctrlZ + "line\n") // stops nothing that nobody could continue
			s.await("got line")
			s.ends(0)
		})
	}
}

// A script, whose shell has no job control, reads from the terminal next.
func TestTerminalIsGivenBack(t *testing.T) {
	const script = `locker run k -- sh -c 'printf "re%s\n" ady; read x'; read y; echo "then $y"`
	s := onTerminal(t, nil, "sh", "-c", script)
	s.await("ready")
	s.enter("line\n")
	s.enter("next\n")
	s.await("then next")
	s.ends(0)
}

func shell(t *testing.T) *screen {
	t.Helper()
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skip("needs bash, whose job control is what most people have")
	}
	s := onTerminal(t, nil, "bash", "--norc", "--noprofile", "--noediting", "-i")
	s.await("prompt>")
	return s
}

const shellReader = `locker run k %s -- sh -c 'printf "re%%s\n" ady >/dev/tty; read x; printf "got %%s\n" "$x"' %s` + "\n"

func TestJobControl(t *testing.T) {
	for _, output := range []string{"", "| cat"} {
		t.Run("stopped and continued "+output, func(t *testing.T) {
			s := shell(t)
			s.enter(fmt.Sprintf(shellReader, "", output))
			s.await("ready")
			s.enter(ctrlZ)
			s.await("Stopped")
			s.await("prompt>")
			s.enter("fg\n")
			s.await("locker run")
			s.enter("line\n")
			s.await("got line")
			s.await("prompt>")
			s.enter("exit 5\n")
			s.ends(5)
		})
	}
}

func TestStoppedForLongerThanTheLease(t *testing.T) {
	s := shell(t)
	s.enter(fmt.Sprintf(shellReader, "--ttl 500ms", ""))
	s.await("ready")
	s.enter(ctrlZ)
	s.await("Stopped")
	s.await("prompt>")
	s.enter("locker run k -- printf 'fr%s\\n' ee\n") // waits for the lease to end
	s.await("free")
	s.await("prompt>")
	s.enter("fg; printf 'code %s\\n' $?\n")
	s.await("the lock is lost")
	s.await("code 74")
	s.await("prompt>")
	s.enter("exit 0\n")
	s.ends(0)
}

func TestBackgroundJobStopsWhenItReads(t *testing.T) {
	s := shell(t)
	s.enter(strings.TrimSuffix(fmt.Sprintf(shellReader, "", ""), "\n") + "&\n")
	s.await("ready")
	s.enter("until jobs | grep Stopped; do sleep 0.01; done; printf 'does %s\\n' stop\n")
	s.await("does stop")
	s.enter("fg\n")
	s.await("locker run")
	s.enter("line\n")
	s.await("got line")
	s.await("prompt>")
	s.enter("exit 0\n")
	s.ends(0)
}
