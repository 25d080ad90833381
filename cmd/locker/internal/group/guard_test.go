//go:build unix

package group

import (
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestGuard(t *testing.T) {
	for _, test := range []struct {
		name, input string // %d is the group
		killed      bool
	}{
		{"its process is gone", "%d\n", true},
		{"its process is gone in the middle of a line", "%d\ndo", true},
		{"dismissed", "%d\ndone\n", false},
		{"no group yet", "", false},
		{"dismissed before there was a group", "done\n%d\n", false},
		{"not a group", "1\n0\n-%d\nx\n", false}, // -1 would be every process there is
	} {
		t.Run(test.name, func(t *testing.T) {
			cmd := exec.Command("sleep", "1000")
			cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			Guard(strings.NewReader(strings.ReplaceAll(test.input, "%d", fmt.Sprint(cmd.Process.Pid))))
			// If the guard has killed it this comes second. The guard ignores what is usual
			// for the rest of the process's life, and so do the commands started then.
			if err := cmd.Process.Signal(syscall.SIGVTALRM); err != nil {
				t.Fatal(err)
			}
			_ = cmd.Wait() // how it ended is looked at next
			want := syscall.SIGVTALRM
			if test.killed {
				want = syscall.SIGKILL
			}
			if got := cmd.ProcessState.Sys().(syscall.WaitStatus).Signal(); got != want {
				t.Errorf("the group ended by %v, want %v", got, want)
			}
		})
	}
}
