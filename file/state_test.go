package file

import (
	"bytes"
	"fmt"
	"hash/crc32"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/locker-go/locker"
)

var noon = time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)

func TestRemaining(t *testing.T) {
	g := newGrant("h", 1, time.Minute, moment{"boot 1", time.Hour, noon})
	for _, c := range []struct {
		what string
		now  moment
		want time.Duration
	}{
		{"at once", moment{"boot 1", time.Hour, noon}, time.Minute},
		{"later", moment{"boot 1", time.Hour + 10*time.Second, noon.Add(10 * time.Second)}, 50 * time.Second},
		{"wall clock set forward", moment{"boot 1", time.Hour + 10*time.Second, noon.Add(24 * time.Hour)}, 50 * time.Second},
		{"wall clock set back", moment{"boot 1", time.Hour + 10*time.Second, noon.Add(-24 * time.Hour)}, 50 * time.Second},
		{"expired", moment{"boot 1", time.Hour + time.Minute, noon}, 0},
		{"clock since boot went back", moment{"boot 1", time.Minute, noon}, time.Minute},
		{"rebooted", moment{"boot 2", 5 * time.Second, noon.Add(20 * time.Second)}, 40 * time.Second},
		{"rebooted, expired meanwhile", moment{"boot 2", 5 * time.Second, noon.Add(2 * time.Minute)}, -time.Minute},
		{"rebooted, wall clock far back", moment{"boot 2", 5 * time.Second, time.Unix(0, 0)}, 55 * time.Second},
		{"rebooted, wall clock far back, up for the TTL", moment{"boot 2", time.Minute, time.Unix(0, 0)}, 0},
	} {
		if got := g.remaining(c.now); got != c.want {
			t.Errorf("%s: got %s, want %s", c.what, got, c.want)
		}
	}
}

func encoded(t testing.TB, s *state) []byte {
	t.Helper()
	b, err := s.encode()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// sealed returns body as a state file with the right checksum.
func sealed(body string) []byte {
	return append(fmt.Appendf(nil, header, crc32.Checksum([]byte(body), castagnoli)), body...)
}

func full(now moment) *state {
	return &state{Fence: locker.MaxToken, Grants: map[string]grant{
		"a":                       newGrant("host.1.RANDOM", 7, time.Minute, now),
		"a/":                      newGrant("host.1.OTHER", 8, locker.MaxTTL, now),
		"<&>\"\\\n\u2028\ufffd 鍵": newGrant("host.2.RANDOM", locker.MaxToken, locker.MinTTL, now),
		strings.Repeat("k", 1024): newGrant("host.2.OTHER", 1, time.Second, now),
	}}
}

func TestStateRoundTrip(t *testing.T) {
	now := moment{"boot", math.MaxInt64 / 4, noon.Add(123456789)}
	for _, s := range []*state{{Grants: map[string]grant{}}, full(now)} {
		got, err := decode(encoded(t, s))
		if err != nil || !reflect.DeepEqual(got, s) {
			t.Errorf("got %+v, %v, want %+v", got, err, s)
		}
	}
}

func TestDecodeRefuses(t *testing.T) {
	good := encoded(t, full(moment{"boot", time.Hour, noon}))
	for n := range good {
		if _, err := decode(good[:n]); err == nil {
			t.Errorf("the first %d of %d bytes pass", n, len(good))
		}
		bad := bytes.Clone(good)
		bad[n] ^= 0x10
		if _, err := decode(bad); err == nil {
			t.Errorf("a flipped bit in byte %d passes", n)
		}
	}
	const grant = `"holder":"h","token":5,"ttl_ns":1000000000,"boot":"b","until_ns":1,"wall":"2026-06-01T12:00:00Z"`
	if _, err := decode(sealed(`{"fence":5,"grants":{"k":{` + grant + `}}}`)); err != nil {
		t.Fatal(err)
	}
	for what, body := range map[string]string{
		"nothing":         ``,
		"no JSON":         `fence 5`,
		"two values":      `{"fence":5}{"fence":6}`,
		"negative fence":  `{"fence":-1}`,
		"huge fence":      `{"fence":9007199254740992}`,
		"token too high":  `{"fence":4,"grants":{"k":{` + grant + `}}}`,
		"no holder":       `{"fence":5,"grants":{"k":{` + strings.Replace(grant, `"h"`, `""`, 1) + `}}}`,
		"no token":        `{"fence":5,"grants":{"k":{` + strings.Replace(grant, `5`, `0`, 1) + `}}}`,
		"endless TTL":     `{"fence":5,"grants":{"k":{` + strings.Replace(grant, `1000000000`, `9000000000000000000`, 1) + `}}}`,
		"no time":         `{"fence":5,"grants":{"k":{` + strings.Replace(grant, `2026-06`, `2026-00`, 1) + `}}}`,
		"key not allowed": `{"fence":5,"grants":{"":{` + grant + `}}}`,
	} {
		if _, err := decode(sealed(body)); err == nil {
			t.Errorf("%s passes", what)
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"fence":5,"grants":{"k":{"holder":"h","token":5,"ttl_ns":1000000000,"boot":"b","until_ns":1,"wall":"2026-06-01T12:00:00Z"}}}`))
	f.Add(encoded(f, full(moment{"boot", time.Hour, noon}))[headerLen:])
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, body []byte) {
		if _, err := decode(body); err == nil && !bytes.HasPrefix(body, []byte(header[:10])) {
			t.Error("it decodes without a header")
		}
		s, err := decode(sealed(string(body)))
		if err != nil {
			return
		}
		again, err := decode(encoded(t, s))
		if err != nil || !reflect.DeepEqual(again, s) {
			t.Errorf("got %+v, %v, want %+v", again, err, s)
		}
		for key := range s.Grants {
			s.current(key, moment{"b", time.Hour, noon})
		}
	})
}
