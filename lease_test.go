package locker_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/locker-go/locker"
	"github.com/locker-go/locker/memory"
)

// secretOf returns the part of a lease that nobody else may see.
func secretOf(l locker.Lease) string { return l.Holder[strings.LastIndexByte(l.Holder, '.')+1:] }

// diffLeases compares what of a lease outlives its process.
func diffLeases(a, b locker.Lease) string {
	return cmp.Diff(a, b, cmpopts.IgnoreUnexported(locker.Lease{}))
}

func TestDeadlineIsCutShortByDrift(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for kept, want := range map[time.Duration]time.Duration{
			10 * time.Millisecond: 7900 * time.Microsecond,
			time.Second:           988 * time.Millisecond,
			30 * time.Second:      29698 * time.Millisecond,
			locker.MaxTTL:         locker.MaxTTL/100*99 - 2*time.Millisecond,
			time.Millisecond:      0, // drift eats it
			0:                     0,
			-time.Second:          0,
		} {
			asked := locker.Now()
			if got := (locker.Lease{}).Granted(asked, time.Minute, kept); got.Remaining() != want || got.TTL != time.Minute {
				t.Errorf("kept for %s: %s remain of %s, want %s of 1m", kept, got.Remaining(), got.TTL, want)
			}
		}
		// Counted from before the request left, not from when the answer came.
		asked := locker.Now()
		time.Sleep(10 * time.Second)
		lease := locker.Lease{}.Granted(asked, ttl, ttl)
		if left := lease.Remaining(); left != 19698*time.Millisecond {
			t.Errorf("%s remain after an answer that took 10 s", left)
		}
		time.Sleep(time.Minute)
		if left := lease.Remaining(); left != 0 {
			t.Errorf("%s remain after the end", left)
		}
		if at := asked.Add(time.Second); at.Elapsed() != 69*time.Second {
			t.Errorf("%s since the second after", at.Elapsed())
		}
	})
}

func TestLeaseAsJSON(t *testing.T) {
	locker.Suspended.Add(int64(time.Hour)) // some time ago: of no interest to either
	synctest.Test(t, func(t *testing.T) {
		lease, err := memory.New(nil).Acquire(t.Context(), "\u00fc \"<&>", 1500*time.Millisecond)
		if err != nil {
			t.Fatal(err)
		}
		lease.Handle = "7f3b"
		b, err := json.Marshal(lease)
		if err != nil {
			t.Fatal(err)
		}
		var got locker.Lease
		if err := json.Unmarshal(b, &got); err != nil {
			t.Fatal(err)
		}
		if d := diffLeases(lease, got); d != "" {
			t.Error(d)
		}
		if got.Remaining() != lease.Remaining() {
			t.Errorf("%s remain, want %s", got.Remaining(), lease.Remaining())
		}
		if !strings.Contains(string(b), `"ttl":"1.5s"`) {
			t.Errorf("got %s", b)
		}
	})
}

func TestLeaseRefusesJSON(t *testing.T) {
	const good = `{"key":"k","holder":"h.1.X","token":7,"ttl":"30s","deadline":"2026-01-02T03:04:05Z"}`
	if err := json.Unmarshal([]byte(good), new(locker.Lease)); err != nil {
		t.Fatal(err)
	}
	for _, change := range [][2]string{
		{`"k"`, `""`}, {`"k"`, `"a\u0000b"`}, {`"k"`, `7`},
		{`"h.1.X"`, `""`}, {`7`, `0`}, {`7`, `-1`}, {`7`, `9007199254740992`}, {`7`, `1.5`},
		{`30s`, ``}, {`30s`, `30`}, {`30s`, `-30s`}, {`30s`, `0s`}, {`"30s"`, `30`},
		{`2026-01-02`, `yesterday`}, {good, `null`}, {good, `[]`}, {good, `"lease"`}, {good, `{}`},
	} {
		text := strings.Replace(good, change[0], change[1], 1)
		before := locker.Lease{Key: "untouched"}
		lease := before
		err := lease.UnmarshalJSON([]byte(text))
		if !errors.Is(err, locker.ErrInvalid) {
			t.Errorf("%s: got error %v, want ErrInvalid", text, err)
		}
		if lease != before {
			t.Errorf("%s: the lease was changed to %s", text, lease)
		}
	}
}

