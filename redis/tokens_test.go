package redis

import (
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/locker-go/locker"
	"github.com/locker-go/locker/internal/redisnode"
	"github.com/locker-go/locker/internal/testbed"
)

func micros(t time.Time) locker.Token { return locker.Token(t.UnixMicro()) }

func TestProposer(t *testing.T) {
	now := time.UnixMicro(1_800_000_000_000_000)
	tests := []struct {
		name     string
		offset   time.Duration // of this process's clock from the server's
		saw      time.Duration // a token granted here before, relative to this process's clock
		status   redisnode.Status
		fence    time.Duration // relative to the server's clock
		lo, hi   time.Duration // of the next proposal, relative to the server's clock
		reported bool
	}{
		{name: "fence behind", status: redisnode.Stale, fence: -time.Hour, lo: 0, hi: 0},
		{name: "fence just ahead", status: redisnode.Stale, fence: time.Second, lo: time.Second + 1000, hi: time.Second + step*time.Microsecond},
		{name: "fence far ahead", status: redisnode.Stale, fence: time.Hour, lo: time.Hour + 1000, hi: time.Hour + step*time.Microsecond, reported: true},
		{name: "clock a minute ahead", offset: time.Minute, status: redisnode.Ahead, fence: -time.Hour, reported: true},
		{name: "clock a minute ahead, after a grant", offset: time.Minute, saw: 9 * time.Second, status: redisnode.Ahead, fence: -time.Hour, reported: true},
		{name: "clock a minute behind", offset: -time.Minute, status: redisnode.Stale, fence: -time.Second, reported: true},
		{name: "clock 9 s behind", offset: -9 * time.Second, status: redisnode.Stale, fence: -time.Second, lo: -time.Second + 1000, hi: -time.Second + step*time.Microsecond},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			reported := false
			p := &proposer{
				clock:  func() time.Time { return now.Add(tt.offset) },
				jumped: func(string, error) { reported = true },
			}
			if tt.saw != 0 {
				p.saw(micros(now.Add(tt.offset + tt.saw)))
			}
			got := p.after("k", redisnode.Answer{Status: tt.status, Fence: micros(now.Add(tt.fence)), Time: now})
			if lo, hi := micros(now.Add(tt.lo)), micros(now.Add(tt.hi)); got < lo || got > hi {
				t.Errorf("proposed the server's clock %+d us; want %+d to %+d", int64(got-micros(now)), tt.lo.Microseconds(), tt.hi.Microseconds())
			}
			if reported != tt.reported {
				t.Errorf("reported = %v, want %v", reported, tt.reported)
			}
		})
	}
}

// A clock that was wrong and is put right, here or on the server: tokens went on to
// be counted by the difference, and every attempt was refused as too far ahead.
func TestProposerForgetsSkew(t *testing.T) {
	server := time.UnixMicro(1_800_000_000_000_000)
	for _, apart := range []time.Duration{-time.Hour, -time.Minute, time.Minute, time.Hour} {
		clock := server.Add(apart)
		p := &proposer{clock: func() time.Time { return clock }, jumped: func(string, error) {}}
		answer := redisnode.Answer{Status: redisnode.Stale, Fence: micros(server) - 1, Time: server}
		p.after("k", answer)
		clock = server
		if got := p.after("k", answer); got != micros(server) {
			t.Errorf("with a clock that was %s off and is right now, the proposal is the server's clock %+d us", apart, int64(got-micros(server)))
		}
	}
}

// Below what the server forgot, this process's own memory stands.
func TestProposerRemembers(t *testing.T) {
	now := time.UnixMicro(1_800_000_000_000_000)
	p := &proposer{clock: func() time.Time { return now }}
	high := micros(now.Add(5 * time.Second))
	p.saw(high)
	p.saw(high - 100)
	if got := p.next(); got != high+1 {
		t.Errorf("after token %d the next proposal is %d, want %d", high, got, high+1)
	}
	p.saw(micros(now.Add(time.Hour))) // of one key whose fence is far ahead: no measure for others
	if got := p.next(); got != high+1 {
		t.Errorf("after a token an hour ahead the next proposal is %d, want %d", got, high+1)
	}
}

// INCR tokens after an asynchronous failover (reproduced): both holders got the
// same. Two clients that step above one forgotten fence must not count alike.
func TestProposerStepsAtRandom(t *testing.T) {
	now := time.UnixMicro(1_800_000_000_000_000)
	a := redisnode.Answer{Status: redisnode.Stale, Fence: micros(now.Add(5 * time.Second)), Time: now}
	seen := make(map[locker.Token]bool)
	for range 8 {
		p := &proposer{clock: func() time.Time { return now }, jumped: func(string, error) {}}
		seen[p.after("k", a)] = true
	}
	if len(seen) < 7 {
		t.Errorf("8 clients proposed only %d different tokens", len(seen))
	}
}

// ShedLock#263: client wall clocks decided who holds. With a clock that is wrong by a
// minute or an hour, also where the server knows nothing of the key, tokens follow the
// server's clock, and nobody waits or fails.
func TestClientClocks(t *testing.T) {
	server := testbed.Redis(t)
	client := redis.NewClient(&redis.Options{Addr: server.Addr()})
	t.Cleanup(func() { _ = client.Close() })
	ctx := t.Context()
	var last locker.Token
	for i, offset := range []time.Duration{0, -time.Hour, time.Minute, 0, -time.Minute, time.Hour, -8 * time.Second, 8 * time.Second, 0} {
		var events int
		l, err := New(client, &Options{OnEvent: func(locker.Event) { events++ }})
		if err != nil {
			t.Fatal(err)
		}
		l.tokens.clock = func() time.Time { return time.Now().Add(offset) }
		fresh, err := l.Acquire(ctx, fmt.Sprint("fresh", i), time.Minute)
		if err != nil {
			t.Fatalf("clock %s off: acquire of a new key: %v", offset, err)
		}
		if apart := time.Until(time.UnixMicro(int64(fresh.Token))); apart.Abs() > lead {
			t.Errorf("clock %s off: the token of a new key is %s from the server's clock", offset, apart)
		}
		lease, err := l.Acquire(ctx, "shared", time.Minute)
		if err != nil {
			t.Fatalf("clock %s off: acquire: %v", offset, err)
		}
		if lease.Token <= last {
			t.Errorf("clock %s off: token %d after %d", offset, lease.Token, last)
		}
		last = lease.Token
		if left := lease.Remaining(); left < 50*time.Second || left > time.Minute {
			t.Errorf("clock %s off: a lease of a minute has %s left", offset, left)
		}
		if err := l.Release(ctx, lease); err != nil {
			t.Errorf("clock %s off: release: %v", offset, err)
		}
		if wrong := offset.Abs() > lead; wrong != (events > 0) {
			t.Errorf("clock %s off: %d events", offset, events)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}
}
