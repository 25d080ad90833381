//go:build unix

package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/unix"
)

// patience is how long a script waits for what must happen.
const patience = time.Minute

func TestScripts(t *testing.T) {
	params := scriptParams()
	params.Dir = "testdata/script"
	testscript.Run(t, params)
}

func scriptParams() testscript.Params {
	return testscript.Params{
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(env *testscript.Env) error {
			env.Setenv("XDG_STATE_HOME", filepath.Join(env.WorkDir, "state"))
			env.Setenv("GORACE", "atexit_sleep_ms=0") // else each command takes a second longer
			env.Values[spawnedKey{}] = make(spawned)
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits":  exits,
			"spawn":  spawn,
			"reap":   reap,
			"signal": sendSignal,
			"await":  await,
			"gone":   gone,
			"rising": rising,
		},
	}
}

type (
	spawnedKey struct{}
	spawned    map[string]*process
	process    struct {
		cmd  *exec.Cmd
		done chan struct{} // closed when cmd has ended
	}
)

func (p *process) code() int {
	if status := p.cmd.ProcessState.Sys().(syscall.WaitStatus); status.Signaled() {
		return -int(status.Signal())
	}
	return p.cmd.ProcessState.ExitCode()
}

// exits CODE COMMAND... runs a command that must end with exactly that exit code.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE COMMAND [ARGUMENT...]")
	}
	code := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		exit, ok := errors.AsType[*exec.ExitError](err)
		if !ok {
			ts.Fatalf("%v", err)
		}
		code = exit.ExitCode()
	}
	if strconv.Itoa(code) != args[0] {
		ts.Fatalf("exit code %d, want %s", code, args[0])
	}
}

// spawn NAME COMMAND... starts a command in the background. Its output goes to
// NAME.out and NAME.err, and its process id to NAME.pid.
func spawn(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: spawn NAME COMMAND [ARGUMENT...]")
	}
	name := args[0]
	cmd := exec.Command(args[1], args[2:]...)
	cmd.Dir = ts.MkAbs(".")
	for _, key := range []string{"PATH", "HOME", "WORK", "XDG_STATE_HOME", "LOCKER_URL", "LOCKER_CONFIG", "GORACE"} {
		cmd.Env = append(cmd.Env, key+"="+ts.Getenv(key))
	}
	// A job of its own, as an interactive shell makes it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := os.Create(ts.MkAbs(name + ".out"))
	ts.Check(err)
	defer out.Close()
	errOut, err := os.Create(ts.MkAbs(name + ".err"))
	ts.Check(err)
	defer errOut.Close()
	cmd.Stdout, cmd.Stderr = out, errOut
	ts.Check(cmd.Start())
	p := &process{cmd, make(chan struct{})}
	go func() {
		defer close(p.done)
		_ = cmd.Wait() // its result is in ProcessState
	}()
	ts.Value(spawnedKey{}).(spawned)[name] = p
	ts.Defer(func() {
		_ = cmd.Process.Kill() // fails if it has ended
		<-p.done
	})
	ts.Check(os.WriteFile(ts.MkAbs(name+".pid"), []byte(strconv.Itoa(cmd.Process.Pid)), 0o600))
}

// reap NAME CODE waits for a command in the background, which must end with that exit code,
// or by the signal -CODE. What it wrote becomes what stdout and stderr look at.
func reap(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: reap NAME CODE")
	}
	p := ts.Value(spawnedKey{}).(spawned)[args[0]]
	if p == nil {
		ts.Fatalf("nothing was spawned as %s", args[0])
	}
	output := func(ext string) []byte {
		b, err := os.ReadFile(ts.MkAbs(args[0] + ext))
		ts.Check(err)
		return b
	}
	select {
	case <-p.done:
	case <-time.After(patience):
		ts.Fatalf("%s has not ended; it wrote\n%s%s", args[0], output(".out"), output(".err"))
	}
	_, err := ts.Stdout().Write(output(".out"))
	ts.Check(err)
	_, err = ts.Stderr().Write(output(".err"))
	ts.Check(err)
	if strconv.Itoa(p.code()) != args[1] {
		ts.Fatalf("%s: exit code %d, want %s\n%s", args[0], p.code(), args[1], output(".err"))
	}
}

// signal SIGNAL FILE sends a signal to the process whose id is in the file.
func sendSignal(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 || unix.SignalNum(args[0]) == 0 {
		ts.Fatalf("usage: signal SIGNAME PIDFILE")
	}
	for _, pid := range pids(ts, args[1]) {
		ts.Check(unix.Kill(pid, unix.SignalNum(args[0])))
	}
}

// await FILE [REGEXP] waits until the file is there, and matches.
func await(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 || len(args) > 2 {
		ts.Fatalf("usage: await FILE [REGEXP]")
	}
	pattern := regexp.MustCompile(strings.Join(args[1:], ""))
	var content []byte
	until(ts, func() bool {
		var err error
		content, err = os.ReadFile(ts.MkAbs(args[0]))
		return err == nil && pattern.Match(content)
	}, func() { ts.Fatalf("%s does not match %s: %s", args[0], pattern, content) })
}

// gone FILE waits until none of the processes whose ids are in the file runs any more; ! gone
// FILE checks that all do.
func gone(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 1 {
		ts.Fatalf("usage: [!] gone PIDFILE")
	}
	for _, pid := range pids(ts, args[0]) {
		if neg {
			if !runs(pid) {
				ts.Fatalf("process %d does not run", pid)
			}
			continue
		}
		until(ts, func() bool { return !runs(pid) }, func() { ts.Fatalf("process %d still runs", pid) })
	}
}

// rising FILE checks that the file has at least two numbers, one a line, which rise.
func rising(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: rising FILE")
	}
	numbers := pids(ts, args[0])
	if len(numbers) < 2 {
		ts.Fatalf("%s has only the numbers %v", args[0], numbers)
	}
	for i := range numbers[1:] {
		if numbers[i] >= numbers[i+1] {
			ts.Fatalf("the numbers in %s do not rise: %v", args[0], numbers)
		}
	}
}

func pids(ts *testscript.TestScript, file string) []int {
	var all []int
	for _, field := range strings.Fields(ts.ReadFile(file)) {
		n, err := strconv.Atoi(field)
		ts.Check(err)
		all = append(all, n)
	}
	return all
}

// runs reports whether a process is there and not a zombie.
func runs(pid int) bool {
	if unix.Kill(pid, 0) == unix.ESRCH {
		return false
	}
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return !errors.Is(err, os.ErrNotExist)
	}
	_, state, _ := bytes.Cut(stat, []byte(") "))
	return len(state) > 0 && state[0] != 'Z' && state[0] != 'X'
}

func until(ts *testscript.TestScript, done func() bool, fail func()) {
	for deadline := time.Now().Add(patience); !done(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			fail()
		}
	}
}
