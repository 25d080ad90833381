package redisnode

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/locker-go/locker"
)

const (
	// lingering is for how long a channel stays subscribed when nobody waits on
	// it any more: on a contended lock the next waiter comes at once.
	lingering = time.Second

	// maxLingering bounds how many channels do.
	maxLingering = 128

	// unheard bounds the delays between the attempts of a waiter that no message
	// would reach, because its channel is not subscribed yet, or cannot be.
	unheard = 250 * time.Millisecond

	// turn is what a waiter waits, times the square of how many are before it,
	// for those to take a lock that was released.
	turn    = time.Millisecond
	maxTurn = time.Second
)

// Wakes tells waiters when a lock was released. It has one connection, made when
// the first waiter finds a lock held, and two goroutines while there is one: one
// sends subscriptions, so that no waiter has to wait for the network, one receives.
//
// If all waiters asked for the lock at each release, all but one would ask in vain,
// and the nearest to the server would always win. So they take turns, without any
// record on the server: each message says how many listen, each waiter counts the
// messages since it began, and whoever has heard as many as there are others asks
// at once. The rest leave it some time, the longer the later their turn is, so that
// one that died, or only listens, stops nobody.
type Wakes struct {
	client redis.UniversalClient
	ctx    context.Context
	cancel context.CancelFunc
	demand chan struct{} // something may be to send
	wg     sync.WaitGroup

	mu       sync.Mutex
	running  bool
	channels map[string]*channel
	idle     int // channels without waiters
}

type channel struct {
	name      string
	waiters   map[*Waiter]struct{}
	wanted    bool         // some waiter found the lock held
	sent      bool         // the subscription
	confirmed bool         // by the server, at least once
	idleSince time.Time    // when the last waiter left
	released  locker.Token // the last grant that this process gave back while others listened
	others    int          // how many
}

// Waiter is one AcquireWait.
type Waiter struct {
	channel *channel
	wake    chan struct{}
	token   locker.Token  // of the grant that was last seen to hold the lock
	signal  locker.Token  // of the grant of which the end was last signalled
	rounds  int           // messages heard
	first   bool          // it must not ask before it is woken
	retry   *time.Timer   // wakes it if no message does
	delay   time.Duration // of the next retry while unheard
}

// NewWakes returns Wakes that listen at a server, or at any of a cluster.
func NewWakes(client redis.UniversalClient) *Wakes {
	w := &Wakes{client: client, channels: make(map[string]*channel), demand: make(chan struct{}, 1)}
	w.ctx, w.cancel = context.WithCancel(context.Background())
	return w
}

// Watch returns a waiter that is woken, by that channel of one place, if name is
// subscribed already.
func (w *Wakes) Watch(name string, wake chan struct{}) *Waiter {
	w.mu.Lock()
	defer w.mu.Unlock()
	c := w.channels[name]
	if c == nil {
		c = &channel{name: name, waiters: make(map[*Waiter]struct{})}
		w.channels[name] = c
	} else if len(c.waiters) == 0 {
		w.idle--
	}
	n := &Waiter{channel: c, wake: wake, delay: 10 * time.Millisecond}
	c.waiters[n] = struct{}{}
	if c.confirmed && c.others > 0 {
		n.token = c.released + 1 // what it hears of earlier grants is no news
		n.first = true
		n.later(afterOthers(c.others))
	}
	return n
}

// Released says that this process gave back a grant while so many listened.
func (w *Wakes) Released(name string, token locker.Token, listeners int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if c := w.channels[name]; c != nil {
		c.released, c.others = token, listeners-1 // this process listens too
	}
}

// Yield waits until the waiter may ask for the first time.
func (n *Waiter) Yield(ctx context.Context) error {
	if !n.first {
		return nil
	}
	select {
	case <-n.wake:
		return nil
	case <-ctx.Done():
		return locker.Ended(ctx)
	}
}

// afterOthers returns how long to leave a free lock to that many others.
func afterOthers(n int) time.Duration {
	d := min(time.Duration(n*n)*turn, maxTurn)
	return d - rand.N(d/4+1)
}

// later wakes the waiter after d, unless something else is to wake it later.
func (n *Waiter) later(d time.Duration) {
	if n.retry != nil {
		n.retry.Stop()
	}
	n.retry = time.AfterFunc(d, n.ring)
}

