package redisnode

import (
	"context"
	"errors"
	"testing"

	"github.com/redis/go-redis/v9"
)

// A waiter that found the lock held while its Locker was closed started what Close
// had not waited for.
func TestCloseWhileWaiting(t *testing.T) {
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", DialerRetries: 1})
	defer client.Close()
	for range 200 {
		w := NewWakes(client)
		n := w.Watch("channel", make(chan struct{}, 1))
		done := make(chan struct{})
		go func() { w.Held(n, 1); close(done) }()
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		<-done
		w.Leave(n)
	}
}

// redsync#164: the reason was lost, here of a wait that ended in its turn-taking.
func TestYieldKeepsCause(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	reason := errors.New("no longer wanted")
	cancel(reason)
	n := &Waiter{wake: make(chan struct{}), first: true}
	if err := n.Yield(ctx); !errors.Is(err, context.Canceled) || !errors.Is(err, reason) {
		t.Errorf("yield = %v; want Canceled and its cause", err)
	}
}
