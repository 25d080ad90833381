package redisnode

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/url"
	"os"
	"strconv"

	"github.com/locker-go/locker/internal/params"
)

// Credentials returns the user and the password of the URL, or of a file.
func Credentials(p *params.Params, u *url.URL) (user, password string) {
	if u.User != nil {
		user = u.User.Username()
		password, _ = u.User.Password()
	}
	return user, p.Secret("password", password)
}

// Database returns the number of the database that a path names.
func Database(p *params.Params, path string) int {
	if path == "" {
		return 0
	}
	n, err := strconv.ParseUint(path, 10, 16)
	if err != nil {
		p.Failf("the path must be the number of a database, such as /0")
	}
	return int(n)
}

// TLSConfig returns nil without TLS, and then refuses parameters for it.
func TLSConfig(p *params.Params, secure bool) *tls.Config {
	ca, cert, key := p.String("tls_ca_file", ""), p.String("tls_cert_file", ""), p.String("tls_key_file", "")
	if !secure {
		if ca+cert+key != "" {
			p.Failf("tls_ca_file, tls_cert_file and tls_key_file need TLS: use rediss:// or tls=true")
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
