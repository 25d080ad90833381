// Package redis keeps locks on one Redis: a single server, a master that Sentinel
// watches, or a Cluster.
//
// Safety: replication is asynchronous, so a failover can forget a grant, and then
// two clients hold the lock at once; so can an eviction policy other than
// noeviction, or a restart of a server that does not write every change to disk
// (appendonly yes, appendfsync always). Fencing tokens rise all the same: while the
// server keeps its data by comparison in the server, and when it lost them as far
// as the clocks of the servers, old and new, agree within seconds: a client whose
// clock is wrong goes by the server's. Options.MinReplicas makes such a loss less
// likely, not impossible. Redis expires keys by its wall clock: one that is set
// forward ends locks early.
//
// A lock is a plain string with an expiry, so that programs which take locks by
// SET key value NX PX, such as redsync, redislock and node-redlock, and programs
// that use this package exclude each other on the same key; see Options.RawKeys.
// Their locks have no fencing token.
//
// In a Cluster, who waits is not told how many others do, so that waiters do not
// take turns, and hand-offs are not fair. While a slot is on the move, locks that do
// not exist yet are unavailable, since Redis cannot say whether they do; with
// MinReplicas that goes for all locks of the slot.
//
// A user of an access control list needs, in the default namespace: the keys
// ~locker:* and ~{*}?fence:locker:* (the question mark stands for a NUL byte), the
// channels &locker:*, and the commands evalsha, eval, get, set, append, del,
// pexpire, pttl, time, publish, subscribe, unsubscribe, ping; for listing also scan,
// and for MinReplicas wait. It works without the channels, but then waiting polls.
//
// Servers from Redis 6.0 on are supported.
package redis
