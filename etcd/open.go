package etcd

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"os"
	"sync"
	"time"

	"github.com/coreos/go-semver/semver"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"

	"github.com/locker-go/locker"
	"github.com/locker-go/locker/internal/params"
)

// Schemes are the URL schemes that Open takes.
var Schemes = []string{"etcd", "etcds"}

// Open connects to the etcd cluster that a URL names, and fails unless a member of it
// answers:
//
//	etcd://[user:password@]h1[:2379],h2,h3
//	etcds://...                               the same with TLS
//
// The parameters are
//
//	namespace        what all names in etcd begin with; default locker
//	password_file    a file with the password, instead of one in the URL
//	request_timeout  of one request; default 3s, from 10ms to 1m
//	tls_ca_file      a file of PEM certificates to trust instead of the system's
//	tls_cert_file, tls_key_file    the client's own certificate
//
// The Locker closes what it opened when it is closed.
func Open(ctx context.Context, u *url.URL) (locker.Locker, error) {
	p := params.Of(u)
	p.NoPath()
	opts := Options{
		Namespace:      p.Namespace(),
		RequestTimeout: p.Duration("request_timeout", defaultRequestTimeout, minRequestTimeout, maxRequestTimeout),
	}
	if opts.Namespace == "" {
		p.Failf("the namespace must not be empty")
	}
	config := clientv3.Config{
		Logger:               zap.NewNop(), // what it would print is in the errors
		DialTimeout:          opts.RequestTimeout,
		DialKeepAliveTime:    10 * time.Second,
		DialKeepAliveTimeout: 5 * time.Second,
		DialOptions: []grpc.DialOption{grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: time.Second},
			MinConnectTimeout: opts.RequestTimeout,
		})},
	}
	config.Username, config.Password = credentials(p, u)
	addrs, err := params.Hosts(u.Host, "2379")
	if err != nil {
		p.Failf("%w", err)
	}
	config.TLS = tlsConfig(p, u.Scheme == "etcds")
	for _, addr := range addrs {
		if config.TLS != nil {
			addr = "https://" + addr
		}
		config.Endpoints = append(config.Endpoints, addr)
	}
	if err := errors.Join(p.Err(), opts.check()); err != nil {
		return nil, err
	}
	return connect(ctx, config, &opts)
}

func connect(ctx context.Context, config clientv3.Config, opts *Options) (locker.Locker, error) {
	config.Context = context.WithoutCancel(ctx) // the client outlives the opening
	client, err := clientv3.New(config)
	if err != nil {
		return nil, &locker.OpError{Op: "open", Backend: "etcd", Err: unavailable(ctx, err)}
	}
	l, err := New(client, opts)
	if err != nil {
		return nil, errors.Join(err, client.Close())
	}
	l.owned = true
	if err := l.ping(ctx); err != nil {
		return nil, errors.Join(l.fail(ctx, "open", "", err), l.Close())
	}
	return l, nil
}

// ping fails unless a member answers, and each that does is new enough.
func (l *Locker) ping(ctx context.Context) error {
	members := l.client.Endpoints()
	versions, errs := make([]string, len(members)), make([]error, len(members))
	var asking sync.WaitGroup
	for i, member := range members {
		asking.Go(func() {
			var status *clientv3.StatusResponse
			status, errs[i] = bounded(ctx, l.opts.RequestTimeout, func(ctx context.Context) (*clientv3.StatusResponse, error) {
				return l.client.Status(ctx, member)
			})
			if errs[i] == nil {
				versions[i] = status.Version
			}
		})
	}
	asking.Wait()
	up := false
	for i, version := range versions {
		if errs[i] != nil {
			continue
		}
		up = true
		if err := supported(version); err != nil {
			return fmt.Errorf("%w: the member %s: %w", locker.ErrUnavailable, members[i], err)
		}
	}
	if !up {
		return errors.Join(errs...)
	}
	_, err := l.read(ctx, clientv3.OpGet(l.names.base()))
	return err
}

// supported refuses servers of which a leader that was deposed could confirm a
// keepalive, so that a lease would be taken for alive that had expired.
func supported(version string) error {
	v, err := semver.NewVersion(version)
	if err != nil {
		return fmt.Errorf("it has no version: %w", err)
	}
	least := semver.Version{Major: 3, Minor: 5, Patch: 13}
	if v.Major == 3 && v.Minor == 4 {
		least = semver.Version{Major: 3, Minor: 4, Patch: 31}
	}
	if v.LessThan(least) {
		return fmt.Errorf("etcd %s may take an expired lease for alive: 3.4.31, 3.5.13 or newer is needed", version)
	}
	return nil
}

// credentials returns the user and the password of the URL, or of a file.
func credentials(p *params.Params, u *url.URL) (user, password string) {
	if u.User != nil {
		user = u.User.Username()
		password, _ = u.User.Password()
	}
	password = p.Secret("password", password)
	if (user == "") != (password == "") {
		p.Failf("a user needs a password, in the URL or by password_file, and a password a user")
	}
	return user, password
}

// tlsConfig returns nil without TLS, and then refuses parameters for it.
func tlsConfig(p *params.Params, secure bool) *tls.Config {
	ca, cert, key := p.String("tls_ca_file", ""), p.String("tls_cert_file", ""), p.String("tls_key_file", "")
	if !secure {
		if ca+cert+key != "" {
			p.Failf("tls_ca_file, tls_cert_file and tls_key_file need TLS: use etcds://")
		}
		return nil
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if ca != "" {
		pem, err := os.ReadFile(ca)
		if err != nil {
			p.Failf("tls_ca_file: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			p.Failf("tls_ca_file: %s has no PEM certificate", ca)
		}
	}
	if cert+key != "" {
		pair, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			p.Failf("%w", fmt.Errorf("tls_cert_file and tls_key_file: %w", err))
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config
}