// Held says that n found the lock held by the grant with that token. From now on
// its channel is subscribed. A wake-up for an earlier grant has nothing to say.
func (w *Wakes) Held(n *Waiter, token locker.Token) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n.token = token
	if n.signal < token {
		select {
		case <-n.wake:
		default:
		}
	}
	if n.channel.confirmed || w.ctx.Err() != nil {
		return
	}
	n.channel.wanted = true
	w.send()
	n.later(n.delay/2 + rand.N(n.delay/2))
	n.delay = min(2*n.delay, unheard)
}

// ring wakes the waiter.
func (n *Waiter) ring() {
	select {
	case n.wake <- struct{}{}:
	default:
	}
}

// Leave ends a waiter.
func (w *Wakes) Leave(n *Waiter) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if n.retry != nil {
		n.retry.Stop()
	}
	c := n.channel
	delete(c.waiters, n)
	if len(c.waiters) > 0 {
		return
	}
	if !c.wanted {
		delete(w.channels, c.name)
		return
	}
	c.idleSince = time.Now()
	if w.idle++; w.idle > maxLingering {
		w.send()
	}
}

// send has the sender look at what is to be subscribed or unsubscribed.
func (w *Wakes) send() {
	if !w.running {
		w.running = true
		w.wg.Go(w.run)
	}
	select {
	case w.demand <- struct{}{}:
	default:
	}
}

// Close ends the connection. Those who wait are not woken by messages any more.
func (w *Wakes) Close() error {
	w.mu.Lock() // nobody is about to start what is waited for here
	w.cancel()
	w.mu.Unlock()
	w.wg.Wait()
	return nil
}

// run sends subscriptions until the Locker is closed.
func (w *Wakes) run() {
	pubsub := w.client.Subscribe(w.ctx) // connects when there is something to send
	messages := pubsub.ChannelWithSubscriptions(redis.WithChannelSize(1024))
	var receiver sync.WaitGroup
	receiver.Go(func() {
		for m := range messages {
			w.receive(m)
		}
	})
	defer receiver.Wait()
	defer pubsub.Close()
	tick := time.NewTicker(lingering)
	defer tick.Stop()
	for {
		select {
		case <-w.ctx.Done():
			return
		case <-w.demand:
		case <-tick.C:
		}
		subscribe, unsubscribe := w.pending()
		// An error needs no answer: the client subscribes again when it reconnects,
		// and until then waiters are unheard and ask by themselves.
		if len(subscribe) > 0 {
			_ = pubsub.Subscribe(w.ctx, subscribe...)
		}
		if len(unsubscribe) > 0 {
			_ = pubsub.Unsubscribe(w.ctx, unsubscribe...)
		}
	}
}

// pending returns the channels to subscribe, and to unsubscribe: those on which
// nobody waited for a while, or more of them than may linger.
func (w *Wakes) pending() (subscribe, unsubscribe []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for name, c := range w.channels {
		switch {
		case c.wanted && !c.sent:
			c.sent = true
			subscribe = append(subscribe, name)
		case len(c.waiters) == 0 && (time.Since(c.idleSince) > lingering || w.idle > maxLingering):
			w.idle--
			delete(w.channels, name)
			unsubscribe = append(unsubscribe, name)
		}
	}
	return subscribe, unsubscribe
}

// receive wakes the waiters that a message is for.
func (w *Wakes) receive(m any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch m := m.(type) {
	case *redis.Message:
		ended, listeners := ParseMessage(m.Payload)
		if c := w.channels[m.Channel]; c != nil && m.Payload != "" {
			c.wakeAll(ended, listeners)
		}
	case *redis.Subscription:
		// Also after a lost connection, in which messages may have been lost.
		if c := w.channels[m.Channel]; c != nil && m.Kind == "subscribe" {
			c.confirmed = true
			c.wakeAll(locker.MaxToken, 0)
		}
	}
}

// wakeAll wakes the waiters of a channel, each when it is its turn, unless they know
// that a later grant than the one that ended holds the lock.
func (c *channel) wakeAll(ended locker.Token, listeners int) {
	for n := range c.waiters {
		if ended < n.token {
			continue
		}
		if len(n.wake) == 0 {
			n.signal = 0 // the last one was heard
		}
		n.signal = max(n.signal, ended)
		n.rounds++
		if before := listeners - 1 - n.rounds; before > 0 {
			n.later(afterOthers(before))
		} else {
			n.ring()
		}
	}
}
