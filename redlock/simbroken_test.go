package redlock

import (
	"context"
	"time"

	"github.com/locker-go/locker"
	"github.com/locker-go/locker/internal/redisnode"
)

// counter is how fencing tokens were often said to be had on several nodes: each counts its
// grants (INCR), and the token is the highest count of the majority that answered
// first. It keeps to all else that a lock on a majority needs.
type counter struct{ client *client }

// count returns the highest answer of the first majority that says yes, and false if there is none.
func (c *counter) count(ask func(*peer) int64) (int64, bool) {
	peers := c.client.peers
	answers := make(chan int64, len(peers))
	for _, p := range peers {
		go func() { answers <- ask(p) }()
	}
	var highest int64
	yes := 0
	for range peers {
		if a := <-answers; a > 0 {
			yes++
			if highest = max(highest, a); yes >= majority(len(peers)) {
				return highest, true
			}
		}
	}
	return 0, false
}

func grantBy(key, holder string) redisnode.Grant {
	return redisnode.Grant{Keys: redisnode.KeysOf("locker", key), Holder: holder}
}

func (c *counter) Acquire(ctx context.Context, key string, ttl time.Duration) (locker.Lease, error) {
	ttl = wholeMillis(ttl)
	g := grantBy(key, locker.NewHolder())
	asked := locker.Now()
	token, ok := c.count(func(p *peer) int64 {
		n, _ := askPeer(p, ctx, opCount, func(n *worldNode) int64 { return n.count(g, ttl) })
		return n
	})
	lease := locker.Lease{Key: key, Holder: g.Holder, Token: locker.Token(token)}.Granted(asked, ttl, ttl)
	if !ok || lease.Remaining() == 0 {
		c.drop(ctx, g)
		return locker.Lease{}, locker.ErrHeld
	}
	return lease, nil
}

func (c *counter) drop(ctx context.Context, g redisnode.Grant) bool {
	_, ok := c.count(func(p *peer) int64 {
		if released, _, _ := p.Drop(ctx, g, false); released {
			return 1
		}
		return 0
	})
	return ok
}

func (c *counter) Renew(ctx context.Context, lease locker.Lease, ttl time.Duration) (locker.Lease, error) {
	return lease, locker.ErrNotHeld
}

func (c *counter) Release(ctx context.Context, lease locker.Lease) error {
	if !c.drop(ctx, grantBy(lease.Key, lease.Holder)) {
		return locker.ErrNotHeld
	}
	return nil
}

func (c *counter) FenceToken(ctx context.Context, lease locker.Lease) (locker.Token, error) {
	return 0, locker.ErrNotHeld
}
