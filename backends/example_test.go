package backends_test

import (
	"context"
	"fmt"
	"net/url"

	"github.com/locker-go/locker"
	"github.com/locker-go/locker/backends"
	"github.com/locker-go/locker/memory"
)

func ExampleOpen() {
	ctx := context.Background()
	client, err := backends.Open(ctx, "memory://", nil) // or file:///var/lib/app/locks, redis://cache:6379
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()
	err = client.Do(ctx, "invoice:42", func(_ context.Context, lease locker.Lease) error {
		fmt.Println("holding", lease.Key)
		return nil
	})
	fmt.Println(err)
	// Output:
	// holding invoice:42
	// <nil>
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
