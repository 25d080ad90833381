package backends_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
)

// Another module registers a scheme of its own and opens it from a configuration.
func TestThirdPartyModule(t *testing.T) {
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("testdata/thirdparty")); err != nil {
		t.Fatal(err)
	}
	for name, from := range map[string]string{"go.mod": "testdata/thirdparty/go.mod", "go.sum": "../go.sum"} {
		b, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), bytes.ReplaceAll(b, []byte("../../.."), []byte(root)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	args := []string{"test", "-count=1", "-v"}
	if raceEnabled() {
		args = append(args, "-race") // as what it needs is built already
	}
	cmd := exec.CommandContext(t.Context(), "go", append(args, ".")...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOFLAGS=-mod=mod", "GOPROXY=off", "GOWORK=off")
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: TestOpensFromConfiguration") {
		t.Errorf("%v\n%s", err, out)
	}
}

func raceEnabled() bool {
	info, ok := debug.ReadBuildInfo()
	return ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
}
