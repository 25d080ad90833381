package redlock

import (
	"context"
	"errors"
	"time"

	"github.com/locker-go/locker"
)

// worker is a goroutine of a client that takes locks and gives them back, or does not.
type worker struct {
	*client
	dice dice
	old  []locker.Lease // that it had
}

func newWorker(c *client, i int) *worker {
	return &worker{client: c, dice: roll(c.w.seed, uint64(2000+10*c.id+i))}
}

// pass waits, and longer if the client is paused.
func (k *worker) pass(d time.Duration) {
	time.Sleep(k.w.alone(d))
	k.awake(0)
}

func (k *worker) over() bool { return k.w.since() > k.w.horizon }

// ttl draws a TTL. What a node forgets matters if it would have stood for long.
func (k *worker) ttl() time.Duration {
	if k.w.assumes == forgets && k.dice.chance(0.6) {
		return k.dice.log(k.w.maxTTL/3, k.w.maxTTL)
	}
	return k.dice.log(locker.MinTTL, k.w.maxTTL)
}

// work goes on until the plan's time is over.
func (k *worker) work() {
	r := k.dice
	steps := 2 + r.IntN(4)
	pace := 2 * k.w.horizon / time.Duration(steps)
	for range steps {
		if k.pass(r.below(max(k.w.maxTTL/10, time.Millisecond))); r.chance(0.5) {
			k.pass(r.below(pace))
		}
		if k.over() {
			return
		}
		key := k.w.keys[r.IntN(len(k.w.keys))]
		switch {
		case len(k.old) > 0 && r.chance(0.2):
			k.use(k.old[r.IntN(len(k.old))])
		case k.core != nil && r.chance(k.w.raise):
			k.raise(key, locker.Token(epoch.Add(k.w.since()+r.around(8*time.Second)).UnixMicro()))
		default:
			if lease, err := k.wait(key); err == nil {
				k.old = append(k.old, k.hold(lease))
			}
		}
	}
}

// wait tries to take a lock, often as those do who wait for it: again when the holder's
// time should be up, or before.
func (k *worker) wait(key string) (lease locker.Lease, err error) {
	r, ttl := k.dice, k.ttl()
	for {
		ctx, cancel := k.ctx, context.CancelFunc(func() {})
		if r.chance(0.15) {
			ctx, cancel = context.WithTimeout(ctx, k.w.alone(r.log(100*time.Microsecond, 2*k.w.requestTimeout)))
		}
		lease, err = k.acquire(ctx, key, ttl)
		cancel()
		held, ok := errors.AsType[*locker.HeldError](err)
		if !ok || r.chance(0.25) || k.over() {
			return lease, err
		}
		if r.chance(0.5) {
			k.pass(held.Remaining + r.below(3*time.Millisecond))
		} else {
			k.pass(r.below(held.Remaining + time.Millisecond))
		}
	}
}

// hold does with a lease what holders do, the careless among them too.
func (k *worker) hold(lease locker.Lease) locker.Lease {
	r := k.dice
	for r.chance(0.6) {
		switch {
		case r.chance(0.3): // when the grant's own messages may still be under way
			k.pass(min(r.below(k.w.requestTimeout), lease.TTL/2))
		case r.chance(0.1): // it is stalled past the deadline
			k.pass(lease.TTL + r.below(lease.TTL))
		default:
			k.pass(r.below(lease.TTL))
		}
		if r.chance(0.2) {
			k.fence(lease)
		} else if l, err := k.renew(lease, k.ttl()); err == nil {
			lease = l
		} else if errors.Is(err, locker.ErrNotHeld) && r.chance(0.8) {
			return lease
		}
	}
	if k.pass(r.below(lease.TTL)); r.chance(0.8) {
		_ = k.release(lease)
	}
	return lease
}

// use tries a lease that is most often long over.
func (k *worker) use(lease locker.Lease) {
	switch k.dice.IntN(4) {
	case 0:
		k.fence(lease)
	case 1:
		_ = k.release(lease)
	default:
		_, _ = k.renew(lease, k.ttl())
	}
}
