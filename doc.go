// Package locker gives services a distributed lock through one small
// interface over several backends.
//
// A lease can end while its holder is stalled: by a long garbage collection, a
// paused virtual machine, a request that lingers in a network. No lock service
// can prevent that. So every grant carries a fencing [Token] that is higher than
// every token granted for the key before, and the resource that the lock guards
// must refuse a token lower than the highest that it has seen. The lock saves
// work; the token saves data. A program whose data is spoiled when two holders
// overlap must check tokens, whatever the backend.
//
// Programs use a [Client], which renews what it holds and tells when a lock was
// lost. A [Locker] is the small interface that a backend implements: the
// packages redis, etcd, zookeeper, file and memory have one each, package backends chooses one by
// URL, and package conformance proves one right.
//
// Locks are not reentrant: whoever acquires a key that it holds waits for itself.
package locker