func FuzzLeaseJSON(f *testing.F) {
	f.Add([]byte(`{"key":"k","holder":"h.1.X","token":7,"ttl":"30s","deadline":"2026-01-02T03:04:05.000000006Z","handle":"x"}`))
	f.Add([]byte(`{"key":"\ud800","holder":"h","token":1,"ttl":"1h0.5s","deadline":"9999-12-31T23:59:59-23:59"}`))
	f.Add([]byte(`null`))
	f.Fuzz(func(t *testing.T, b []byte) {
		var lease, again locker.Lease
		if err := json.Unmarshal(b, &lease); err != nil {
			return
		}
		if err := errors.Join(locker.ValidateKey(lease.Key), locker.ValidateTTL(lease.TTL)); err != nil {
			t.Fatalf("decoded %s: %v", b, err)
		}
		encoded, err := json.Marshal(lease)
		if err != nil {
			t.Fatalf("%s cannot be encoded again: %v", b, err)
		}
		if err := json.Unmarshal(encoded, &again); err != nil {
			t.Fatalf("%s encoded as %s: %v", b, encoded, err)
		}
		if d := diffLeases(lease, again); d != "" {
			t.Error(d)
		}
	})
}

func TestNothingPrintedShowsACredential(t *testing.T) {
	c := newClient(t, memory.New(nil), nil)
	h := mustLock(t, c, key)
	defer mustUnlock(t, h)
	lease := h.Lease()
	_, heldErr := c.TryLock(t.Context(), key)
	values := map[string]any{
		"lease": lease, "pointer to a lease": &lease, "leases": []locker.Lease{lease}, "struct": struct{ L locker.Lease }{lease},
		"map": map[string]locker.Lease{"k": lease}, "hold": h, "holding": lease.Holding(), "error": heldErr,
		"event": locker.Event{Kind: locker.EventLost, Holding: lease.Holding(), Err: heldErr},
	}
	for name, v := range values {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%t", "%T", "%10.3s", "%z"} {
			if s := fmt.Sprintf(verb, v); strings.Contains(s, secretOf(lease)) || strings.Contains(s, fmt.Sprintf("%x", secretOf(lease))) {
				t.Errorf("%s as %s shows a credential: %s", name, verb, s)
			}
		}
		if name == "leases" || name == "struct" || name == "map" || strings.HasPrefix(name, "pointer") {
			continue // slog encodes these as JSON, which is for handing a lease on
		}
		var out bytes.Buffer
		slog.New(slog.NewJSONHandler(&out, nil)).Info("msg", "v", v)
		slog.New(slog.NewTextHandler(&out, nil)).Info("msg", "v", v)
		if strings.Contains(out.String(), secretOf(lease)) {
			t.Errorf("%s in a log shows a credential: %s", name, &out)
		}
	}
	want := fmt.Sprintf("lease of %q by %s with token %d until ", key, locker.ShowHolder(lease.Holder), lease.Token)
	for _, v := range []any{lease, &lease, h} {
		if got := fmt.Sprint(v); !strings.HasPrefix(got, want) {
			t.Errorf("got %s, want %s...", got, want)
		}
	}
}

func TestHolder(t *testing.T) {
	a, b := locker.NewHolder(), locker.NewHolder()
	if a == b {
		t.Fatalf("two grants have the holder %s", a)
	}
	pid := fmt.Sprintf(".%d", os.Getpid())
	for _, holder := range []string{a, b} {
		secret := holder[strings.LastIndexByte(holder, '.')+1:]
		shown := locker.ShowHolder(holder)
		if len(secret) < 26 || strings.Contains(shown, secret) || !strings.Contains(shown, pid+"#") || len(shown) > len(holder) {
			t.Errorf("%s is shown as %s", holder, shown)
		}
	}
	if locker.ShowHolder(a) == locker.ShowHolder(b) {
		t.Error("two holders look alike")
	}
	if first, again := locker.ShowHolder(a), locker.ShowHolder(a); first != again {
		t.Error("a holder looks different each time")
	}
}

// What other programs put into a lock may be a secret as a whole.
func TestHolderOfAnotherProgramShowsAsHash(t *testing.T) {
	const random = "ABCDEFGHIJKLMNOPQRSTUVWXY2"
	for _, holder := range []string{
		"", "x", "owner-12", "a.b", "host.1.", ".", "..", "5f2b8e7c-8d9a-4d1e-9b1a-6a1f0c9e2d3b:47", "host.1." + strings.ToLower(random),
		random, "password." + random, "user.password." + random, "host.1." + random + "A", "host.1." + random[1:],
		"host.-1." + random, "host.1." + random[1:] + "1", "\x00\xff",
	} {
		if got := locker.ShowHolder(holder); len(got) != 9 || got[0] != '#' {
			t.Errorf("%q is shown as %q, want a hash alone", holder, got)
		}
	}
	if got := locker.ShowHolder("my.host.17." + random); !strings.HasPrefix(got, "my.host.17#") {
		t.Errorf("got %q", got)
	}
}
