package locker

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"time"
)

// Lease is one grant of a lock. It is a value and is never changed: renewing
// returns a new one.
//
// A lease is a credential: whoever has one can renew and release the lock. As JSON
// it can be handed to another process and used there, on backends whose leases are
// not bound to a process. Printed with the fmt package, or logged with slog, it
// does not show its secret part; its fields, and its JSON form, do, and so does
// fmt for a struct that has a lease in an unexported field.
type Lease struct {
	Key string

	// Holder is host.pid.random, unique to this grant. Its random part is the
	// credential.
	Holder string

	// Token is the fencing token, which rises with every grant of the key.
	Token Token

	// TTL is as granted, which may differ from what was asked for.
	TTL time.Duration

	// Deadline is when the lease ends unless renewed, for people and logs.
	// Remaining is what programs go by.
	Deadline time.Time

	// Handle belongs to the backend and is opaque to all others.
	Handle string

	suspended time.Duration // as of the grant
	measured  bool          // granted or renewed in this process, not decoded
}

// Granted returns l as granted for ttl by a request that left after asked was
// read. Its deadline is asked + kept - drift: kept is for how long, from any moment
// after asked, the backend is sure to keep the lock (most often ttl itself), and
// drift is 1 % + 2 ms. It is what backends make their leases with.
func (l Lease) Granted(asked Instant, ttl, kept time.Duration) Lease {
	l.TTL = ttl
	l.Deadline = asked.at.Add(kept - drift(kept))
	l.suspended = asked.suspended
	l.measured = true
	return l
}

// Remaining returns for how long the lease still holds: zero once it has ended. It
// is measured by a clock that runs on while the machine is suspended. For a lease
// decoded from JSON it goes by the wall clock.
func (l Lease) Remaining() time.Duration {
	var gone time.Duration
	if l.measured {
		gone = suspendedSince(l.suspended)
	}
	return max(time.Until(l.Deadline)-gone, 0)
}

// Holding returns what others may see of the lease.
func (l Lease) Holding() Holding {
	return Holding{Key: l.Key, Holder: ShowHolder(l.Holder), Token: l.Token, Remaining: l.Remaining()}
}

// String returns the lease without its secret part.
func (l Lease) String() string {
	return fmt.Sprintf("lease of %s by %s with token %d until %s",
		quoteKey(l.Key), ShowHolder(l.Holder), l.Token, l.Deadline.Format(time.RFC3339Nano))
}

// Format writes String whatever the verb, so that none shows the secret part (but
// %p, which is for pointers; go vet refuses it here).
func (l Lease) Format(s fmt.State, _ rune) { _, _ = io.WriteString(s, l.String()) }

// LogValue returns the lease without its secret part.
func (l Lease) LogValue() slog.Value {
	return slog.GroupValue(
		slog.String("key", l.Key),
		slog.String("holder", ShowHolder(l.Holder)),
		slog.Uint64("token", uint64(l.Token)),
		slog.Duration("ttl", l.TTL),
		slog.Time("deadline", l.Deadline),
	)
}

// leaseJSON is the form of a lease outside a process.
type leaseJSON struct {
	Key      string    `json:"key"`
	Holder   string    `json:"holder"`
	Token    Token     `json:"token"`
	TTL      string    `json:"ttl"`
	Deadline time.Time `json:"deadline"`
	Handle   string    `json:"handle,omitempty"`
}

// MarshalJSON encodes the whole lease, credential included. The TTL is in the form
// of time.ParseDuration.
func (l Lease) MarshalJSON() ([]byte, error) {
	return json.Marshal(leaseJSON{l.Key, l.Holder, l.Token, l.TTL.String(), l.Deadline.UTC(), l.Handle})
}

// UnmarshalJSON decodes what MarshalJSON encoded, and refuses what no backend can
// have granted.
func (l *Lease) UnmarshalJSON(b []byte) error {
	var j leaseJSON
	if err := json.Unmarshal(b, &j); err != nil {
		return fmt.Errorf("%w: not a lease: %w", ErrInvalid, err)
	}
	if err := ValidateKey(j.Key); err != nil {
		return fmt.Errorf("not a lease: %w", err)
	}
	ttl, err := time.ParseDuration(j.TTL)
	if err != nil {
		return fmt.Errorf("%w: not a lease: its ttl: %w", ErrInvalid, err)
	}
	if err := ValidateTTL(ttl); err != nil {
		return fmt.Errorf("not a lease: %w", err)
	}
	if j.Holder == "" || j.Token == 0 || j.Token > MaxToken {
		return fmt.Errorf("%w: not a lease: it needs a holder and a token from 1 to %d", ErrInvalid, MaxToken)
	}
	if y := j.Deadline.UTC().Year(); y < 0 || y > 9999 {
		return fmt.Errorf("%w: not a lease: its deadline is in the year %d", ErrInvalid, y)
	}
	*l = Lease{Key: j.Key, Holder: j.Holder, Token: j.Token, TTL: ttl, Deadline: j.Deadline, Handle: j.Handle}
	return nil
}
