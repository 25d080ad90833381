package redisnode

import (
	"crypto/sha1"
	"encoding/hex"
	"strconv"
	"time"

	"github.com/locker-go/locker"
)

// width is how many digits a token has, from the year 2001 on.
const width = 16

// valueOf returns what the lock key of a grant holds. The scripts find the token in
// its last digits; that of a clock before 2001, which they refuse, begins with zeros.
func valueOf(holder string, token locker.Token) string {
	digits := strconv.AppendUint(make([]byte, 0, 20), uint64(token), 10)
	return holder + ":" + zeros[:max(width-len(digits), 0)] + string(digits)
}

// digitsOf returns a token as the scripts write it.
func digitsOf(token locker.Token) string { return valueOf("", token)[1:] }

const zeros = "0000000000000000"

// parseValue returns the holder and the token of a value. That of another program
// is a holder as it stands, without a token; host:pid is a usual one.
func parseValue(value string) (holder string, token locker.Token) {
	if cut := len(value) - width - 1; cut > 0 && value[cut] == ':' {
		n, err := strconv.ParseUint(value[cut+1:], 10, 64)
		if t := locker.Token(n); err == nil && t <= locker.MaxToken && value[cut+1] != '0' {
			return value[:cut], t
		}
	}
	return value, 0
}

// holdingOf returns what others may see of a lock.
func holdingOf(key, value string, pttl int64) locker.Holding {
	holder, token := parseValue(value)
	sum := sha1.Sum([]byte(value))
	h := locker.Holding{Key: key, Holder: locker.ShowHolder(holder), Token: token, Handle: hex.EncodeToString(sum[:])}
	switch {
	case pttl == -1:
		h.Remaining = locker.Forever
	case pttl > 0:
		h.Remaining = time.Duration(pttl) * time.Millisecond
	}
	return h
}
