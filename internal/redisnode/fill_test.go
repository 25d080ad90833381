package redisnode

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/locker-go/locker"
	"github.com/locker-go/locker/internal/testbed"
)

// A renewal that has seen a lock on other nodes puts it back on a node that said that
// it was free, unless anything has happened there since, and for no longer than on the others.
func TestFill(t *testing.T) {
	t.Parallel()
	server := testbed.Redis(t)
	client := redis.NewClient(&redis.Options{Addr: server.Addr()})
	defer client.Close()
	ctx := t.Context()
	n := NewVoter(OnServer(client, 5*time.Second), time.Hour)
	keys := KeysOf("n", "k")
	token := locker.Token(time.Now().UnixMicro())
	g := Grant{Keys: keys, Holder: "h.1.A", Token: token}
	rival := Grant{Keys: keys, Holder: "h.1.B", Token: token + 10}
	older := Grant{Keys: keys, Holder: "h.1.C", Token: token - 10}
	must := func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	take := func(g Grant) { t.Helper(); must(n.Acquire(ctx, g, time.Minute)) }
	drop := func(g Grant) {
		t.Helper()
		_, _, err := n.Drop(ctx, g, false)
		must(nil, err)
	}
	undo := func(g Grant) { t.Helper(); must(nil, n.Undo(ctx, g)) }
	wipe := func() { t.Helper(); must(client.FlushAll(ctx).Result()) }
	nothing := func() {}
	for _, tt := range []struct {
		name   string
		before func() // until the node says that it is free
		after  func() // until it is asked to put the lock back
		until  time.Duration
		want   bool
	}{
		{"wiped", func() { take(g); wipe() }, nothing, time.Minute, true},
		{"never asked", nothing, nothing, time.Minute, true},
		{"asked, and undone for want of an answer", func() { take(g); undo(g) }, nothing, time.Minute, true},
		{"an older grant was there", func() { take(older); drop(older) }, nothing, time.Minute, true},
		{"a later one was there", func() { take(rival); drop(rival) }, nothing, time.Minute, false},
		{"a later one was asked for", func() { undo(rival) }, nothing, time.Minute, false},
		{"a later one comes", nothing, func() { take(rival) }, time.Minute, false},
		{"a later one comes and goes", nothing, func() { take(rival); drop(rival) }, time.Minute, false},
		{"an older one comes", nothing, func() { take(older) }, time.Minute, false},
		{"raised", nothing, func() { must(n.Raise(ctx, keys, token+5)) }, time.Minute, false},
		{"released", func() { take(g); drop(g) }, nothing, time.Minute, false},
		{"released where it was not", nothing, func() { drop(g) }, time.Minute, false},
		{"released meanwhile", func() { wipe() }, func() { take(g); drop(g) }, time.Minute, false},
		{"the others' time is up", nothing, nothing, -time.Millisecond, false},
	} {
		wipe()
		tt.before()
		free, err := n.Renew(ctx, g, time.Minute)
		if err != nil || free.Status != Free {
			t.Errorf("%s: renew = %+v, %v; want free", tt.name, free, err)
			continue
		}
		tt.after()
		filled, err := n.Fill(ctx, g, free, free.Time.Add(tt.until))
		if err != nil || filled != tt.want {
			t.Errorf("%s: fill = %v, %v; want %v", tt.name, filled, err, tt.want)
		}
		holds, err := n.Holds(ctx, g)
		if err != nil || holds != tt.want {
			t.Errorf("%s: afterwards the node has the grant: %v, %v; want %v", tt.name, holds, err, tt.want)
		}
		if tt.want {
			if left := client.PTTL(ctx, keys.Lock).Val(); left <= 0 || left > tt.until {
				t.Errorf("%s: it is kept for %s, want at most %s", tt.name, left, tt.until)
			}
			if a, err := n.Acquire(ctx, older, time.Minute); err != nil || a.Status != Held {
				t.Errorf("%s: an older attempt = %+v, %v; want held", tt.name, a, err)
			}
		}
	}
}

// A grant that is broken is over, also for a renewal that has seen it elsewhere.
func TestNoFillAfterBreak(t *testing.T) {
	t.Parallel()
	server := testbed.Redis(t)
	client := redis.NewClient(&redis.Options{Addr: server.Addr()})
	defer client.Close()
	ctx := t.Context()
	n := NewVoter(OnServer(client, 5*time.Second), time.Hour)
	g := Grant{Keys: KeysOf("n", "k"), Holder: "h.1.A", Token: locker.Token(time.Now().UnixMicro())}
	if _, err := n.Acquire(ctx, g, time.Minute); err != nil {
		t.Fatal(err)
	}
	seen, _, err := n.Inspect(ctx, g.Keys)
	if err != nil {
		t.Fatal(err)
	}
	if broken, err := n.Break(ctx, g.Keys, seen); err != nil || !broken {
		t.Fatalf("break = %v, %v", broken, err)
	}
	free, err := n.Renew(ctx, g, time.Minute)
	if err != nil || free.Status != Free {
		t.Fatalf("renew = %+v, %v; want free", free, err)
	}
	if filled, err := n.Fill(ctx, g, free, free.Time.Add(time.Minute)); err != nil || filled {
		t.Errorf("fill = %v, %v; want false", filled, err)
	}
}
