//go:build linux || darwin

package file

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/locker-go/locker"
)

// expect looks for the finding of a check, in which the text must stand.
func expect(t *testing.T, l *Locker, check string, severity locker.Severity, text string) {
	t.Helper()
	findings, err := l.Diagnose(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(findings, func(f locker.Finding) bool { return f.Check == check })
	if i < 0 {
		t.Fatalf("no finding about %s", check)
	}
	if f := findings[i]; f.Severity != severity || !strings.Contains(strings.Join([]string{f.Observed, f.Reason, f.Remedy}, " "), text) || f.Target != l.dir {
		t.Errorf("about %s it found\n%+v\nwant %s with %q", check, f, severity, text)
	}
}

func TestDiagnose(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o700); err != nil { // whatever the umask
		t.Fatal(err)
	}
	l := open(t, dir, nil)
	expect(t, l, "permissions", locker.SeverityOK, "alone")
	expect(t, l, "space", locker.SeverityOK, "free")
	expect(t, l, "tokens", locker.SeverityOK, "not ahead")
	expect(t, l, "state", locker.SeverityOK, "0 locks")
	acquire(t, l, "a", time.Minute)
	release(t, l, acquire(t, l, "b", time.Minute))
	expect(t, l, "state", locker.SeverityOK, "1 locks")
}

func TestDiagnosePermissions(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		mode     os.FileMode
		severity locker.Severity
		text     string
	}{
		{0o755, locker.SeverityOK, "alone"},
		{0o775, locker.SeverityWarning, "its group"},
		{0o777, locker.SeverityWarning, "everybody"},
		{0o777 | os.ModeSticky, locker.SeverityOK, "alone"},
	} {
		dir := t.TempDir()
		if err := os.Chmod(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		above := filepath.Join(dir, "above")
		l := open(t, filepath.Join(above, "locks"), nil)
		if err := os.Chmod(above, test.mode); err != nil {
			t.Fatal(err)
		}
		expect(t, l, "permissions", test.severity, test.text)
	}
	l := open(t, t.TempDir(), nil)
	if err := os.Chmod(l.dir, 0o777); err != nil {
		t.Fatal(err)
	}
	expect(t, l, "permissions", locker.SeverityDanger, "lets others write")
}

func TestDiagnoseState(t *testing.T) {
	t.Parallel()
	l := open(t, t.TempDir(), nil)
	release(t, l, acquire(t, l, "k", time.Minute))
	if err := l.Raise(t.Context(), "k", locker.Token(time.Now().Add(9*time.Second).UnixMicro())); err != nil {
		t.Fatal(err)
	}
	expect(t, l, "tokens", locker.SeverityOK, "not ahead")
	clock := l.clock
	l.clock = func() moment {
		now := clock()
		now.wall = now.wall.Add(-time.Hour)
		return now
	}
	expect(t, l, "tokens", locker.SeverityWarning, "1h0m")

	if err := os.WriteFile(l.shardOf("k").stateFile(), []byte("damaged"), 0o600); err != nil {
		t.Fatal(err)
	}
	expect(t, l, "state", locker.SeverityDanger, "1 of 256")
	if err := os.RemoveAll(l.dir); err != nil {
		t.Fatal(err)
	}
	expect(t, l, "state", locker.SeverityDanger, "mount the directory again")
}

func TestDiagnoseEndsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := open(t, t.TempDir(), nil).Diagnose(ctx); !errors.Is(err, locker.ErrUnavailable) || !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}
