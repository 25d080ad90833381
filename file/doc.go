// Package file is a Locker for the processes of one machine: a directory on a local
// file system, and no server.
//
// It excludes processes that use the same directory and namespace. It is not for
// several machines: a network file system is refused at open, since its locks and
// renames do not promise what this needs. As with every backend a lease can end
// while its holder is stalled, which is what fencing tokens are for.
//
// Leases and tokens outlive processes and reboots. A lease runs by a clock that
// counts from boot, suspended time included, so that setting the wall clock changes
// nothing; after a reboot what is left of it is taken from the wall clock, but never
// more than its TTL allows. Tokens rise by comparison with what is stored, and with
// no help of the clock, as long as the directory is kept; if it is deleted, they go on
// from the wall clock.
//
// All processes must run as one user (files are made for their owner alone), on one
// kernel, and, on Linux, in one time namespace. It works on Linux and macOS; on
// other systems New says that it does not. Waiters are woken at a release on Linux,
// and ask again after at most 250 ms (jittered up to 375 ms) elsewhere.
//
// # What is in the directory
//
// Each namespace has a directory of its own. In it, keys are spread by their hash
// over 256 shards, so that a million different keys leave no more than 256 pairs of
// files. NN.lock is locked by flock during a change (for a millisecond or so, not
// while a lease lasts), and never replaced or deleted. NN.state has the shard's live
// leases and the highest token that it has issued, with a checksum. It is replaced
// by rename, after an fsync of the new content and before one of the directory: a crash
// or a full disk at any moment leaves the old state or the new one. A state file that
// something else damaged is an error that names it, and never taken for a free lock.
package file
