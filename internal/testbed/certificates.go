package testbed

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Certificates are files of an authority that was made for one test, and of a
// server and a client that it vouches for. The server is 127.0.0.1 and localhost.
type Certificates struct {
	CA, ServerCert, ServerKey, ClientCert, ClientKey string
}

// NewCertificates makes certificates that are valid for an hour.
func NewCertificates(t testing.TB) *Certificates {
	t.Helper()
	dir := t.TempDir()
	c := &Certificates{CA: filepath.Join(dir, "ca.pem")}
	caKey, ca := issue(t, dir, "ca", nil, nil)
	c.ServerCert, c.ServerKey = filepath.Join(dir, "server.pem"), filepath.Join(dir, "server.key")
	issue(t, dir, "server", ca, caKey)
	c.ClientCert, c.ClientKey = filepath.Join(dir, "client.pem"), filepath.Join(dir, "client.key")
	issue(t, dir, "client", ca, caKey)
	return c
}

// issue writes name.pem and name.key, signed by the authority, or by itself.
func issue(t testing.TB, dir, name string, ca *x509.Certificate, caKey *ecdsa.PrivateKey) (*ecdsa.PrivateKey, *x509.Certificate) {
	t.Helper()
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("make a certificate for %s: %v", name, err)
		}
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check(err)
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	check(err)
	template := &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: name},
		NotBefore:    time.Now().Add(-time.Minute),
		NotAfter:     time.Now().Add(time.Hour),
		DNSNames:     []string{"localhost"},
		IPAddresses:  []net.IP{net.IPv4(127, 0, 0, 1)},
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	if ca == nil {
		template.IsCA, template.BasicConstraintsValid = true, true
		template.KeyUsage = x509.KeyUsageCertSign
		ca, caKey = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, ca, &key.PublicKey, caKey)
	check(err)
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	check(err)
	check(os.WriteFile(filepath.Join(dir, name+".pem"), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	check(os.WriteFile(filepath.Join(dir, name+".key"), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}), 0o600))
	cert, err := x509.ParseCertificate(der)
	check(err)
	return key, cert
}

// Client returns the configuration of a client that trusts the authority and has
// a certificate of its own.
func (c *Certificates) Client(t testing.TB) *tls.Config {
	t.Helper()
	ca, err := os.ReadFile(c.CA)
	if err != nil {
		t.Fatalf("read %s: %v", c.CA, err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca)
	pair, err := tls.LoadX509KeyPair(c.ClientCert, c.ClientKey)
	if err != nil {
		t.Fatalf("load the client's certificate: %v", err)
	}
	return &tls.Config{RootCAs: pool, Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
}
