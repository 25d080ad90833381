package bench

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"

	"github.com/locker-go/locker"
	lockredis "github.com/locker-go/locker/redis"
)

// ttl is the same for all, and far longer than anything here takes.
const ttl = 30 * time.Second

// limit ends what hangs.
const limit = time.Minute

// client is a lock library with a connection of its own to the server.
type client interface {
	// lock waits for the lock of key until ctx ends.
	lock(ctx context.Context, key string) (unlock func() error, err error)
	close() error
}

// peer is a library to be measured.
type peer struct {
	name string
	open func(addr string) (client, error)
	bare *peer // bare requests on the same driver
}

var (
	bareGoRedis = &peer{name: "bare-go-redis", open: openBareGoRedis}
	bareRueidis = &peer{name: "bare-rueidis", open: openBareRueidis}

	ours        = &peer{name: "locker", open: openDefaultLocker, bare: bareGoRedis}
	oursBackend = &peer{name: "locker-backend", open: openBackend, bare: bareGoRedis}

	// peers wait for a lock that is held.
	peers = []*peer{
		ours,
		{name: "redsync", open: openRedsync, bare: bareGoRedis},
		{name: "redislock", open: openRedislock, bare: bareGoRedis},
		{name: "rueidislock", open: openRueidislock, bare: bareRueidis},
	}
)

func peerNamed(name string) (*peer, error) {
	for _, p := range peers {
		if p.name == name {
			return p, nil
		}
	}
	return nil, fmt.Errorf("no peer is named %q", name)
}

func goRedis(addr string) *redis.Client {
	return redis.NewClient(&redis.Options{Addr: addr, DisableIdentity: true, PoolSize: 64})
}

// compareAndDelete is what plain locks are released by.
const compareAndDelete = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0`

var errBareHeld = errors.New("the key is held: bare requests do not wait")

// onBareGoRedis is SET NX PX and compare-and-delete, and no more.
type onBareGoRedis struct {
	client  *redis.Client
	release *redis.Script
}

func openBareGoRedis(addr string) (client, error) {
	return onBareGoRedis{client: goRedis(addr), release: redis.NewScript(compareAndDelete)}, nil
}

func (c onBareGoRedis) lock(ctx context.Context, key string) (func() error, error) {
	value := locker.NewHolder()
	ok, err := c.client.SetNX(ctx, key, value, ttl).Result()
	if err == nil && !ok {
		err = errBareHeld
	}
	return func() error { return c.release.Run(ctx, c.client, []string{key}, value).Err() }, err
}

func (c onBareGoRedis) close() error { return c.client.Close() }

// onBareRueidis is the same on the driver of rueidislock.
type onBareRueidis struct {
	client  rueidis.Client
	release *rueidis.Lua
}

func openBareRueidis(addr string) (client, error) {
	c, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{addr}})
	return onBareRueidis{client: c, release: rueidis.NewLuaScript(compareAndDelete)}, err
}

func (c onBareRueidis) lock(ctx context.Context, key string) (func() error, error) {
	value := locker.NewHolder()
	err := c.client.Do(ctx, c.client.B().Set().Key(key).Value(value).Nx().Px(ttl).Build()).Error()
	if rueidis.IsRedisNil(err) {
		err = errBareHeld
	}
	return func() error { return c.release.Exec(ctx, c.client, []string{key}, []string{value}).Error() }, err
}

func (c onBareRueidis) close() error { c.client.Close(); return nil }

// onLocker is what users of locker have: a Client, which renews what it holds.
type onLocker struct {
	client *locker.Client
	redis  *redis.Client
}

func openLocker(addr string, opts *lockredis.Options) (client, error) {
	c := goRedis(addr)
	l, err := lockredis.New(c, opts)
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return onLocker{client: locker.New(l, &locker.Options{TTL: ttl, CloseLocker: true}), redis: c}, nil
}

func openDefaultLocker(addr string) (client, error) { return openLocker(addr, nil) }

func (c onLocker) lock(ctx context.Context, key string) (func() error, error) {
	h, err := c.client.Lock(ctx, key)
	if err != nil {
		return nil, err
	}
	return h.Unlock, nil
}

func (c onLocker) close() error { return errors.Join(c.client.Close(), c.redis.Close()) }

// onBackend is locker's backend without the Client. Like redsync and redislock, and
// unlike locker and rueidislock, it renews nothing.
type onBackend struct {
	backend *lockredis.Locker
	redis   *redis.Client
}

func openBackend(addr string) (client, error) {
	c := goRedis(addr)
	l, err := lockredis.New(c, nil)
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return onBackend{backend: l, redis: c}, nil
}

func (c onBackend) lock(ctx context.Context, key string) (func() error, error) {
	lease, err := c.backend.Acquire(ctx, key, ttl)
	return func() error { return c.backend.Release(ctx, lease) }, err
}

func (c onBackend) close() error { return errors.Join(c.backend.Close(), c.redis.Close()) }

// onRedsync retries after its own default delay, and not its default 32 times only.
type onRedsync struct {
	redsync *redsync.Redsync
	redis   *redis.Client
}

func openRedsync(addr string) (client, error) {
	c := goRedis(addr)
	return onRedsync{redsync: redsync.New(goredis.NewPool(c)), redis: c}, nil
}

func (c onRedsync) lock(ctx context.Context, key string) (func() error, error) {
	m := c.redsync.NewMutex(key, redsync.WithExpiry(ttl), redsync.WithTries(math.MaxInt))
	if err := m.LockContext(ctx); err != nil {
		return nil, err
	}
	return func() error {
		_, err := m.UnlockContext(context.WithoutCancel(ctx))
		return err
	}, nil
}

func (c onRedsync) close() error { return c.redis.Close() }

// onRedislock backs off from the shortest delay that its documentation recommends to
// the one that its example has.
type onRedislock struct {
	redislock *redislock.Client
	redis     *redis.Client
}

func openRedislock(addr string) (client, error) {
	c := goRedis(addr)
	return onRedislock{redislock: redislock.New(c), redis: c}, nil
}

func (c onRedislock) lock(ctx context.Context, key string) (func() error, error) {
	retry := redislock.ExponentialBackoff(16*time.Millisecond, 100*time.Millisecond)
	l, err := c.redislock.Obtain(ctx, key, ttl, &redislock.Options{RetryStrategy: retry})
	if err != nil {
		return nil, err
	}
	return func() error { return l.Release(context.WithoutCancel(ctx)) }, nil
}

func (c onRedislock) close() error { return c.redis.Close() }

// onRueidislock has what its documentation advises for one server of version 7.0.5 or
// later, but for TryNextAfter, which bounds a request: after the 20 ms of the default,
// which a busy machine exceeds, it waits for a message about a key that is free.
type onRueidislock struct{ rueidislock.Locker }

func openRueidislock(addr string) (client, error) {
	l, err := rueidislock.NewLocker(rueidislock.LockerOption{
		ClientOption:   rueidis.ClientOption{InitAddress: []string{addr}},
		KeyValidity:    ttl,
		KeyMajority:    1,
		TryNextAfter:   time.Second,
		NoLoopTracking: true,
	})
	return onRueidislock{l}, err
}

func (c onRueidislock) lock(ctx context.Context, key string) (func() error, error) {
	_, unlock, err := c.WithContext(ctx, key)
	return func() error { unlock(); return nil }, err
}

func (c onRueidislock) close() error { c.Close(); return nil }
