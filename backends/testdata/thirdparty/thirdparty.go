// Package thirdparty is a backend that somebody else wrote, and opens by a scheme of
// their own.
package thirdparty

import (
	"context"
	"fmt"
	"net/url"
	"sync"

	"github.com/locker-go/locker"
	"github.com/locker-go/locker/backends"
	"github.com/locker-go/locker/memory"
)

// Register adds the scheme table://NAME?namespace=NAME to a registry.
func Register(r *backends.Registry) error { return r.Register("table", open) }

// tables stand for what a server of their own has.
var tables sync.Map

func open(_ context.Context, u *url.URL) (locker.Locker, error) {
	query := u.Query()
	namespace := query.Get("namespace")
	query.Del("namespace")
	if len(query) > 0 || u.Host == "" {
		return nil, fmt.Errorf("%w: write table://NAME; the only parameter is namespace", locker.ErrInvalid)
	}
	table, _ := tables.LoadOrStore(u.Host+"/"+namespace, new(memory.Store))
	return memory.New(table.(*memory.Store)), nil
}
