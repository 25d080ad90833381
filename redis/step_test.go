package redis

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/locker-go/locker"
	"github.com/locker-go/locker/internal/redisnode"
	"github.com/locker-go/locker/internal/testbed"
)

// stepper is a Locker whose clock the test sets, with a client to look at the server.
type stepper struct {
	*Locker
	t      *testing.T
	client *redis.Client
	clock  time.Time
}

func newStepper(t *testing.T) *stepper {
	server := testbed.Redis(t)
	s := &stepper{t: t, client: redis.NewClient(&redis.Options{Addr: server.Addr()}), clock: time.Now()}
	l, err := New(s.client, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		_ = s.client.Close()
	})
	s.Locker = l
	l.tokens.Clock = func() time.Time { return s.clock }
	return s
}

// pair acquires and releases the lock.
func (s *stepper) pair() locker.Lease {
	s.t.Helper()
	lease, err := s.Acquire(s.t.Context(), "k", time.Minute)
	if err == nil {
		err = s.Release(s.t.Context(), lease)
	}
	if err != nil {
		s.t.Fatal(err)
	}
	return lease
}

// asked returns how often scripts asked for the server's clock.
func (s *stepper) asked() (n int) {
	for line := range strings.Lines(s.client.Info(s.t.Context(), "commandstats").Val()) {
		if _, err := fmt.Sscanf(line, "cmdstat_time:calls=%d", &n); err == nil {
			return n
		}
	}
	return 0
}

func (s *stepper) fence() string { return redisnode.KeysOf("locker", "k").Fence }

// setFence lifts the fence, or lowers it as nobody may.
func (s *stepper) setFence(at time.Time) {
	s.client.Set(s.t.Context(), s.fence(), fmt.Sprint(at.UnixMicro()), time.Hour)
}

// One step above a fence the server's clock does not matter, and is not asked for. The
// fence is kept as long as it would be else.
func TestTokenAboveTheFence(t *testing.T) {
	s := newStepper(t)
	for want, after := range []time.Duration{0, time.Microsecond, redisnode.Step * time.Microsecond} {
		s.clock = s.clock.Add(after)
		s.pair()
		if got := s.asked(); got != 1 {
			t.Errorf("%d pairs on one fence asked for the clock %d times, want once", want+1, got)
		}
	}
	kept := s.client.PTTL(t.Context(), s.fence()).Val()
	if want := time.Hour + time.Minute; kept > want+2*time.Second || kept < want-time.Minute {
		t.Errorf("the fence is kept for %s, want %s", kept, want)
	}
	s.clock = s.clock.Add((redisnode.Step + 1) * time.Microsecond)
	if s.pair(); s.asked() != 2 {
		t.Errorf("more than a step above the fence the clock was asked for %d times, want once more", s.asked()-1)
	}
}

// A fence far ahead of the clock is kept until the clock has passed it, although the
// clock is not asked for.
func TestFenceAheadIsKept(t *testing.T) {
	s := newStepper(t)
	s.setFence(time.Now().Add(5 * time.Hour))
	lease := s.pair()
	if ahead := time.Until(time.UnixMicro(int64(lease.Token))); ahead < 4*time.Hour {
		t.Fatalf("the token is %s ahead of the clock, want 5 h", ahead)
	}
	if kept := s.client.PTTL(t.Context(), s.fence()).Val(); kept < 6*time.Hour {
		t.Errorf("the fence is kept for %s, want 6 h", kept)
	}
}

// A token may be far behind the server's clock where the fence is too, but not where
// the fence was lost: what was forgotten with it was higher.
func TestFenceBehindIsLost(t *testing.T) {
	s := newStepper(t)
	s.setFence(time.Now().Add(-time.Hour))
	s.clock = time.Now().Add(time.Second - time.Hour)
	old := s.pair()
	if behind := time.Since(time.UnixMicro(int64(old.Token))); behind < 50*time.Minute {
		t.Fatalf("the token is %s behind the clock, want 1 h", behind)
	}
	s.client.FlushAll(t.Context())
	lease := s.pair()
	if apart := time.Until(time.UnixMicro(int64(lease.Token))); apart.Abs() > redisnode.Lead {
		t.Errorf("the token after the loss is %s from the server's clock", apart)
	}
}
