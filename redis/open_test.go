package redis_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/locker-go/locker"
	"github.com/locker-go/locker/internal/testbed"
)

// What a URL may say is checked before anything is sent, and the error says what
// is allowed. dkron#93: an out-of-range value was found at run time.
func TestOpenRefuses(t *testing.T) {
	const canary = "S3cretCanary"
	secret := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(secret, []byte(canary+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	tests := []struct{ query, says string }{
		{"redis://:%s@h?retries=3", "known are fence_retention, min_replicas, namespace"},
		{"redis://:%s@h?password=x", `unknown parameter "password"`},
		{"redis://:%s@h?namespace=a:b", "A-Z a-z 0-9"},
		{"redis://:%s@h?namespace=a&namespace=b", "given 2 times"},
		{"redis://:%s@h?min_replicas=-1", "from 0 to 100"},
		{"redis://:%s@h?min_replicas=two", "whole number"},
		{"redis://:%s@h?request_timeout=5", "such as 300ms"},
		{"redis://:%s@h?request_timeout=1ms", "from 10ms to 1m0s"},
		{"redis://:%s@h?request_timeout=2m", "from 10ms to 1m0s"},
		{"redis://:%s@h?fence_retention=-1s", "from 0s"},
		{"redis://:%s@h?fence_retention=5s", "FenceRetention"},
		{"redis://:%s@h?%%zz", "percent-encoded"},
		{"redis://:%s@h#x", "fragment"},
		{"redis://:%s@h/zero", "number of a database"},
		{"redis://:%s@h/70000", "number of a database"},
		{"redis://:%s@h:0", "from 1 to 65535"},
		{"redis://:%s@h:99999", "from 1 to 65535"},
		{"redis://:%s@h:1,i:2", "takes one host"},
		{"redis://:%s@h?tls_ca_file=/x", "need TLS"},
		{"redis://:%s@h?tls=true", "unknown parameter"},
		{"rediss://:%s@h?tls_ca_file=/does/not/exist", "no such file"},
		{"rediss://:%s@h?tls_ca_file=" + secret, "no PEM certificate"},
		{"rediss://:%s@h?tls_cert_file=" + secret, "tls_cert_file and tls_key_file"},
		{"redis+cluster://:%s@h/1", "takes no path"},
		{"redis+sentinel://:%s@h", "must name the master"},
		{"redis+sentinel://:%s@h/m?tls=yes", "one of false, true"},
		{"redis://:%s@h?password_file=" + secret, "both by itself and by password_file"},
		{"redis://h?x=%s&password_file=/does/not/exist", "no such file"},
	}
	for _, tt := range tests {
		rawURL := fmt.Sprintf(tt.query, canary)
		if !strings.Contains(tt.query, "%s") {
			rawURL = tt.query
		}
		_, err := openURL(t.Context(), rawURL)
		switch {
		case !errors.Is(err, locker.ErrInvalid):
			t.Errorf("%s: %v, want ErrInvalid", tt.query, err)
		case !strings.Contains(err.Error(), tt.says):
			t.Errorf("%s: %v; want it to say %q", tt.query, err, tt.says)
		case strings.Contains(err.Error(), canary) && !strings.Contains(tt.query, "x=%s"):
			t.Errorf("%s: %v shows the password", tt.query, err)
		}
	}
}

func TestOpen(t *testing.T) {
	server := testbed.Redis(t, "--requirepass", "right")
	secret := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(secret, []byte("right\r\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, rawURL := range []string{
		"redis://:right@" + server.Addr(),
		"redis://default:right@" + server.Addr() + "/3?namespace=app&request_timeout=5s",
		"redis://" + server.Addr() + "?password_file=" + secret,
		"redis://" + server.Addr() + "/0?fence_retention=0&namespace=&password_file=" + secret,
	} {
		l := open(t, rawURL)
		if err := l.Release(t.Context(), mustAcquire(t, l, "k")); err != nil {
			t.Errorf("%s: %v", rawURL, err)
		}
	}
	for _, rawURL := range []string{"redis://:wr0ng@" + server.Addr(), "redis://" + server.Addr()} {
		_, err := openURL(t.Context(), rawURL)
		if !errors.Is(err, locker.ErrUnavailable) || strings.Contains(err.Error(), "wr0ng") {
			t.Errorf("open with a wrong password = %v, want ErrUnavailable without the password", err)
		}
	}
}
