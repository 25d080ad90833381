package thirdparty

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/locker-go/locker"
	"github.com/locker-go/locker/backends"
	"github.com/locker-go/locker/memory"
)

const config = `
url: memory://
namespace: shop
ttl: 5s
routes:
  - keys: invoice/*
    url: table://invoices
`

func TestOpensFromConfiguration(t *testing.T) {
	var registry backends.Registry
	if err := Register(&registry); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "locker.yaml")
	if err := os.WriteFile(path, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("LOCKER_CONFIG", path)
	c, err := backends.FromEnv()
	if err != nil {
		t.Fatal(err)
	}
	client, err := registry.OpenConfigClient(t.Context(), c, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	err = client.Do(t.Context(), "invoice/42", func(ctx context.Context, lease locker.Lease) error {
		if lease.TTL != 5*time.Second {
			t.Errorf("the TTL is %s", lease.TTL)
		}
		table, ok := tables.Load("invoices/shop")
		if !ok {
			t.Fatal("the table was not opened")
		}
		token, err := memory.New(table.(*memory.Store)).FenceToken(ctx, lease)
		if err == nil && token != lease.Token {
			t.Errorf("the table has the token %d, the lease %d", token, lease.Token)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

func TestMistakesAreFoundWhenOpening(t *testing.T) {
	var registry backends.Registry
	if err := Register(&registry); err != nil {
		t.Fatal(err)
	}
	for rawURL, want := range map[string]string{
		"table://a?size=1": "the only parameter is namespace",
		"tabel://a":        `unknown URL scheme "tabel": known are etcd, etcds, file, memory, redis, `,
	} {
		_, err := registry.OpenConfig(t.Context(), backends.Config{URL: "memory://", Routes: []backends.Route{{Keys: "a", URL: rawURL}}})
		if !errors.Is(err, locker.ErrInvalid) || !strings.Contains(err.Error(), "routes[0].url: ") || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", rawURL, err)
		}
	}
}
