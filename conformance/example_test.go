package conformance_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/locker-go/locker"
	"github.com/locker-go/locker/conformance"
	"github.com/locker-go/locker/memory"
)

// TestMyBackend is what the author of a backend writes.
func TestMyBackend(t *testing.T) {
	store := new(memory.Store) // a server, or a directory: whatever the clients share
	conformance.Run(t, conformance.Backend{
		Open: func(context.Context) (locker.Locker, error) { return memory.New(store), nil },
		TTL:  100 * time.Millisecond,
	})
}

// A test of a backend calls Run with a function that opens another client of one store.
// Here is how it would be called outside a test.
func Example() {
	store := new(memory.Store)
	backend := conformance.Backend{
		Open:  func(context.Context) (locker.Locker, error) { return memory.New(store), nil },
		TTL:   100 * time.Millisecond,
		Waive: map[string]string{"Waiter/few requests": "it asks again and again"},
	}
	if err := backend.Validate(); err != nil {
		fmt.Println(err)
		return
	}
	for _, c := range conformance.Cases() {
		if c.Name == "Release/twice" || c.Name == "Waiter/few requests" || c.Name == "Tokens/wipe" {
			r := backend.Run(context.Background(), c)
			fmt.Printf("%s %s: %s (%s)\n", c.Level, c.Name, r.Outcome, r.Reason)
		}
	}
	// Output:
	// MUST Release/twice: passed ()
	// SHOULD Waiter/few requests: waived (it asks again and again)
	// MUST Tokens/wipe: not applicable (no fault Wipe offered)
}

// Whatever passes through a recorder can be judged afterwards.
func ExampleHistory() {
	ctx := context.Background()
	var history conformance.History
	l := history.Record(memory.New(nil))
	for range 3 {
		lease, err := l.Acquire(ctx, "report", time.Minute)
		if err != nil {
			fmt.Println(err)
			return
		}
		if err := l.Release(ctx, lease); err != nil {
			fmt.Println(err)
			return
		}
	}
	fmt.Println(len(history.Events()), "calls; violation:", history.Check())
	// Output: 6 calls; violation: <nil>
}
