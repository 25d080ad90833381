package zookeeper

import (
	"crypto/rand"
	"strconv"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/locker-go/locker"
)

// names are those of a namespace. Its base is the node base below its root. A key's queue
// is a directory below the node queue, with one entry for the holder and for each that
// waits.
type names struct{ root string }

func (n names) base() string { return n.root + "/base" }

func (n names) queues() string { return n.root + "/queue" }

func (n names) queue(key string) string { return n.queues() + "/" + encode(key) }

// encode replaces each byte but letters, digits and . _ - by % and two digits. So does it
// with a dot at the beginning: . and .. are no names of nodes.
func encode(key string) string {
	const digits = "0123456789ABCDEF"
	var b strings.Builder
	for i := range len(key) {
		switch c := key[i]; {
		case 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_' || c == '-' || c == '.' && i > 0:
			b.WriteByte(c)
		default:
			b.Write([]byte{'%', digits[c>>4], digits[c&15]})
		}
	}
	return b.String()
}

// decode undoes encode, and refuses what encode does not write.
func decode(code string) (string, bool) {
	var b strings.Builder
	for i := 0; i < len(code); i++ {
		if code[i] != '%' {
			b.WriteByte(code[i])
			continue
		}
		if i+2 >= len(code) {
			return "", false
		}
		c, err := strconv.ParseUint(code[i+1:i+3], 16, 8)
		if err != nil {
			return "", false
		}
		b.WriteByte(byte(c))
		i += 2
	}
	key := b.String()
	return key, encode(key) == code
}

// idLen is the length of what names of entries begin with, which nobody guesses: by it
// an entry is found whose creation was not answered.
var idLen = len(rand.Text())

// newID returns the beginning of a name, up to the number that the server adds.
func newID() string { return rand.Text() + "-" }

// spot is the name of an entry, which tells its place in its queue.
type spot struct {
	name   string
	number int32 // of 32 bits, as the server counts: after the highest comes the lowest
}

// spotOf returns what a name tells, if it is one of an entry. Other nodes in the
// directory, which something else put there, are of no concern.
func spotOf(name string) (spot, bool) {
	if len(name) <= idLen+1 || name[idLen] != '-' {
		return spot{}, false
	}
	number, err := strconv.ParseInt(name[idLen+1:], 10, 32)
	if err != nil {
		return spot{}, false
	}
	return spot{name, int32(number)}, true
}

// before says whether s is before other: by their difference, which is right as long as
// it is less than half of all numbers.
func (s spot) before(other spot) bool { return s.number-other.number < 0 }

// entry is a place in a queue: that of a grant, or of one who waits.
type entry struct {
	key    string
	dir    string // of the queue
	id     string // how its name begins
	spot   spot   // once it is created
	zxid   int64  // of its creation
	holder string
	base   int64
}

func (e entry) path() string { return e.dir + "/" + e.spot.name }

// creation is the operation that makes the entry.
func (e entry) creation(acl []zk.ACL) op {
	return createOp(e.dir+"/"+e.id, e.data(), acl, zk.FlagEphemeralSequential)
}

// made returns the spot of the entry, whose creation was the last of the operations that
// gave results.
func (e entry) made(results []result) (spot, error) {
	if len(results) > 0 {
		name, found := strings.CutPrefix(results[len(results)-1].path, e.dir+"/")
		if s, ok := spotOf(name); found && ok && strings.HasPrefix(name, e.id) {
			return s, nil
		}
	}
	return spot{}, errGarbled
}

// token is the entry's fencing token, if it is a grant.
func (e entry) token() locker.Token { return locker.Token(e.base + e.zxid) }

// data returns what is stored for an entry: what makes up its token, with what the server
// tells of it, and the holder as others may see it. No credential is stored: whoever
// holds the lock knows the name.
func (e entry) data() []byte {
	return []byte(strconv.FormatInt(e.base, 10) + " " + locker.ShowHolder(e.holder))
}

// holding returns what is stored for an entry as others see it. Of one that something
// else put there only the hash of its data is shown.
func holding(key string, n node) locker.Holding {
	h := locker.Holding{Key: key}
	number, holder, ok := strings.Cut(string(n.data), " ")
	if base, err := strconv.ParseInt(number, 10, 64); ok && err == nil {
		h.Token, h.Holder = locker.Token(base+n.stat.czxid), holder
	} else {
		h.Holder = locker.ShowHolder(string(n.data))
	}
	return h
}
