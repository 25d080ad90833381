package backends

import (
	"context"
	"errors"
	"iter"
	"slices"

	"github.com/locker-go/locker"
)

// administered are routes of which at least one store has locker.Admin.
type administered struct{ *routes }

var _ locker.Admin = administered{}

func (r *routes) withAdmin() locker.Locker {
	for _, store := range r.stores {
		if _, ok := locker.As[locker.Admin](store); ok {
			return administered{r}
		}
	}
	return r
}

// admin returns that of a store.
func (r administered) admin(store int, op, key string) (locker.Admin, error) {
	admin, ok := locker.As[locker.Admin](r.stores[store])
	if !ok {
		return nil, &locker.OpError{Op: op, Key: key, Err: invalid("the backend of this key does not let others look at its locks")}
	}
	return admin, nil
}

func (r administered) Inspect(ctx context.Context, key string) (locker.Holding, error) {
	admin, err := r.admin(r.index(key), "inspect", key)
	if err != nil {
		return locker.Holding{}, err
	}
	return admin.Inspect(ctx, key)
}

func (r administered) Break(ctx context.Context, h locker.Holding) error {
	admin, err := r.admin(r.index(h.Key), "break", h.Key)
	if err != nil {
		return err
	}
	return admin.Break(ctx, h)
}

func (r administered) Raise(ctx context.Context, key string, floor locker.Token) error {
	admin, err := r.admin(r.index(key), "raise", key)
	if err != nil {
		return err
	}
	return admin.Raise(ctx, key, floor)
}

// Holdings yields what it can before the errors of stores that failed.
func (r administered) Holdings(ctx context.Context, prefix string) iter.Seq2[locker.Holding, error] {
	return func(yield func(locker.Holding, error) bool) {
		var errs []error
		for _, store := range r.under(prefix) {
			admin, err := r.admin(store, "list", prefix)
			if err != nil {
				errs = append(errs, err)
				continue
			}
			for h, err := range admin.Holdings(ctx, prefix) {
				switch {
				case err != nil:
					errs = append(errs, err)
				case r.index(h.Key) != store: // taken before the routes were what they are now
				case !yield(h, nil):
					return
				}
			}
			if ctx.Err() != nil {
				break // the others would say the same
			}
		}
		if err := errors.Join(errs...); err != nil {
			yield(locker.Holding{}, err)
		}
	}
}

// under returns the stores in which keys that begin with prefix are.
func (r administered) under(prefix string) []int {
	var stores []int
	for _, route := range r.list {
		if route.keys.meets(prefix) && !slices.Contains(stores, route.store) {
			stores = append(stores, route.store)
		}
		if route.keys.covers(beginning(prefix)) {
			break // no such key gets further
		}
	}
	return stores
}

func (r administered) HighWater(ctx context.Context) (locker.Token, error) {
	var highest locker.Token
	for store := range r.stores {
		admin, err := r.admin(store, "high-water", "")
		if err != nil {
			return 0, err
		}
		token, err := admin.HighWater(ctx)
		if err != nil {
			return 0, err
		}
		highest = max(highest, token)
	}
	return highest, nil
}
