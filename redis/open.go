package redis

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/locker-go/locker"
	"github.com/locker-go/locker/internal/params"
	"github.com/locker-go/locker/internal/redisnode"
)

// Schemes are the URL schemes that Open takes.
var Schemes = []string{"redis", "rediss", "redis+sentinel", "redis+cluster"}

// Open connects to the Redis that a URL names, and fails unless it answers:
//
//	redis://[user:password@]host[:6379][/db]
//	rediss://...                                   the same with TLS
//	redis+sentinel://[user:password@]h1[:26379],h2,h3/master-name[/db]
//	redis+cluster://[user:password@]h1[:6379],h2,h3
//
// The parameters are
//
//	namespace        default locker; empty for raw keys, see Options.RawKeys
//	password_file    a file with the password, instead of one in the URL
//	request_timeout  of one request; default 1s, from 10ms to 1m
//	min_replicas     see Options.MinReplicas; default 0
//	fence_retention  see Options.FenceRetention; default 1h, at least 1m; 0 is for ever
//	tls              true for TLS with Sentinel or Cluster; default false
//	tls_ca_file      a file of PEM certificates to trust instead of the system's
//	tls_cert_file, tls_key_file    the client's own certificate
//	sentinel_user, sentinel_password_file    where Sentinel wants credentials of its own
//
// The Locker closes what it opened when it is closed.
func Open(ctx context.Context, u *url.URL) (locker.Locker, error) {
	p := params.Of(u)
	opts := Options{
		RequestTimeout: p.Duration("request_timeout", time.Second, minRequestTimeout, maxRequestTimeout),
		MinReplicas:    p.Int("min_replicas", 0, 0, maxMinReplicas),
		FenceRetention: p.Duration("fence_retention", time.Hour, 0, locker.MaxTTL),
	}
	opts.Namespace = p.Namespace()
	opts.RawKeys = opts.Namespace == ""
	if opts.FenceRetention == 0 {
		opts.FenceRetention = -1
	}
	user, password := redisnode.Credentials(p, u)
	client := connector(p, u, user, password, opts.RequestTimeout)
	if err := errors.Join(p.Err(), opts.check()); err != nil {
		return nil, err
	}
	c := client()
	l, err := New(c, &opts)
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	l.owned = true
	if err := l.ping(ctx); err != nil {
		return nil, errors.Join(fail("open", "", err), l.Close())
	}
	return l, nil
}

// ping fails unless the server answers and is one that takes locks.
func (l *Locker) ping(ctx context.Context) error {
	return l.eachMaster(ctx, func(server *redis.Client) error {
		if err := server.Ping(ctx).Err(); err != nil {
			return redisnode.Unavailable(ctx, err)
		}
		return nil
	})
}

// connector reads what the schemes differ in. What it returns makes the client.
func connector(p *params.Params, u *url.URL, user, password string, limit time.Duration) func() redis.UniversalClient {
	universal := &redis.UniversalOptions{
		Username:              user,
		Password:              password,
		ReadTimeout:           limit,
		WriteTimeout:          limit,
		DialTimeout:           limit,
		DialerRetries:         1,
		ContextTimeoutEnabled: true,
		DisableIdentity:       true,
	}
	secure := u.Scheme == "rediss"
	path := strings.Trim(u.Path, "/")
	switch u.Scheme {
	case "redis", "rediss":
		universal.Addrs = hosts(p, u, "6379", 1)
		universal.DB = redisnode.Database(p, path)
		universal.TLSConfig = redisnode.TLSConfig(p, secure)
		return func() redis.UniversalClient { return redis.NewClient(universal.Simple()) }
	case "redis+sentinel":
		universal.Addrs = hosts(p, u, "26379", 0)
		name, db, _ := strings.Cut(path, "/")
		if name == "" {
			p.Failf("it must name the master, as in redis+sentinel://host1,host2,host3/mymaster")
		}
		universal.MasterName, universal.DB = name, redisnode.Database(p, db)
		universal.SentinelUsername = p.String("sentinel_user", "")
		universal.SentinelPassword = p.Secret("sentinel_password", "")
		universal.TLSConfig = redisnode.TLSConfig(p, p.Bool("tls", false))
		return func() redis.UniversalClient { return redis.NewFailoverClient(universal.Failover()) }
	default: // redis+cluster
		universal.Addrs = hosts(p, u, "6379", 0)
		p.NoPath()
		universal.TLSConfig = redisnode.TLSConfig(p, p.Bool("tls", false))
		return func() redis.UniversalClient { return redis.NewClusterClient(universal.Cluster()) }
	}
}

// hosts returns the addresses of the URL, at most most of them if that is not 0.
func hosts(p *params.Params, u *url.URL, port string, most int) []string {
	addrs, err := params.Hosts(u.Host, port)
	if err != nil {
		p.Failf("%w", err)
	}
	if most > 0 && len(addrs) > most {
		p.Failf("it takes one host, not %d: several are for redis+sentinel:// and redis+cluster://", len(addrs))
	}
	return addrs
}
