// Package redlock keeps locks on a majority of several independent Redis servers,
// most often five.
//
// Safety: a lease is held by one at a time as long as clocks run at the same rate, within
// 1 %, on the nodes and their clients, no node's clock is set forward, and a node that
// forgets grants gives no votes until they are over; see MaxTTL. It gives none after it
// was wiped, or started again without appendonly yes and appendfsync always; it cannot tell
// when a failover or an eviction took grants from it. Fencing tokens rise whatever the
// clocks do, while nodes keep their data: a grant has the votes of a majority, two
// majorities share a node, and a node votes only for tokens above all that it voted for.
// Where nodes lost their data, tokens rise as far as the clocks of clients and nodes agree within seconds.
//
// A user of an access control list needs what the package redis asks for, and the key
// of the marker, ~?member:locker: in the default namespace (the question mark stands for a
// NUL byte), and the commands incr, mget, exists, info and config|get; without the last a node that
// was started again is never taken to remember.
//
// This is the algorithm that its author named Redlock, with a ballot in place of a
// random value: see docs/redlock.md for what is proved, and under which assumptions.
package redlock
