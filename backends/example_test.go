package backends_test

import (
	"context"
	"fmt"
	"net/url"

	"github.com/locker-go/locker"
	"github.com/locker-go/locker/backends"
	"github.com/locker-go/locker/memory"
)

func sendInvoice(ctx context.Context, url string, invoices *table) error {
	client, err := backends.Open(ctx, url, nil) // redis://127.0.0.1:6379, file:///var/lib/app/locks, memory://
	if err != nil {
		return err
	}
	defer client.Close()
	return client.Do(ctx, "invoice:42", func(ctx context.Context, lease locker.Lease) error {
		// ctx ends if the lock is lost. The table refuses a token lower than it has seen.
		return invoices.update(ctx, 42, "sent", lease.Token)
	})
}

func ExampleOpen() {
	invoices := new(table)
	fmt.Println(sendInvoice(context.Background(), "memory://", invoices), invoices.state)
	fmt.Println(invoices.update(context.Background(), 42, "draft", 1)) // a holder of long ago
	// Output:
	// <nil> sent
	// token 1 is stale
}

// table stands for a database: with SQL, update is one statement that has
// "SET state = $1, token = $2 WHERE id = $3 AND token <= $2".
type table struct {
	state string
	token locker.Token
}

func (t *table) update(_ context.Context, _ int, state string, token locker.Token) error {
	if token < t.token {
		return fmt.Errorf("token %d is stale", token)
	}
	t.state, t.token = state, token
	return nil
}

func ExampleRegistry() {
	var registry backends.Registry // has the built-in schemes
	err := registry.Register("mine", func(_ context.Context, u *url.URL) (locker.Locker, error) {
		return memory.New(nil), nil // here a backend of your own
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	client, err := registry.OpenClient(context.Background(), "mine://host", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(client.Close())
	// Output: <nil>
}

func ExampleRedact() {
	fmt.Println(backends.Redact("redis://app:secret@cache:6379/0?namespace=jobs&apikey=secret"))
	// Output: redis://app:xxxxx@cache:6379/0?apikey=xxxxx&namespace=jobs
}
