package zookeeper

import (
	"sync"
	"time"
)

// crowds remember which queues had others in them a moment ago. Whoever is alone creates
// the directory with the entry, and deletes both; in a crowd that is refused.
type crowds struct {
	mu   sync.Mutex
	seen map[string]time.Time
}

const (
	crowdFor  = time.Second
	maxCrowds = 1000
)

func (c *crowds) note(key string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.seen == nil || len(c.seen) >= maxCrowds {
		c.seen = make(map[string]time.Time)
	}
	c.seen[key] = time.Now()
}

func (c *crowds) recent(key string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	seen, ok := c.seen[key]
	if ok && time.Since(seen) > crowdFor {
		delete(c.seen, key)
		return false
	}
	return ok
}

func (c *crowds) forget(key string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.seen, key)
}
