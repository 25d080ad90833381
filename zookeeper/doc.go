// Package zookeeper keeps locks in ZooKeeper, as ephemeral nodes, with a queue per key.
//
// Safety: a grant is a write that a majority of the servers confirmed, so one lock has one
// holder through the loss of any minority. A holder that is stalled past its deadline is
// not stopped by that; its fencing token is refused. Tokens rise by the order in which
// the ensemble made the grants (base + zxid), with no clock in the argument, as long as it
// keeps its data. When it was wiped they rise as far as the clients' clocks agree within
// seconds, unless they ran ahead of the clock: each election of a leader adds 2^32 us, some
// 72 minutes, to the zxid.
//
// All that a Locker holds is bound to one session, and ends with it: another process can
// neither renew nor release it. A lease is never longer than the session surely lives: its
// timeout, less a third of it (the driver pings that often), half a tick (a follower tells
// its leader that often) and the drift. A follower that is cut from its leader goes on
// answering pings and reads, so Renew and FenceToken are confirmed by a majority, and a
// deadline counts from the last ping of which the leader surely knew. The lock of a holder
// that died is free when its session's timeout has passed, and up to a tick later.
//
// The driver, github.com/go-zookeeper/zk, connects, keeps the session alive, and ends it.
// The Locker's requests are its own and travel on the driver's connections ([Dialer]): the
// driver takes no context, does not tell the granted timeout or what became of a request
// whose reply was lost, and keeps watches for ever.
//
// Everything lies below the node /chroot/namespace. The recipe is that of ZooKeeper's
// documentation, with the write and the proof of being first in one transaction.
package zookeeper
