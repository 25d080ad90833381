// Package backends opens a backend by its URL, or several by a [Config]. It is the one
// package that knows all built-in backends, so that a program which imports it can be
// moved from one to another by configuration, most simply by [OpenEnv]:
//
//	memory://?namespace=NAME
//	file:///DIRECTORY
//	redis://[user:password@]host[:6379][/db]       also rediss:// for TLS
//	redis+sentinel://h1[:26379],h2,h3/master-name
//	redis+cluster://h1[:6379],h2,h3
//	redlock://[user:password@]h1[:6379],h2,h3,h4,h5
//	etcd://[user:password@]h1[:2379],h2,h3         also etcds:// for TLS
//	zookeeper://[user:password@]h1[:2181],h2,h3[/chroot]
//
// The Open function of each backend's package describes its parameters. Those that
// are unknown or out of range are errors at open time. A program that wants one
// backend only, or to set up the client itself, imports that backend's package
// instead.
//
// No error shows a URL or a part of it that may have a password in it. Keep
// passwords out of URLs all the same where you can: each backend that has one takes
// password_file=PATH.
package backends

import (
	"context"
	"fmt"

	"github.com/locker-go/locker"
	"github.com/locker-go/locker/etcd"
	"github.com/locker-go/locker/file"
	"github.com/locker-go/locker/memory"
	"github.com/locker-go/locker/redis"
	"github.com/locker-go/locker/redlock"
	"github.com/locker-go/locker/zookeeper"
)

var builtins = map[string]Opener{
	"memory":         memory.Open,
	"file":           file.Open,
	"redis":          redis.Open,
	"rediss":         redis.Open,
	"redis+sentinel": redis.Open,
	"redis+cluster":  redis.Open,
	"redlock":        redlock.Open,
	"etcd":           etcd.Open,
	"etcds":          etcd.Open,
	"zookeeper":      zookeeper.Open,
}

// Open opens the backend that the URL names and returns a client of it. Closing the
// client also closes what Open opened. It fails with ErrInvalid if the URL or the
// TTL of opts will not do, and with ErrUnavailable if the backend does not answer.
func Open(ctx context.Context, rawURL string, opts *locker.Options) (*locker.Client, error) {
	return new(Registry).OpenClient(ctx, rawURL, opts)
}

// OpenLocker opens the backend that the URL names. If what it returns has a method
// Close() error, the caller closes it.
func OpenLocker(ctx context.Context, rawURL string) (locker.Locker, error) {
	return new(Registry).Open(ctx, rawURL)
}

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{locker.ErrInvalid}, args...)...)
}
