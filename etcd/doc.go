// Package etcd keeps locks in etcd, under leases, with a queue per key.
//
// Safety: a grant is a write that a majority of the members confirmed, so one lock
// has one holder through the loss of any minority. A holder that is stalled past
// its deadline is not stopped by that; its fencing token is refused. A leader that is
// itself stopped and continued (as by SIGSTOP, or with its virtual machine) may revoke leases
// that others have kept alive meanwhile: etcd's own error, seen in 3.7.3. Then, too, the
// token refuses the holder of before, which hears of it at its next renewal. Tokens rise by the order in which the cluster made the grants, with no clock in the argument, as
// long as it keeps its data. When it was wiped, or restored from a snapshot, they
// rise as far as the clients' clocks agree within seconds, and the snapshot is
// older than 10 s. Servers before 3.4.31 and 3.5.13 let a deposed leader confirm
// that a lease lives on: Open refuses them, New cannot.
//
// Each grant has an etcd lease of its own, from a pool. A lease lives for whole
// seconds, and for no less than the server's floor (2 s unless its election timeout
// was changed): a shorter TTL is rounded up, and the Lease tells. A new lock has at
// least nine tenths of its TTL left. After its TTL the
// server takes up to about a second to remove what a dead holder left; a change of
// the leader gives all leases their full TTL again.
//
// Everything lies under the prefix "namespace/". A user needs to read and write that
// prefix, and nothing else.
package etcd
