// Package thirdparty is a backend that somebody else wrote: a table with one row for
// each lock, as it might be in a database that they run anyway.
package thirdparty

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/locker-go/locker"
)

type row struct {
	holder  string
	token   locker.Token
	expires time.Time // by the table's own clock
}

// Table holds locks.
type Table struct {
	mu   sync.Mutex
	last locker.Token
	rows map[string]row
}

// Client is a client of a Table.
type Client struct{ table *Table }

// update calls change with the row of key, if it has not expired, while nobody else
// does.
func (c *Client) update(ctx context.Context, op, key string, ttl time.Duration, change func(r row, held bool) error) error {
	err := errors.Join(locker.ValidateKey(key), locker.ValidateTTL(ttl))
	if err == nil && ctx.Err() != nil {
		err = fmt.Errorf("%w: %w", locker.ErrUnavailable, ctx.Err())
	}
	if err == nil {
		c.table.mu.Lock()
		defer c.table.mu.Unlock()
		r, ok := c.table.rows[key]
		err = change(r, ok && time.Now().Before(r.expires))
	}
	if err != nil {
		return &locker.OpError{Op: op, Backend: "table", Key: key, Err: err}
	}
	return nil
}

func (c *Client) Acquire(ctx context.Context, key string, ttl time.Duration) (lease locker.Lease, err error) {
	err = c.update(ctx, "acquire", key, ttl, func(r row, held bool) error {
		if held {
			return &locker.HeldError{Holding: locker.Holding{
				Key: key, Holder: locker.ShowHolder(r.holder), Token: r.token, Remaining: time.Until(r.expires)}}
		}
		asked := locker.Now()
		c.table.last = max(c.table.last+1, locker.Token(time.Now().UnixMicro()))
		r = row{locker.NewHolder(), c.table.last, time.Now().Add(ttl)}
		if c.table.rows == nil {
			c.table.rows = make(map[string]row)
		}
		c.table.rows[key] = r
		lease = locker.Lease{Key: key, Holder: r.holder, Token: r.token}.Granted(asked, ttl, ttl)
		return nil
	})
	return lease, err
}

// own calls change if lease is the current grant of its key.
func (c *Client) own(ctx context.Context, op string, lease locker.Lease, ttl time.Duration, change func()) error {
	return c.update(ctx, op, lease.Key, ttl, func(r row, held bool) error {
		if !held || r.holder != lease.Holder || r.token != lease.Token {
			return locker.ErrNotHeld
		}
		change()
		return nil
	})
}

func (c *Client) Renew(ctx context.Context, lease locker.Lease, ttl time.Duration) (locker.Lease, error) {
	err := c.own(ctx, "renew", lease, ttl, func() {
		asked := locker.Now()
		c.table.rows[lease.Key] = row{lease.Holder, lease.Token, time.Now().Add(ttl)}
		lease = lease.Granted(asked, ttl, ttl)
	})
	return lease, err
}

func (c *Client) Release(ctx context.Context, lease locker.Lease) error {
	return c.own(ctx, "release", lease, locker.MinTTL, func() { delete(c.table.rows, lease.Key) })
}

func (c *Client) FenceToken(ctx context.Context, lease locker.Lease) (locker.Token, error) {
	if err := c.own(ctx, "fence", lease, locker.MinTTL, func() {}); err != nil {
		return 0, err
	}
	return lease.Token, nil
}
