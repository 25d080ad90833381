package redisnode

import (
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/locker-go/locker"
)

// Keys are the names under which a lock is kept on a Redis node. All lie in one
// slot of a cluster, whatever braces the lock's key has.
type Keys struct {
	// Lock is a plain string with an expiry, as SET key value NX PX makes it:
	// namespace:key, or in the empty namespace the key itself.
	Lock string

	// Fence has a NUL in it, so that no lock can have its name.
	Fence string

	// Channel is where the end of a grant is published.
	Channel string
}

const (
	fenceMark   = "\x00fence:"
	channelMark = "\x00released"
)

// KeysOf returns the names for a key of a namespace.
func KeysOf(namespace, key string) Keys {
	lock := LockPrefix(namespace) + key
	// One text has all three in it.
	all := "{" + tag(lock) + "}" + fenceMark + lock + channelMark
	end := len(all) - len(channelMark)
	start := end - len(lock)
	return Keys{Lock: all[start:end], Fence: all[:end], Channel: all[start:]}
}

// LockPrefix returns what the names of all locks of a namespace begin with.
func LockPrefix(namespace string) string {
	if namespace == "" {
		return ""
	}
	return namespace + ":"
}

// CheckRawKey refuses a key of the empty namespace that is the name of another
// namespace's lock.
func CheckRawKey(key string) error {
	if name, rest, ok := strings.Cut(key, ":"); ok && name != "" && rest != "" && locker.ValidateNamespace(name) == nil {
		return fmt.Errorf("%w: without a namespace this key would be the lock %q of the namespace %s: use namespace=%s for it", locker.ErrInvalid, rest, name, name)
	}
	return nil
}

// FencePattern returns a pattern for SCAN that matches the fences of a namespace.
func FencePattern(namespace string) string {
	return "{*}" + fenceMark + LockPrefix(namespace) + "*"
}

// tag returns a text without a closing brace whose slot is that of name, so that
// "{tag}..." lies in the slot of name. A cluster hashes what stands between the
// first opening brace and the first closing brace after it, or else, also when
// nothing stands there, the whole name.
func tag(name string) string {
	if open := strings.IndexByte(name, '{'); open >= 0 {
		if n := strings.IndexByte(name[open+1:], '}'); n > 0 {
			return name[open+1 : open+1+n]
		}
	}
	if !strings.Contains(name, "}") {
		return name
	}
	// The whole name counts, but it would be cut at its brace.
	return slotTags()[slot(name)]
}

const slots = 16384

// slot returns the slot of a name of which the whole counts.
func slot(name string) uint16 {
	var crc uint16
	for i := range len(name) {
		crc ^= uint16(name[i]) << 8
		for range 8 {
			if crc&0x8000 != 0 {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
	}
	return crc % slots
}

// slotTags returns a text for each slot. Most programs never need it.
var slotTags = sync.OnceValue(func() *[slots]string {
	var tags [slots]string
	for missing, n := slots, 0; missing > 0; n++ {
		text := strconv.Itoa(n)
		if s := slot(text); tags[s] == "" {
			tags[s] = text
			missing--
		}
	}
	return &tags
})
