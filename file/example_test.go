package file_test

import (
	"context"
	"fmt"
	"log"
	"net/url"
	"os"
	"time"

	"github.com/locker-go/locker"
	"github.com/locker-go/locker/file"
)

func ExampleNew() {
	dir, err := os.MkdirTemp("", "locks")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)

	l, err := file.New(dir, nil)
	if err != nil {
		log.Fatal(err)
	}
	c := locker.New(l, &locker.Options{CloseLocker: true})
	defer c.Close()
	err = c.Do(context.Background(), "nightly-report", func(ctx context.Context, lease locker.Lease) error {
		fmt.Println("no other process of this machine is here")
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output: no other process of this machine is here
}

func ExampleOpen() {
	u, err := url.Parse("file:///var/lib/myservice/locks?namespace=billing")
	if err != nil {
		log.Fatal(err)
	}
	l, err := file.Open(context.Background(), u)
	if err != nil {
		log.Fatal(err)
	}
	lease, err := l.Acquire(context.Background(), "invoice:42", 30*time.Second)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(lease)
}
