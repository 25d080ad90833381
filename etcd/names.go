package etcd

import (
	"strconv"
	"strings"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/locker-go/locker"
)

// names are those of a namespace. Its base is under namespace/base. A key's queue is
// all under namespace/queue/KEY/, one entry for the holder and for each that waits,
// in the order of their create revisions.
type names struct{ prefix string }

func (n names) base() string { return n.prefix + "base" }

// queues returns how the queues of all keys begin that begin with prefix.
func (n names) queues(prefix string) string { return n.prefix + "queue/" + encode(prefix) }

func (n names) queue(key string) string { return n.queues(key) + "/" }

// entry returns the name of an entry that is put under a lease. Leases are used again
// and again, and so are names: the server walks over every name that was ever in a
// queue, until it is compacted.
func (n names) entry(key string, lease clientv3.LeaseID) string {
	return n.queue(key) + strconv.FormatInt(int64(lease), 16)
}

// key returns the key in whose queue an entry is.
func (n names) key(entry string) (string, bool) {
	code, _, ok := strings.Cut(strings.TrimPrefix(entry, n.queues("")), "/")
	if !ok {
		return "", false
	}
	return decode(code)
}

// encode replaces each byte but letters, digits and . _ - by % and two digits. As
// slashes are among those, no queue is within another; as every byte is encoded by
// itself, what begins a key also begins its code.
func encode(key string) string {
	const digits = "0123456789ABCDEF"
	var b strings.Builder
	for i := range len(key) {
		switch c := key[i]; {
		case 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '.' || c == '_' || c == '-':
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

// entry is a place in a queue: that of a grant, or of one who waits.
type entry struct {
	name   string
	rev    int64 // its create revision
	holder string
	base   int64
	lease  clientv3.LeaseID
}

// token is the entry's fencing token, if it is a grant.
func (e entry) token() locker.Token { return locker.Token(e.base + e.rev) }

// value returns what is stored for an entry: all that makes up its token, so that
// others can tell it.
func (e entry) value() string { return strconv.FormatInt(e.base, 10) + " " + e.holder }

// readEntry returns the entry that is stored. One that something else put there has
// no base, and all of its value for its holder.
func readEntry(kv *mvccpb.KeyValue) entry {
	e := entry{name: string(kv.Key), rev: kv.CreateRevision, lease: clientv3.LeaseID(kv.Lease), holder: string(kv.Value)}
	number, holder, ok := strings.Cut(e.holder, " ")
	if base, err := strconv.ParseInt(number, 10, 64); ok && err == nil {
		e.base, e.holder = base, holder
	}
	return e
}

// holding describes the entry of a holder, but not for how long it will stay.
func (e entry) holding(key string) locker.Holding {
	h := locker.Holding{Key: key, Holder: locker.ShowHolder(e.holder)}
	if e.base != 0 {
		h.Token = e.token()
	}
	return h
}

// grant returns what tells an entry from all others, also later ones of its name.
func (e entry) grant() grant { return grant{e.name, e.rev} }

type grant struct {
	name string
	rev  int64
}

// handle returns what the lease of a new entry keeps of it: its revision, and the etcd
// lease that it was put under, for its name.
func (e entry) handle() string {
	return strconv.FormatInt(e.rev, 10) + "." + strconv.FormatInt(int64(e.lease), 16)
}

// entryOf returns the entry that a lease is the grant of, if it is one.
func (n names) entryOf(lease locker.Lease) (entry, bool) {
	number, id, _ := strings.Cut(lease.Handle, ".")
	rev, revErr := strconv.ParseInt(number, 10, 64)
	leaseID, idErr := strconv.ParseInt(id, 16, 64)
	return entry{
		name:   n.entry(lease.Key, clientv3.LeaseID(leaseID)),
		rev:    rev,
		holder: lease.Holder,
		base:   int64(lease.Token) - rev,
		lease:  clientv3.LeaseID(leaseID),
	}, revErr == nil && idErr == nil && rev > 0
}

// is says whether what is stored is this very entry.
func (e entry) is(kv *mvccpb.KeyValue) bool {
	return kv != nil && kv.CreateRevision == e.rev && string(kv.Value) == e.value()
}

// stands is the condition that the entry is there, the grant as it was made.
func (e entry) stands() []clientv3.Cmp {
	return []clientv3.Cmp{
		clientv3.Compare(clientv3.CreateRevision(e.name), "=", e.rev),
		clientv3.Compare(clientv3.Value(e.name), "=", e.value()),
	}
}
