package bench

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

// TestMain also is the main function of the processes that BenchmarkProcesses starts.
func TestMain(m *testing.M) {
	if order := os.Getenv(orderEnv); order != "" {
		os.Exit(obey(order))
	}
	goleak.VerifyTestMain(m)
}
