package file

import (
	"context"
	"net/url"
	"path/filepath"
	"time"

	"github.com/locker-go/locker"
	"github.com/locker-go/locker/internal/params"
)

// Open opens a URL of the form
//
//	file:///DIRECTORY?namespace=NAME&timeout=5s&any_filesystem=false
//
// whose parameters are those of [Options], and optional.
func Open(_ context.Context, u *url.URL) (locker.Locker, error) {
	p := params.Of(u)
	opts := &Options{
		Namespace:     p.Namespace(),
		Timeout:       p.Duration("timeout", defaultTimeout, 10*time.Millisecond, time.Hour),
		AnyFilesystem: p.Bool("any_filesystem", false),
	}
	if u.Host != "" || u.User != nil || u.Opaque != "" || !filepath.IsAbs(u.Path) || filepath.Clean(u.Path) == string(filepath.Separator) {
		p.Failf("it takes the absolute path of a directory, and no host: write file:///path/to/directory, with three slashes")
	}
	if opts.Namespace == "" {
		p.Failf("the namespace is empty; it has 1 to 128 characters")
	}
	if err := p.Err(); err != nil {
		return nil, err
	}
	return New(u.Path, opts)
}
