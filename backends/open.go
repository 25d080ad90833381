package backends

import (
	"context"
	"errors"
	"fmt"
	"net/url"

	"github.com/locker-go/locker"
)

// OpenConfig opens the backends of a configuration and returns a client of them. The
// TTL and the Wait that the configuration sets count, and those of opts, which may be
// nil, where it sets none. Closing the client closes the backends too.
//
// It fails with ErrInvalid if the configuration will not do, and with ErrUnavailable if
// one of its backends does not answer.
func OpenConfig(ctx context.Context, c Config, opts *locker.Options) (*locker.Client, error) {
	return new(Registry).OpenConfigClient(ctx, c, opts)
}

// OpenConfigClient is the package's OpenConfig with the schemes of r.
func (r *Registry) OpenConfigClient(ctx context.Context, c Config, opts *locker.Options) (*locker.Client, error) {
	var o locker.Options
	if opts != nil {
		o = *opts
	}
	if c.TTL != 0 {
		o.TTL = c.TTL
	}
	if c.Wait != 0 {
		o.Wait = c.Wait
	}
	return newClient(&o, func() (locker.Locker, error) { return r.OpenConfig(ctx, c) })
}

// OpenConfig opens the backends of a configuration, whose TTL and Wait are of no
// account here. If what it returns has a method Close() error, the caller closes it.
//
// Without routes it returns the backend itself. With routes it returns a Locker that
// makes each call on the backend of its key. Routes that have the same URL and
// namespace share a backend. It has AcquireWait, which waits as the backend of the key
// does best. It has the methods of [locker.Admin] if one of the backends has them: those
// that are about a key whose backend has not are ErrInvalid; Holdings yields what all
// backends hold on keys that are routed to them, and HighWater returns the highest of
// all, and both fail if a backend does.
func (r *Registry) OpenConfig(ctx context.Context, c Config) (locker.Locker, error) {
	targets, err := r.targets(c)
	if err != nil {
		return nil, err
	}
	if len(c.Routes) == 0 {
		return targets[0].call(ctx, targets[0].url)
	}
	routed := new(routes)
	stores := make(map[string]int) // by URL
	for _, t := range targets {
		store, opened := stores[t.url.String()]
		if !opened {
			l, err := t.call(ctx, t.url)
			if err != nil {
				return nil, errors.Join(c.wrong(t.field, err), routed.Close())
			}
			store = len(routed.stores)
			stores[t.url.String()] = store
			routed.stores = append(routed.stores, l)
		}
		routed.add(t.keys, store)
	}
	return routed.withAdmin(), nil
}

// target is a backend to open, for the keys that match a pattern.
type target struct {
	field string
	keys  pattern
	url   *url.URL
	call  Opener
}

// targets returns what c names, in the order in which its routes count, and at last its
// URL.
func (r *Registry) targets(c Config) ([]target, error) {
	if err := c.validate(); err != nil {
		return nil, err
	}
	var (
		targets []target
		errs    []error
	)
	add := func(field string, keys pattern, rawURL, namespace string) {
		u, err := parse(rawURL)
		if err == nil {
			var call Opener
			if call, err = r.opener(u.Scheme); err == nil {
				targets = append(targets, target{field, keys, withNamespace(u, namespace), call})
			}
		}
		if err != nil {
			errs = append(errs, c.wrong(field, err))
		}
	}
	for i, route := range c.Routes {
		namespace := route.Namespace
		if namespace == "" {
			namespace = c.Namespace
		}
		add(fmt.Sprintf("routes[%d].url", i), parsePattern(route.Keys), route.URL, namespace)
	}
	add("url", beginning(""), c.URL, c.Namespace)
	return targets, errors.Join(errs...)
}

// withNamespace adds a namespace to a URL that has none.
func withNamespace(u *url.URL, namespace string) *url.URL {
	if namespace == "" || hasNamespace(u) {
		return u
	}
	named := *u
	if named.RawQuery != "" {
		named.RawQuery += "&"
	}
	named.RawQuery += "namespace=" + namespace // of characters that stand for themselves
	return &named
}
