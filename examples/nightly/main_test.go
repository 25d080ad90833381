package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/locker-go/locker"
	"github.com/locker-go/locker/backends"
	"github.com/locker-go/locker/internal/testbed"
)

// asProgram makes the test binary be the program.
const asProgram = "NIGHTLY_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
		return
	}
	goleak.VerifyTestMain(m)
}

// servers are what the program is moved through, in this order.
var servers = []struct {
	name  string
	start func(t *testing.T) (url string)
}{
	{"memory", func(*testing.T) string { return "memory://" }},
	{"file", func(t *testing.T) string { return "file://" + t.TempDir() }},
	{"redis", func(t *testing.T) string { return "redis://" + testbed.Redis(t).Addr() }},
	{"redlock", func(t *testing.T) string {
		return "redlock://" + testbed.Join(testbed.Redises(t, 5)) + "?first_use=true"
	}},
	{"etcd", func(t *testing.T) string { return "etcd://" + testbed.Etcd(t).Addr() }},
	{"zookeeper", func(t *testing.T) string { return "zookeeper://" + testbed.ZooKeeper(t).Addr() }},
}

// nightly runs the program in an environment.
func nightly(t *testing.T, dir string, env ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], dir)
	cmd.Env = append(os.Environ(), asProgram+"=1", "GORACE=atexit_sleep_ms=0", "LOCKER_URL=", "LOCKER_CONFIG=")
	cmd.Env = append(cmd.Env, env...)
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v: %s", err, errOut.String())
	}
	return out.String()
}

// One string moves the program from one backend to the next, and its tokens go on rising:
// within a backend, and across.
func TestTokensRiseFromBackendToBackend(t *testing.T) {
	dir := t.TempDir()
	reports := archive{dir}
	last := locker.Token(0)
	for _, server := range servers {
		moved := t.Run(server.name, func(t *testing.T) {
			url := server.start(t)
			config := filepath.Join(t.TempDir(), "locker.yaml")
			if err := os.WriteFile(config, []byte("url: "+url+"\nttl: 10s\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			for _, env := range []string{"LOCKER_URL=" + url, "LOCKER_CONFIG=" + config} {
				out := nightly(t, dir, env)
				var token locker.Token
				var path string
				if _, err := fmt.Sscanf(out, "token %d: wrote %s\n", &token, &path); err != nil {
					t.Fatalf("it printed %q: %v", out, err)
				}
				if token <= last {
					t.Errorf("%s: token %d after %d", env, token, last)
				}
				last = token
				if current, err := reports.current(); err != nil || current != path {
					t.Errorf("the report that counts is %s, not %s: %v", current, path, err)
				}
			}
		})
		if !moved {
			break
		}
	}
}

func TestSomebodyElseWritesIt(t *testing.T) {
	url := "file://" + t.TempDir()
	client, err := backends.Open(t.Context(), url, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if _, err := client.Lock(t.Context(), "report:nightly"); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if out := nightly(t, dir, "LOCKER_URL="+url); !strings.HasPrefix(out, "another machine is writing it: ") {
		t.Errorf("it printed %q", out)
	}
	if path, err := (archive{dir}).current(); path != "" || err != nil {
		t.Errorf("it wrote %s, %v", path, err)
	}
}

func TestReportOfAStalledMachineDoesNotCount(t *testing.T) {
	reports := archive{t.TempDir()}
	for _, token := range []locker.Token{8, 10, 9, locker.MaxToken, locker.MaxToken - 1} {
		if _, err := reports.publish(token, []byte("a report")); err != nil {
			t.Fatal(err)
		}
	}
	want := filepath.Join(reports.dir, fmt.Sprintf("report-%d.txt", locker.MaxToken))
	if got, err := reports.current(); err != nil || got != want {
		t.Errorf("got %s, %v; want %s", got, err, want)
	}
}
