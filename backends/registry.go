package backends

import (
	"context"
	"maps"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/locker-go/locker"
)

// Opener opens the backend that a URL names. It refuses parameters that it does not
// know, and its errors do not show the URL. In the host part, u.Host may be a list
// with commas.
type Opener func(ctx context.Context, u *url.URL) (locker.Locker, error)

// Registry opens backends by the scheme of a URL. The zero value has the built-in
// ones; Register adds others. Its methods may be called concurrently.
type Registry struct {
	mu    sync.RWMutex
	added map[string]Opener
}

// Register adds a scheme. It fails with ErrInvalid if there is one of that name, or
// if the name is not that of a scheme: lower-case letters, digits, '+', '-' and '.',
// beginning with a letter.
func (r *Registry) Register(scheme string, open Opener) error {
	if !validScheme(scheme) || scheme != strings.ToLower(scheme) {
		return invalid("%q is not the name of a URL scheme: write lower-case letters, digits, + - and ., a letter first", scheme)
	}
	if open == nil {
		return invalid("the scheme %s has no opener", scheme)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.added[scheme] != nil || builtins[scheme] != nil {
		return invalid("the scheme %s is registered already", scheme)
	}
	if r.added == nil {
		r.added = make(map[string]Opener)
	}
	r.added[scheme] = open
	return nil
}

// Schemes returns the names of the schemes that can be opened, sorted.
func (r *Registry) Schemes() []string {
	r.mu.RLock()
	defer r.mu.RUnlock()
	schemes := slices.AppendSeq(slices.Collect(maps.Keys(builtins)), maps.Keys(r.added))
	slices.Sort(schemes)
	return schemes
}

func (r *Registry) opener(scheme string) (Opener, error) {
	if open := builtins[scheme]; open != nil {
		return open, nil
	}
	r.mu.RLock()
	open := r.added[scheme]
	r.mu.RUnlock()
	if open == nil {
		return nil, invalid("unknown URL scheme %q: known are %s", scheme, strings.Join(r.Schemes(), ", "))
	}
	return open, nil
}

// Open opens the backend that the URL names. If what it returns has a method
// Close() error, the caller closes it.
func (r *Registry) Open(ctx context.Context, rawURL string) (locker.Locker, error) {
	u, err := parse(rawURL)
	if err != nil {
		return nil, err
	}
	open, err := r.opener(u.Scheme)
	if err != nil {
		return nil, err
	}
	return open(ctx, u)
}

// OpenClient is the package's Open with the schemes of r.
func (r *Registry) OpenClient(ctx context.Context, rawURL string, opts *locker.Options) (*locker.Client, error) {
	return newClient(opts, func() (locker.Locker, error) { return r.Open(ctx, rawURL) })
}

// newClient returns a client of what open opens, unless the options will not do.
func newClient(opts *locker.Options, open func() (locker.Locker, error)) (*locker.Client, error) {
	var o locker.Options
	if opts != nil {
		o = *opts
	}
	if o.TTL != 0 {
		if err := locker.ValidateTTL(o.TTL); err != nil {
			return nil, err
		}
	}
	l, err := open()
	if err != nil {
		return nil, err
	}
	o.CloseLocker = true
	return locker.New(l, &o), nil
}
