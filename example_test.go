package locker_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/locker-go/locker"
	"github.com/locker-go/locker/memory"
)

func Example() {
	c := locker.New(memory.New(nil), nil) // or a backend by URL: see package backends
	defer c.Close()

	err := c.Do(context.Background(), "invoice:42", func(ctx context.Context, lease locker.Lease) error {
		fmt.Println("working on", lease.Key)
		return ctx.Err() // ends when the lock is lost
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output: working on invoice:42
}

func ExampleClient_TryLock() {
	c := locker.New(memory.New(nil), nil)
	defer c.Close()
	ctx := context.Background()

	hold, err := c.TryLock(ctx, "nightly-report")
	if err != nil {
		log.Fatal(err)
	}
	_, err = c.TryLock(ctx, "nightly-report")
	fmt.Println("somebody else is at it:", errors.Is(err, locker.ErrHeld))

	if err := hold.Unlock(); err != nil {
		log.Fatal(err)
	}
	// Output: somebody else is at it: true
}

// A Hold is for work that does not fit into one function. Whoever has one watches
// for its loss.
func ExampleHold() {
	c := locker.New(memory.New(nil), nil)
	defer c.Close()

	hold, err := c.Lock(context.Background(), "shard:7")
	if err != nil {
		log.Fatal(err)
	}
	defer hold.Unlock()

	batches := make(chan string, 1)
	batches <- "batch 1"
	select {
	case batch := <-batches:
		fmt.Println("writing", batch)
	case <-hold.Lost():
		fmt.Println("stopping:", context.Cause(hold.Context()))
	}
	// Output: writing batch 1
}

// account is a resource that refuses a writer whose lock has passed on to another.
// In a database this is one statement:
//
//	UPDATE account SET balance = $1, fence = $2 WHERE id = $3 AND fence <= $2
type account struct {
	balance int
	fence   locker.Token // the highest token seen
}

func (a *account) write(balance int, token locker.Token) error {
	if token < a.fence {
		return fmt.Errorf("token %d is stale: %d was seen", token, a.fence)
	}
	a.balance, a.fence = balance, token
	return nil
}

// A holder that was stalled does not know that its lease has ended. The lock cannot
// stop it; the token does.
func ExampleToken() {
	backend := memory.New(nil)
	c := locker.New(backend, nil)
	defer c.Close()
	ctx := context.Background()
	var a account

	var stale locker.Lease
	lost := c.Do(ctx, "account:1", func(ctx context.Context, lease locker.Lease) error {
		stale = lease
		return backend.Break(ctx, lease.Holding()) // as if it had been stalled for longer than its TTL
	})
	fmt.Println("lost:", errors.Is(lost, locker.ErrNotHeld))

	err := c.Do(ctx, "account:1", func(_ context.Context, lease locker.Lease) error {
		return a.write(100, lease.Token)
	})
	fmt.Println("its successor writes:", err == nil)
	fmt.Println("and it is refused:", a.write(50, stale.Token) != nil)
	fmt.Println("balance:", a.balance)
	// Output:
	// lost: true
	// its successor writes: true
	// and it is refused: true
	// balance: 100
}
