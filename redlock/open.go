package redlock

import (
	"context"
	"errors"
	"net/url"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/locker-go/locker"
	"github.com/locker-go/locker/internal/params"
	"github.com/locker-go/locker/internal/redisnode"
)

// Schemes are the URL schemes that Open takes.
var Schemes = []string{"redlock"}

// Open connects to the nodes that a URL names, and fails unless a majority answers:
//
//	redlock://[user:password@]h1[:6379],h2,h3,h4,h5[/db]
//
// The parameters are
//
//	namespace        default locker; empty for raw keys, see Options.RawKeys
//	password_file    a file with the password, instead of one in the URL
//	request_timeout  of one request to one node; default 500ms, from 10ms to 1m
//	max_ttl          see Options.MaxTTL; default 1m
//	fence_retention  see Options.FenceRetention; default 1h, at least 1m; 0 is for ever
//	members          names of the nodes, see Options.Members
//	first_use        true declares what Locker.FirstUse says. Take it away after that:
//	                 it would be believed again if all nodes lost everything
//	tls              true for TLS; default false
//	tls_ca_file      a file of PEM certificates to trust instead of the system's
//	tls_cert_file, tls_key_file    the client's own certificate
//
// The Locker closes what it opened when it is closed.
func Open(ctx context.Context, u *url.URL) (locker.Locker, error) {
	p := params.Of(u)
	opts := Options{
		RequestTimeout: p.Duration("request_timeout", defaultRequestTimeout, minRequestTimeout, maxRequestTimeout),
		MaxTTL:         p.Duration("max_ttl", defaultMaxTTL, locker.MinTTL, locker.MaxTTL),
		FenceRetention: p.Duration("fence_retention", defaultFenceRetention, 0, locker.MaxTTL),
	}
	opts.Namespace = p.Namespace()
	opts.RawKeys = opts.Namespace == ""
	if opts.FenceRetention == 0 {
		opts.FenceRetention = -1
	}
	if names := p.String("members", ""); names != "" {
		opts.Members = strings.Split(names, ",")
	}
	first := p.Bool("first_use", false)
	addrs, err := params.Hosts(u.Host, "6379")
	if err != nil {
		p.Failf("%w", err)
	}
	user, password := redisnode.Credentials(p, u)
	common := redis.Options{
		Username:        user,
		Password:        password,
		DB:              redisnode.Database(p, strings.Trim(u.Path, "/")),
		TLSConfig:       redisnode.TLSConfig(p, p.Bool("tls", false)),
		DisableIdentity: true,
	}
	if err := errors.Join(p.Err(), opts.check()); err != nil {
		return nil, err
	}
	var clients []*redis.Client
	for _, addr := range addrs {
		o := common
		o.Addr = addr
		c := redis.NewClient(&o)
		defer c.Close() // its options are what is wanted
		clients = append(clients, c)
	}
	l, err := New(clients, &opts)
	if err != nil {
		return nil, err
	}
	if err := l.meet(ctx, first); err != nil {
		return nil, errors.Join(fail("open", "", err), l.Close())
	}
	return l, nil
}

// meet fails unless a majority of the nodes answers, and all that do are such as
// they should be.
func (l *Locker) meet(ctx context.Context, first bool) error {
	if err := l.enter(ctx); err != nil {
		return err
	}
	defer l.calls.Done()
	// No node is marked before it is known that they fit together.
	if err := l.fit(ctx, func(ctx context.Context, m *member) error {
		id, err := twice(ctx, func() (redisnode.Identity, error) { return m.Look(ctx, l.namespace) })
		if err == nil {
			err = m.fits(id)
		}
		return err
	}); err != nil {
		return err
	}
	if first {
		if err := l.FirstUse(ctx); err != nil {
			return invalid(err)
		}
	}
	return l.fit(ctx, func(ctx context.Context, m *member) error {
		_, err := m.identify(ctx)
		if err == errRestarted { // between the two
			_, err = m.identify(ctx)
		}
		return err
	})
}

// fit returns nil if a majority of the nodes answers a question, and none says that it
// cannot be a member.
func (l *Locker) fit(ctx context.Context, question func(context.Context, *member) error) error {
	replies := ask(l, ctx, func(ctx context.Context, m *member) (struct{}, error) { return struct{}{}, question(ctx, m) })
	errs := make(map[*member]error)
	for range l.members {
		select {
		case r := <-replies:
			if r.err != nil {
				errs[r.member] = r.err
			}
		case <-ctx.Done():
			return redisnode.Unavailable(ctx, ctx.Err())
		}
	}
	if len(l.members)-len(errs) < majority(len(l.members)) {
		return invalid(l.noMajority(errs))
	}
	for m, err := range errs {
		if err := invalid(err); errors.Is(err, locker.ErrInvalid) {
			return &nodeError{m.addr, err}
		}
	}
	return nil
}
