// Package bench measures locker beside other libraries that lock on Redis: redsync,
// redislock and rueidislock, each at its newest version and set up as its own
// documentation advises. It is a module of its own, so that what it compares with is
// no dependency of locker.
//
// The benchmarks start a real server. Within one run all libraries take turns, so
// that whatever else the machine does meets them alike, and only ratios are
// reported: to bare requests, to PINGs, to locker. Compare figures of one run.
//
//	go test -run '^$' -bench . -benchtime 1x
package bench
