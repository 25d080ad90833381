//go:build unix

package main

import (
	"fmt"
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"go.uber.org/goleak"
)

// leakChecked is testing.M with goleak.VerifyTestMain's check, which testscript.Main
// leaves no room for.
type leakChecked struct{ m *testing.M }

func (l leakChecked) Run() int {
	code := l.m.Run()
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	return code
}

func TestMain(m *testing.M) {
	testscript.Main(leakChecked{m}, map[string]func(){"locker": main, "told-of-loss": toldOfLoss})
}
