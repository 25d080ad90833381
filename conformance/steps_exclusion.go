package conformance

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/locker-go/locker"
)

// oneWinner lets n clients ask for a key at once.
func (e *Env) oneWinner(ctx context.Context, n int, client func() locker.Locker) {
	key := e.key()
	clients := make([]locker.Locker, n)
	for i := range clients {
		clients[i] = client()
	}
	var won atomic.Int32
	e.each(ctx, n, func(ctx context.Context, i int) {
		lease, err := clients[i].Acquire(ctx, key, e.long)
		switch {
		case err == nil:
			e.remember(clients[i], lease)
			won.Add(1)
		case !errors.Is(err, locker.ErrHeld):
			fail("a lease, or ErrHeld", "Acquire: %s", show(err))
		}
	})
	if won.Load() != 1 {
		fail("one lease", "%d leases of %d attempts at once", won.Load(), n)
	}
}

// legal checks a history.
func (e *Env) legal(h *History) {
	if err := h.Check(); err != nil {
		fail("holders one after the other, with tokens that rise", "%s", err)
	}
}
