package redisnode

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/locker-go/locker"
)

func micros(t time.Time) locker.Token { return locker.Token(t.UnixMicro()) }

func TestProposer(t *testing.T) {
	now := time.UnixMicro(1_800_000_000_000_000)
	tests := []struct {
		name     string
		offset   time.Duration // of this process's clock from the server's
		saw      time.Duration // a token granted here before, relative to this process's clock
		status   Status
		fence    time.Duration // relative to the server's clock
		lo, hi   time.Duration // of the next proposal, relative to the server's clock
		reported bool
	}{
		{name: "fence behind", status: Stale, fence: -time.Hour, lo: 0, hi: 0},
		{name: "fence just ahead", status: Stale, fence: time.Second, lo: time.Second + 1000, hi: time.Second + Step*time.Microsecond},
		{name: "fence far ahead", status: Stale, fence: time.Hour, lo: time.Hour + 1000, hi: time.Hour + Step*time.Microsecond, reported: true},
		{name: "clock a minute ahead", offset: time.Minute, status: Ahead, fence: -time.Hour, reported: true},
		{name: "clock a minute ahead, after a grant", offset: time.Minute, saw: 9 * time.Second, status: Ahead, fence: -time.Hour, reported: true},
		{name: "clock a minute behind", offset: -time.Minute, status: Stale, fence: -time.Second, reported: true},
		{name: "clock 9 s behind", offset: -9 * time.Second, status: Stale, fence: -time.Second, lo: -time.Second + 1000, hi: -time.Second + Step*time.Microsecond},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			reported := false
			p := &Proposer{
				Clock:  func() time.Time { return now.Add(tt.offset) },
				Random: rand.Int64N,
				Jumped: func(string, error) { reported = true },
			}
			if tt.saw != 0 {
				p.Saw(micros(now.Add(tt.offset + tt.saw)))
			}
			got := p.After("k", Answer{Status: tt.status, Fence: micros(now.Add(tt.fence)), Time: now})
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
		p := &Proposer{Clock: func() time.Time { return clock }, Random: rand.Int64N, Jumped: func(string, error) {}}
		answer := Answer{Status: Stale, Fence: micros(server) - 1, Time: server}
		p.After("k", answer)
		clock = server
		if got := p.After("k", answer); got != micros(server) {
			t.Errorf("with a clock that was %s off and is right now, the proposal is the server's clock %+d us", apart, int64(got-micros(server)))
		}
	}
}

// Below what the server forgot, this process's own memory stands.
func TestProposerRemembers(t *testing.T) {
	now := time.UnixMicro(1_800_000_000_000_000)
	p := &Proposer{Clock: func() time.Time { return now }, Random: rand.Int64N}
	high := micros(now.Add(5 * time.Second))
	p.Saw(high)
	p.Saw(high - 100)
	if got := p.Next(); got != high+1 {
		t.Errorf("after token %d the next proposal is %d, want %d", high, got, high+1)
	}
	p.Saw(micros(now.Add(time.Hour))) // of one key whose fence is far ahead: no measure for others
	if got := p.Next(); got != high+1 {
		t.Errorf("after a token an hour ahead the next proposal is %d, want %d", got, high+1)
	}
}

// INCR tokens after an asynchronous failover (reproduced): both holders got the
// same. Two clients that step above one forgotten fence must not count alike.
func TestProposerStepsAtRandom(t *testing.T) {
	now := time.UnixMicro(1_800_000_000_000_000)
	a := Answer{Status: Stale, Fence: micros(now.Add(5 * time.Second)), Time: now}
	seen := make(map[locker.Token]bool)
	for range 8 {
		p := &Proposer{Clock: func() time.Time { return now }, Random: rand.Int64N, Jumped: func(string, error) {}}
		seen[p.After("k", a)] = true
	}
	if len(seen) < 7 {
		t.Errorf("8 clients proposed only %d different tokens", len(seen))
	}
}
