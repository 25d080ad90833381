package memory

import (
	"context"
	"net/url"
	"sync"

	"github.com/locker-go/locker"
	"github.com/locker-go/locker/internal/params"
)

var shared sync.Map // of namespace to *Store

// Open opens a URL of the form memory://?namespace=NAME: the store of that name in
// this process, which is made at its first use.
func Open(_ context.Context, u *url.URL) (locker.Locker, error) {
	p := params.Of(u)
	namespace := p.Namespace()
	p.NoHost()
	p.NoPath()
	if err := p.Err(); err != nil {
		return nil, err
	}
	store, _ := shared.LoadOrStore(namespace, new(Store))
	return New(store.(*Store)), nil
}
