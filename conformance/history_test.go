package conformance_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/locker-go/locker"
	"github.com/locker-go/locker/conformance"
	"github.com/locker-go/locker/memory"
)

// at returns a moment of the histories below, in milliseconds.
func at(ms int) time.Time { return time.UnixMilli(1_000_000 + int64(ms)) }

func acquired(token locker.Token, asked, answered, deadline int) conformance.Event {
	return conformance.Event{Op: conformance.OpAcquire, Key: "k", Token: token, Asked: at(asked), Answered: at(answered), OK: true, Deadline: at(deadline)}
}

func renewed(token locker.Token, asked, answered, deadline int) conformance.Event {
	e := acquired(token, asked, answered, deadline)
	e.Op = conformance.OpRenew
	return e
}

func released(token locker.Token, asked, answered int) conformance.Event {
	return conformance.Event{Op: conformance.OpRelease, Key: "k", Token: token, Asked: at(asked), Answered: at(answered), OK: true}
}

func fenced(token locker.Token, asked, answered int) conformance.Event {
	e := released(token, asked, answered)
	e.Op = conformance.OpFence
	return e
}

func refused(e conformance.Event) conformance.Event {
	e.OK, e.Deadline = false, time.Time{}
	return e
}

func onKey(key string, e conformance.Event) conformance.Event {
	e.Key = key
	return e
}

func TestHistoryCheck(t *testing.T) {
	tests := map[string]struct {
		events []conformance.Event
		want   string // part of the violation; none if empty
	}{
		"empty":         {},
		"one by one":    {[]conformance.Event{acquired(5, 0, 1, 100), released(5, 10, 11), acquired(6, 12, 13, 100)}, ""},
		"after expiry":  {[]conformance.Event{acquired(5, 0, 1, 100), acquired(6, 90, 101, 200)}, ""},
		"added anyhow":  {[]conformance.Event{acquired(6, 12, 13, 100), released(5, 10, 11), acquired(5, 0, 1, 100)}, ""},
		"a token twice": {[]conformance.Event{acquired(5, 0, 1, 10), acquired(5, 20, 21, 100)}, "one token"},
		"a token falls": {[]conformance.Event{acquired(5, 0, 1, 10), acquired(4, 20, 21, 100)}, "do not rise"},
		"overlapping calls may be answered in any order": {[]conformance.Event{
			acquired(5, 0, 50, 60), released(5, 51, 52), refused(acquired(0, 2, 3, 0)), acquired(4, 1, 2, 20)}, ""},
		"equal instants prove no order":                              {[]conformance.Event{acquired(5, 0, 1, 1), acquired(4, 1, 1, 1)}, ""},
		"other keys do not count":                                    {[]conformance.Event{acquired(5, 0, 1, 100), onKey("l", acquired(5, 0, 1, 100)), onKey("l", released(5, 3, 4))}, ""},
		"a violation on another key":                                 {[]conformance.Event{acquired(5, 0, 1, 100), onKey("l", acquired(5, 0, 1, 10)), onKey("l", acquired(4, 20, 21, 100))}, `"l": tokens`},
		"two hold":                                                   {[]conformance.Event{acquired(5, 0, 1, 100), acquired(6, 10, 11, 100)}, "two held the lock from"},
		"two hold after a renewal":                                   {[]conformance.Event{acquired(5, 0, 1, 100), renewed(5, 50, 51, 150), acquired(6, 110, 120, 200)}, "two held"},
		"a renewal that failed extends nothing":                      {[]conformance.Event{acquired(5, 0, 1, 100), refused(renewed(5, 50, 51, 150)), acquired(6, 110, 120, 200)}, ""},
		"a renewal that shortens":                                    {[]conformance.Event{acquired(5, 0, 1, 100), renewed(5, 10, 11, 50), acquired(6, 40, 60, 200)}, ""},
		"renewals answered out of order":                             {[]conformance.Event{acquired(5, 0, 1, 100), renewed(5, 20, 31, 50), renewed(5, 21, 30, 150), acquired(6, 40, 60, 200)}, ""},
		"who asked for the release is done":                          {[]conformance.Event{acquired(5, 0, 1, 100), released(5, 10, 90), acquired(6, 5, 20, 200)}, ""},
		"also if it failed":                                          {[]conformance.Event{acquired(5, 0, 1, 100), refused(released(5, 10, 90)), acquired(6, 5, 20, 200)}, ""},
		"a lease that was over before its reply came was never held": {[]conformance.Event{acquired(5, 0, 1, 100), acquired(6, 2, 90, 80)}, ""},
		"an interval inside an earlier, longer one":                  {[]conformance.Event{acquired(5, 0, 1, 300), acquired(6, 10, 400, 500), acquired(7, 20, 200, 250)}, "two held"},
		"a late renewal succeeds":                                    {[]conformance.Event{acquired(5, 0, 1, 10), acquired(6, 20, 21, 100), renewed(5, 30, 31, 130)}, "outlived its successor"},
		"a late release succeeds":                                    {[]conformance.Event{acquired(5, 0, 1, 10), acquired(6, 20, 21, 100), released(5, 30, 31)}, "outlived its successor"},
		"a late fence succeeds":                                      {[]conformance.Event{acquired(5, 0, 1, 10), acquired(6, 20, 21, 100), fenced(5, 30, 31)}, "outlived its successor"},
		"a late renewal fails":                                       {[]conformance.Event{acquired(5, 0, 1, 10), acquired(6, 20, 21, 100), refused(renewed(5, 30, 31, 0))}, ""},
		"asked before the successor was granted":                     {[]conformance.Event{acquired(5, 0, 1, 10), fenced(5, 8, 31), acquired(6, 20, 21, 100)}, ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var h conformance.History
			h.Add(test.events...)
			err := h.Check()
			switch {
			case test.want == "" && err != nil:
				t.Errorf("Check: %v; want no violation", err)
			case test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)):
				t.Errorf("Check: %v; want one with %q", err, test.want)
			}
		})
	}
}

