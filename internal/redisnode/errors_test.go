package redisnode

import (
	"errors"
	"strings"
	"testing"

	"github.com/locker-go/locker"
)

// answer is an error that a server answers.
type answer string

func (a answer) Error() string { return string(a) }
func (answer) RedisError()     {}

func TestErrors(t *testing.T) {
	tests := []struct {
		err     error
		says    string
		refused bool
	}{
		{answer("WRONGTYPE Operation against a key"), "another type", true},
		{answer("ERR max number of clients reached"), "too many clients", true}, // the advice for it was never given
		{answer("NOSCRIPT No matching script"), "NOSCRIPT", true},
		{answer("ASK 7 127.0.0.1:6379"), "ASK", true},
		{answer("UNBLOCKED force unblock from blocking operation"), "UNBLOCKED", false},
		{answer("ERR Connection timed out"), "timed out", false}, // twemproxy
		{answer("upstream failure"), "upstream", false},          // Envoy
		{errors.New("READONLY, but not from the server"), "READONLY", false},
	}
	for _, tt := range tests {
		if err := Unavailable(t.Context(), tt.err); !errors.Is(err, locker.ErrUnavailable) || !errors.Is(err, tt.err) || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("Unavailable(%q) = %v; want ErrUnavailable that says %q", tt.err, err, tt.says)
		}
		if got := Refused(tt.err); got != tt.refused {
			t.Errorf("Refused(%q) = %v, want %v", tt.err, got, tt.refused)
		}
	}
}
