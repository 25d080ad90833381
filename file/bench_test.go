//go:build linux || darwin

package file

import (
	"fmt"
	"testing"
	"time"
)

// BenchmarkPair takes a lock and gives it back, beside a number of locks that are held.
func BenchmarkPair(b *testing.B) {
	for _, held := range []int{0, 10_000} {
		b.Run(fmt.Sprintf("held=%d", held), func(b *testing.B) {
			l := open(b, b.TempDir(), nil)
			now := l.clock()
			for n := range shards {
				st := &state{Fence: 1, Grants: make(map[string]grant)}
				for i := range held / shards {
					st.Grants[fmt.Sprintf("key %d of shard %d", i, n)] = newGrant("host.12345.ABCDEFGHIJKLMNOPQRSTUVWXYZ", 1, time.Hour, now)
				}
				if err := l.shard(n).write(st); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportAllocs()
			for b.Loop() {
				release(b, l, acquire(b, l, "k", time.Minute))
			}
		})
	}
}

// BenchmarkHeld is an attempt at a lock that another holds, as waiters make.
func BenchmarkHeld(b *testing.B) {
	l := open(b, b.TempDir(), nil)
	acquire(b, l, "k", time.Hour)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := l.Acquire(b.Context(), "k", time.Minute); err == nil {
			b.Fatal("acquired")
		}
	}
}

// BenchmarkHandoff passes a lock to and fro between two Lockers.
func BenchmarkHandoff(b *testing.B) {
	dir := b.TempDir()
	a, c := open(b, dir, nil), open(b, dir, nil)
	lease := acquire(b, a, "k", time.Hour)
	for b.Loop() {
		granted := make(chan error, 1)
		next := lease
		go func() {
			var err error
			next, err = c.AcquireWait(b.Context(), "k", time.Hour)
			granted <- err
		}()
		release(b, a, lease)
		if err := <-granted; err != nil {
			b.Fatal(err)
		}
		lease, a, c = next, c, a
	}
}
