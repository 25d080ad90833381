package backends_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/goccy/go-yaml"

	"github.com/locker-go/locker"
	"github.com/locker-go/locker/backends"
	"github.com/locker-go/locker/memory"
)

func ExampleOpenEnv() {
	os.Setenv("LOCKER_URL", "memory://") // by whoever runs the program
	defer os.Unsetenv("LOCKER_URL")

	client, err := backends.OpenEnv(context.Background(), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	err = client.Do(context.Background(), "invoice:42", func(_ context.Context, lease locker.Lease) error {
		fmt.Println("held", lease.Token > 0)
		return nil
	})
	fmt.Println(err)
	// Output:
	// held true
	// <nil>
}

func ExampleLoadConfig() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "locker.yaml")
	err = os.WriteFile(path, []byte(`
url: redis://app:secret@cache:6379
ttl: 30
rotes:
  - keys: invoice/*
    url: etcd://e1,e2,e3
`), 0o600)
	if err != nil {
		log.Fatal(err)
	}
	_, err = backends.LoadConfig(path)
	fmt.Println(strings.ReplaceAll(err.Error(), dir+"/", ""))
	// Output:
	// locker.yaml:3:6: ttl: invalid argument: it must be a duration with a unit, such as 300ms, 30s or 2h, not a number
	// locker.yaml:4:1: invalid argument: unknown field rotes: known are namespace, routes, ttl, url, wait
}

func ExampleOpenConfig() {
	client, err := backends.OpenConfig(context.Background(), backends.Config{
		URL: "memory://",
		Routes: []backends.Route{
			{Keys: "invoice/*", URL: "memory://?namespace=invoices"}, // or etcd://e1,e2,e3
		},
	}, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	fmt.Println(client.Do(context.Background(), "invoice/42", func(context.Context, locker.Lease) error { return nil }))
	// Output: <nil>
}

// A Config is part of a program's own configuration, and no less strict there.
func ExampleConfig() {
	var program struct {
		Name   string          `yaml:"name"`
		Locker backends.Config `yaml:"locker"`
	}
	err := yaml.Unmarshal([]byte(`
name: billing
locker:
  url: redis://app:secret@cache:6379
  ttl: 20s
`), &program)
	fmt.Println(program.Locker, err)

	err = json.Unmarshal([]byte(`{"locker": {"URL": "memory://"}}`), &program)
	fmt.Println(err)
	// Output:
	// {"url":"redis://app:xxxxx@cache:6379","ttl":"20s"} <nil>
	// configuration: invalid argument: unknown field URL: known are namespace, routes, ttl, url, wait
}

func ExampleRegistry_OpenConfigClient() {
	var registry backends.Registry
	err := registry.Register("mine", func(_ context.Context, u *url.URL) (locker.Locker, error) {
		return memory.New(nil), nil // here a backend of your own
	})
	if err != nil {
		log.Fatal(err)
	}
	config := backends.Config{URL: "memory://", Routes: []backends.Route{{Keys: "invoice/*", URL: "mine://host"}}}
	client, err := registry.OpenConfigClient(context.Background(), config, nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(client.Close())
	// Output: <nil>
}
