package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/locker-go/locker"
)

const (
	// tryTTL is for a lock that is given back at once.
	tryTTL = 10 * time.Second

	// slow is how long one request may take before that endangers leases.
	slow = time.Second
)

// tryLock takes a lock, renews it and gives it back. That tells what no server's
// configuration does: whether this user may, through all that is between, and how long
// it takes.
func tryLock(ctx context.Context, l locker.Locker, key string) locker.Finding {
	f := locker.Finding{Check: "lock", Severity: locker.SeverityDanger}
	began := time.Now()
	slowest, last := time.Duration(0), began
	lap := func() {
		slowest, last = max(slowest, time.Since(last)), time.Now()
	}
	lease, err := l.Acquire(ctx, key, tryTTL)
	lap()
	if errors.Is(err, locker.ErrHeld) {
		f.Severity, f.Observed = locker.SeverityOK, "held by another: "+show(key)
		return f
	}
	if err != nil {
		f.Observed = "no lock can be taken"
		f.Reason = fmt.Sprintf("It was tried: %v.", err)
		f.Remedy = "Do what the message says; if this user may lock other keys only, name one of them by --key."
		return f
	}
	lease, err = l.Renew(ctx, lease, tryTTL)
	lap()
	if err == nil {
		_, err = l.FenceToken(ctx, lease)
		lap()
	}
	err = errors.Join(err, l.Release(context.WithoutCancel(ctx), lease))
	lap()
	switch took := time.Since(began).Round(10 * time.Microsecond); {
	case err != nil:
		f.Observed = "a lock was taken, but could not be used"
		f.Reason = fmt.Sprintf("It was renewed and given back at once: %v.", err)
		f.Remedy = "Do what the message says."
	case slowest > slow:
		f.Severity = locker.SeverityWarning
		f.Observed = fmt.Sprintf("taken, renewed and released in %s", took)
		f.Reason = fmt.Sprintf("One request took %s. A lease whose renewal takes that long is easily lost.", slowest.Round(time.Millisecond))
		f.Remedy = "Find out what is slow, the network or the server; choose a TTL of at least ten times that."
	default:
		f.Severity = locker.SeverityOK
		f.Observed = fmt.Sprintf("taken, renewed and released in %s", took)
	}
	return f
}
