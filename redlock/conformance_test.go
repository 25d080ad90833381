package redlock_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/locker-go/locker"
	"github.com/locker-go/locker/conformance"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	c := five(t)
	rawURL := c.url("first_use=true&max_ttl=5m&request_timeout=2s")
	b := conformance.Backend{
		Open:  func(ctx context.Context) (locker.Locker, error) { return openURL(ctx, rawURL) },
		TTL:   300 * time.Millisecond,
		Grace: time.Second,
		Waive: map[string]string{
			"Renew/shorter frees sooner": "a node does not make a lock's time shorter, since a late renewal would; the holder's deadline is earlier",
		},
		Faults: conformance.Faults{
			Cut: func(context.Context) (func() error, error) {
				for _, p := range c.proxies {
					p.Cut()
				}
				return func() error {
					for _, p := range c.proxies {
						p.Heal()
					}
					return nil
				}, nil
			},
			Delay: func(_ context.Context, d time.Duration) (func() error, error) {
				c.delay(d)
				return func() error { c.delay(0); return nil }, nil
			},
			LoseReply: func(context.Context) error {
				for _, p := range c.proxies {
					p.LoseReply("evalsha", "eval", "get")
				}
				return nil
			},
			Restart: func(ctx context.Context) error { c.restart(true); return nil },
			// The nodes then know of no grant; that is declared, or they would not vote for a minute.
			Wipe: func(ctx context.Context) error {
				c.restart(false)
				l, err := openURL(ctx, rawURL)
				if err != nil {
					return err
				}
				return errors.Join(err, l.(interface{ Close() error }).Close())
			},
		},
	}
	conformance.Run(t, b)
}

func (c *nodes) delay(d time.Duration) {
	for _, p := range c.proxies {
		p.Delay(d)
	}
}

// restart kills all servers and starts them again.
func (c *nodes) restart(keepData bool) {
	var wg sync.WaitGroup
	for _, s := range c.servers {
		wg.Go(func() { s.Restart(keepData) })
	}
	wg.Wait()
}
