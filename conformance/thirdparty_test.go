package conformance_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestThirdPartyModule adopts the suite from another module, in fewer than 30 lines, and
// finds a bug there.
func TestThirdPartyModule(t *testing.T) {
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	adoption := read(t, "testdata/thirdparty/table_test.go")
	if lines := strings.Count(adoption, "\n"); lines >= 30 {
		t.Errorf("adopting the suite takes %d lines; want fewer than 30", lines)
	}
	table := read(t, "testdata/thirdparty/table.go")
	const compares = "r.holder != lease.Holder || "
	if !strings.Contains(table, compares) {
		t.Fatalf("the backend has no %q to take away", compares)
	}
	dir := t.TempDir()
	write(t, dir, "go.mod", strings.ReplaceAll(read(t, "testdata/thirdparty/go.mod"), "../../..", root))
	write(t, dir, "go.sum", read(t, "../go.sum"))
	write(t, dir, "table_test.go", adoption)

	write(t, dir, "table.go", table)
	out, err := goTest(t, dir)
	if err != nil {
		t.Fatalf("the suite failed on a good backend: %v\n%s", err, out)
	}
	for _, want := range []string{"--- PASS: TestConformance/conformance/Release/twice", "not applicable: no fault Wipe offered"} {
		if !strings.Contains(out, want) {
			t.Errorf("the output lacks %q:\n%s", want, out)
		}
	}

	write(t, dir, "table.go", strings.ReplaceAll(table, compares, ""))
	out, err = goTest(t, dir)
	for _, want := range []string{"--- FAIL: TestConformance/conformance/Release/forged_holder", "rule: Only the holder releases"} {
		if err == nil || !strings.Contains(out, want) {
			t.Errorf("the output of a backend that does not compare holders lacks %q: %v\n%s", want, err, out)
		}
	}
}

// goTest runs the tests of the module in dir, with what is on this machine already.
func goTest(t *testing.T, dir string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "test", "-count=1", "-v", "./...")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOFLAGS=-mod=mod", "GOPROXY=off", "GOWORK=off")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	return out.String(), err
}

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func write(t *testing.T, dir, name, content string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}