func TestHistoryRecordsWhatPasses(t *testing.T) {
	var h conformance.History
	l := h.Record(memory.New(nil))
	ctx := t.Context()
	lease, err := l.Acquire(ctx, "k", time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.Acquire(ctx, "k", time.Minute); err == nil {
		t.Fatal("a second lease")
	}
	long, err := l.Renew(ctx, lease, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.FenceToken(ctx, lease); err != nil {
		t.Fatal(err)
	}
	if err := l.Release(ctx, lease); err != nil {
		t.Fatal(err)
	}
	if err := l.Release(ctx, lease); err == nil {
		t.Fatal("a second release")
	}
	waited, err := locker.AcquireWait(ctx, l, "k", time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	type short struct {
		Op       conformance.Op
		Token    locker.Token
		OK       bool
		Deadline time.Time
	}
	var got []short
	for _, e := range h.Events() {
		if e.Key != "k" || e.Answered.Before(e.Asked) {
			t.Errorf("an event of key %q, asked at %s and answered at %s", e.Key, e.Asked, e.Answered)
		}
		got = append(got, short{e.Op, e.Token, e.OK, e.Deadline})
	}
	want := []short{
		{conformance.OpAcquire, lease.Token, true, lease.Deadline},
		{conformance.OpAcquire, 0, false, time.Time{}},
		{conformance.OpRenew, lease.Token, true, long.Deadline},
		{conformance.OpFence, lease.Token, true, time.Time{}},
		{conformance.OpRelease, lease.Token, true, time.Time{}},
		{conformance.OpRelease, lease.Token, false, time.Time{}},
		{conformance.OpAcquire, waited.Token, true, waited.Deadline},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	if _, ok := locker.As[locker.Admin](l); !ok {
		t.Error("the recorder hides what it wraps")
	}
	if err := h.Check(); err != nil {
		t.Error(err)
	}
}

// Events of several processes are brought together as JSON.
func TestEventsAsJSON(t *testing.T) {
	for _, e := range []conformance.Event{acquired(5, 0, 1, 10), released(5, 2, 3)} {
		b, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		var got conformance.Event
		if err := json.Unmarshal(b, &got); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(e, got); diff != "" {
			t.Errorf("through %s (-want +got):\n%s", b, diff)
		}
		if e.Op == conformance.OpRelease && strings.Contains(string(b), "deadline") {
			t.Errorf("a deadline of a release: %s", b)
		}
	}
}

// TestHistoryIsQuick shows that the histories of long runs can be checked.
func TestHistoryIsQuick(t *testing.T) {
	var h conformance.History
	l := h.Record(memory.New(nil))
	for range 5_000 {
		lease, err := l.Acquire(t.Context(), "k", time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Release(t.Context(), lease); err != nil {
			t.Fatal(err)
		}
	}
	if err := h.Check(); err != nil {
		t.Error(err)
	}
}
