package zookeeper

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/locker-go/locker"
	"github.com/locker-go/locker/internal/params"
)

// Schemes are the URL schemes that Open takes.
var Schemes = []string{"zookeeper"}

// Limits of the session's timeout that is asked for.
const (
	defaultSessionTimeout = 30 * time.Second
	minSessionTimeout     = 100 * time.Millisecond
	maxSessionTimeout     = time.Hour
)

// Open connects to the ZooKeeper ensemble that a URL names, and fails unless a server of
// it answers:
//
//	zookeeper://[user:password@]h1[:2181],h2,h3[/chroot]
//
// With a user and a password, which are those of ZooKeeper's scheme digest, the nodes
// that it creates are this user's alone. The parameters are
//
//	namespace        the node below which all is; default locker
//	password_file    a file with the password, instead of one in the URL
//	session_timeout  to ask for: a dead holder's locks are free so much later; default
//	                 30s, from 100ms to 1h, and within what the servers allow
//	request_timeout  of one request; default 5s, from 10ms to 1m
//	tick_time        see Options.TickTime; default 0, which stands for at most 2s
//	create_chroot    false to refuse a chroot that is missing; default true
//	tls              true for TLS; default false
//	tls_ca_file      a file of PEM certificates to trust instead of the system's
//	tls_cert_file, tls_key_file    the client's own certificate
//
// The Locker closes what it opened when it is closed.
func Open(ctx context.Context, u *url.URL) (locker.Locker, error) {
	p := params.Of(u)
	opts := Options{
		Namespace:      p.Namespace(),
		Chroot:         strings.TrimRight(u.Path, "/"),
		KeepChroot:     !p.Bool("create_chroot", true),
		RequestTimeout: p.Duration("request_timeout", defaultRequestTimeout, minRequestTimeout, maxRequestTimeout),
		TickTime:       p.Duration("tick_time", 0, 0, maxTick),
	}
	if opts.Namespace == "" {
		p.Failf("the namespace must not be empty")
	}
	timeout := p.Duration("session_timeout", defaultSessionTimeout, minSessionTimeout, maxSessionTimeout)
	dialer := new(Dialer)
	if user, password := credentials(p, u); user != "" {
		opts.ACL = zk.DigestACL(zk.PermAll, user, password)
		dialer.Auth = []Auth{{"digest", []byte(user + ":" + password)}}
	}
	addrs, err := params.Hosts(u.Host, "2181")
	if err != nil {
		p.Failf("%w", err)
	}
	dialer.TLS = tlsConfig(p, p.Bool("tls", false))
	if err := errors.Join(p.Err(), opts.check()); err != nil {
		return nil, err
	}
	return connect(ctx, addrs, timeout, dialer, &opts)
}

func connect(ctx context.Context, addrs []string, timeout time.Duration, dialer *Dialer, opts *Options) (locker.Locker, error) {
	l, err := New(dialer, opts)
	if err != nil {
		return nil, err
	}
	l.addrs = addrs
	if l.owned, err = newClient(addrs, timeout, dialer); err != nil {
		return nil, l.fail(ctx, "open", "", err)
	}
	err = ctx.Err()
	if err == nil {
		_, err = l.currentBase(ctx)
	}
	if err != nil {
		return nil, errors.Join(l.fail(ctx, "open", "", err), l.Close())
	}
	return l, nil
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
	if strings.Contains(user, ":") {
		p.Failf("the user must not have a colon in its name")
	}
	return user, password
}

// tlsConfig returns nil without TLS, and then refuses parameters for it.
func tlsConfig(p *params.Params, secure bool) *tls.Config {
	ca, cert, key := p.String("tls_ca_file", ""), p.String("tls_cert_file", ""), p.String("tls_key_file", "")
	if !secure {
		if ca+cert+key != "" {
			p.Failf("tls_ca_file, tls_cert_file and tls_key_file need TLS: use tls=true")
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
