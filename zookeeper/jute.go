package zookeeper

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/go-zookeeper/zk"
)

// The protocol's encoding: integers with the highest byte first, and all that has a
// length preceded by it, in four bytes.

// kinds of requests
const (
	opCreate   int32 = 1
	opDelete   int32 = 2
	opGetData  int32 = 4
	opSetData  int32 = 5
	opGetACL   int32 = 6
	opChildren int32 = 8
	opSync     int32 = 9
	opCheck    int32 = 13
	opMulti    int32 = 14
	opAuth     int32 = 100

	opError int32 = -1 // in the answer to a multi, and the end of one
)

// serverErrors are those that the servers answer with, as the driver names them.
var serverErrors = map[int32]error{
	-101: zk.ErrNoNode,
	-102: zk.ErrNoAuth,
	-103: zk.ErrBadVersion,
	-108: zk.ErrNoChildrenForEphemerals,
	-110: zk.ErrNodeExists,
	-111: zk.ErrNotEmpty,
	-112: zk.ErrSessionExpired,
	-114: zk.ErrInvalidACL,
	-115: zk.ErrAuthFailed,
	-118: zk.ErrSessionMoved,
}

func serverError(code int32) error {
	if code == 0 {
		return nil
	}
	if err, ok := serverErrors[code]; ok {
		return err
	}
	return fmt.Errorf("the server answered with error %d", code)
}

func appendInt(b []byte, v int32) []byte { return binary.BigEndian.AppendUint32(b, uint32(v)) }

func appendBool(b []byte, v bool) []byte {
	if v {
		return append(b, 1)
	}
	return append(b, 0)
}

func appendText[T string | []byte](b []byte, v T) []byte {
	return append(appendInt(b, int32(len(v))), v...)
}

// op is one operation of a change.
type op struct {
	kind    int32
	path    string
	data    []byte
	acl     []zk.ACL
	mode    int32
	version int32
}

// anyVersion matches every version of a node.
const anyVersion = -1

func createOp(path string, data []byte, acl []zk.ACL, mode int32) op {
	return op{kind: opCreate, path: path, data: data, acl: acl, mode: mode}
}

func deleteOp(path string) op { return op{kind: opDelete, path: path, version: anyVersion} }

func setOp(path string, data []byte, version int32) op {
	return op{kind: opSetData, path: path, data: data, version: version}
}

func checkOp(path string, version int32) op { return op{kind: opCheck, path: path, version: version} }

func (o op) append(b []byte) []byte {
	b = appendText(b, o.path)
	switch o.kind {
	case opCreate:
		b = appendText(b, o.data)
		b = appendInt(b, int32(len(o.acl)))
		for _, a := range o.acl {
			b = appendText(appendText(appendInt(b, a.Perms), a.Scheme), a.ID)
		}
		return appendInt(b, o.mode)
	case opSetData:
		return appendInt(appendText(b, o.data), o.version)
	default:
		return appendInt(b, o.version)
	}
}

// request is one to send.
type request struct {
	kind  int32
	body  []byte
	watch string // the path that it watches, or empty
}

// single returns the request for one operation.
func single(o op) request { return request{kind: o.kind, body: o.append(nil)} }

// multi returns the request for operations, all or none.
func multi(ops ...op) request {
	var b []byte
	header := func(kind int32, last bool) { b = appendInt(appendBool(appendInt(b, kind), last), -1) }
	for _, o := range ops {
		header(o.kind, false)
		b = o.append(b)
	}
	header(opError, true)
	return request{kind: opMulti, body: b}
}

// listing returns the request for the names of a node's children.
func listing(path string) request {
	return request{kind: opChildren, body: appendBool(appendText(nil, path), false)}
}

// reading returns the request for a node, which may watch it.
func reading(path string, watch bool) request {
	r := request{kind: opGetData, body: appendBool(appendText(nil, path), watch)}
	if watch {
		r.watch = path
	}
	return r
}

// errGarbled says that an answer is not what it should be.
var errGarbled = errors.New("the server's answer is garbled")

// answerReader reads the parts of an answer. What is not there reads as zero, and err
// tells.
type answerReader struct {
	b   []byte
	err error
}

func (r *answerReader) take(n int) []byte {
	if n < 0 || n > len(r.b) {
		r.b, r.err = nil, errGarbled
		return nil
	}
	taken := r.b[:n]
	r.b = r.b[n:]
	return taken
}

func (r *answerReader) int32() int32 {
	if b := r.take(4); b != nil {
		return int32(binary.BigEndian.Uint32(b))
	}
	return 0
}

func (r *answerReader) int64() int64 {
	if b := r.take(8); b != nil {
		return int64(binary.BigEndian.Uint64(b))
	}
	return 0
}

func (r *answerReader) bool() bool {
	b := r.take(1)
	return b != nil && b[0] != 0
}

// data reads bytes, which may be missing: then their length is -1.
func (r *answerReader) data() []byte { return r.take(max(int(r.int32()), 0)) }

func (r *answerReader) texts() []string {
	n := int(r.int32())
	if n > len(r.b)/4 {
		r.b, r.err = nil, errGarbled
		return nil
	}
	var all []string
	for range n {
		all = append(all, string(r.data()))
	}
	return all
}

// acls reads a list of those who may do something.
func (r *answerReader) acls() []zk.ACL {
	n := int(r.int32())
	if n > len(r.b)/12 {
		r.b, r.err = nil, errGarbled
		return nil
	}
	var all []zk.ACL
	for range n {
		all = append(all, zk.ACL{Perms: r.int32(), Scheme: string(r.data()), ID: string(r.data())})
	}
	return all
}

// stat is what is of use here of a node's state.
type stat struct {
	czxid    int64 // of its creation
	version  int32 // of its data
	children int32
}

func (r *answerReader) stat() stat {
	s := stat{czxid: r.int64()}
	r.take(3 * 8) // the last change, and the times of both
	s.version = r.int32()
	r.take(2*4 + 8 + 4) // versions of the children and the ACL, the session, the length
	s.children = r.int32()
	r.take(8)
	return s
}

// result is what one operation of a change gave.
type result struct {
	path string // of what was created
	stat stat   // of what was set
	err  error
}

// results reads the answer to a change of that kind.
func (r *answerReader) results(kind int32) []result {
	if kind != opMulti {
		return []result{r.result(kind)}
	}
	var all []result
	for r.err == nil {
		kind, last := r.int32(), r.bool()
		r.take(4)
		if last {
			return all
		}
		all = append(all, r.result(kind))
	}
	return all
}

func (r *answerReader) result(kind int32) (one result) {
	switch kind {
	case opCreate:
		one.path = string(r.data())
	case opSetData:
		one.stat = r.stat()
	case opError:
		one.err = serverError(r.int32())
	}
	return one
}
