package testbed

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
)

var zooKeeperRequests = map[int32]string{
	-11: "close",
	1:   "create",
	2:   "delete",
	3:   "exists",
	4:   "getData",
	5:   "setData",
	8:   "getChildren",
	9:   "sync",
	11:  "ping",
	12:  "getChildren",
	13:  "check",
	14:  "multi",
	100: "auth",
	101: "setWatches",
}

// ZooKeeperWire is the framing of ZooKeeper. The name is that of the request, such as
// multi, and connect for what begins a connection.
func ZooKeeperWire(r *bufio.Reader) (string, []byte, error) {
	const head, connect = 4, 44 // the latter may have one byte more
	frame := make([]byte, head)
	if _, err := io.ReadFull(r, frame); err != nil {
		return "", nil, err
	}
	size := binary.BigEndian.Uint32(frame)
	if size < 8 || size > 16<<20 {
		return "", nil, fmt.Errorf("a request of ZooKeeper has %d bytes", size)
	}
	frame = append(frame, make([]byte, size)...)
	if _, err := io.ReadFull(r, frame[head:]); err != nil {
		return "", nil, err
	}
	number, kind := int32(binary.BigEndian.Uint32(frame[head:])), int32(binary.BigEndian.Uint32(frame[head+4:]))
	if number == 0 && size >= connect && size <= connect+1 { // requests are numbered from 1
		return "connect", frame, nil
	}
	name, ok := zooKeeperRequests[kind]
	if !ok {
		name = fmt.Sprintf("request of type %d", kind)
	}
	return name, frame, nil
}
