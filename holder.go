package locker

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"strconv"
	"strings"
)

// process is the part of a holder that everybody may see.
var process = processName()

func processName() string {
	host, err := os.Hostname()
	if err != nil || host == "" {
		host = "unknown"
	}
	clean := func(r rune) rune {
		if namespaceRune(r) {
			return r
		}
		return '_'
	}
	return strings.Map(clean, host) + "." + strconv.Itoa(os.Getpid()) + "."
}

// NewHolder returns a new identity for one grant: host.pid.random. The random
// part, 128 bits, is the credential that renews and releases; show others only
// what [ShowHolder] returns.
func NewHolder() string { return process + rand.Text() }

// ShowHolder returns holder without its credential: host.pid#hash, or #hash for
// an identity that NewHolder did not make.
func ShowHolder(holder string) string {
	sum := sha256.Sum256([]byte(holder))
	hash := "#" + hex.EncodeToString(sum[:4])
	cut := strings.LastIndexByte(holder, '.')
	if cut < 0 || !isCredential(holder[cut+1:]) {
		return hash
	}
	if _, err := strconv.ParseUint(holder[strings.LastIndexByte(holder[:cut], '.')+1:cut], 10, 64); err != nil {
		return hash
	}
	return holder[:cut] + hash
}

var credentialLen = len(rand.Text())

// isCredential says whether s has the form of rand.Text.
func isCredential(s string) bool {
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"
	return len(s) == credentialLen && strings.Trim(s, alphabet) == ""
}
