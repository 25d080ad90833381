package file

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"time"

	"github.com/locker-go/locker"
)

// moment is a reading of the machine's clocks.
type moment struct {
	boot string        // identifies the boot
	up   time.Duration // since that boot, suspended time included
	wall time.Time
}

// state is what a shard stores.
type state struct {
	// Fence is the highest token that the shard has issued or was raised to. It is
	// the fence of all its keys, so that it can outlive them without a record of each.
	Fence  locker.Token     `json:"fence"`
	Grants map[string]grant `json:"grants"`
}

// grant is a lease as it is stored.
type grant struct {
	Holder string        `json:"holder"`
	Token  locker.Token  `json:"token"`
	TTL    time.Duration `json:"ttl_ns"`
	Boot   string        `json:"boot"`
	Until  time.Duration `json:"until_ns"` // on the clock of that boot
	Wall   time.Time     `json:"wall"`     // the same by the wall clock
}

func newGrant(holder string, token locker.Token, ttl time.Duration, now moment) grant {
	return grant{
		Holder: holder, Token: token, TTL: ttl,
		Boot: now.boot, Until: now.up + ttl, Wall: now.wall.Add(ttl).UTC(),
	}
}

// remaining returns for how long the grant still stands.
//
// One from before a reboot has been running for at least as long as the machine is up:
// a wall clock that came up wrong cannot keep it longer than its TTL.
func (g grant) remaining(now moment) time.Duration {
	if g.Boot == now.boot {
		return min(g.Until-now.up, g.TTL)
	}
	return min(g.Wall.Sub(now.wall), g.TTL-now.up)
}

func (g grant) holding(key string, now moment) locker.Holding {
	return locker.Holding{Key: key, Holder: locker.ShowHolder(g.Holder), Token: g.Token, Remaining: g.remaining(now)}
}

// current returns the grant of key that stands.
func (s *state) current(key string, now moment) (grant, bool) {
	g, ok := s.Grants[key]
	return g, ok && g.remaining(now) > 0
}

// of returns the grant that lease is, if it stands.
func (s *state) of(lease locker.Lease, now moment) (grant, bool) {
	g, ok := s.current(lease.Key, now)
	return g, ok && g.Holder == lease.Holder && g.Token == lease.Token
}

// prune drops the grants that ended, but not their fence.
func (s *state) prune(now moment) {
	for key, g := range s.Grants {
		if g.remaining(now) <= 0 {
			delete(s.Grants, key)
		}
	}
}

// A state file is a line with its version and the CRC-32C of all that follows,
// which is JSON.
const header = "locker file state 1 %08x\n"

var (
	headerLen  = len(fmt.Sprintf(header, 0))
	castagnoli = crc32.MakeTable(crc32.Castagnoli)
)

func (s *state) encode() ([]byte, error) {
	body, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	body = append(body, '\n')
	return append(fmt.Appendf(nil, header, crc32.Checksum(body, castagnoli)), body...), nil
}

// decode returns the state that b encodes, or why b is none.
func decode(b []byte) (*state, error) {
	if len(b) < headerLen {
		return nil, errors.New("it is too short")
	}
	body := b[headerLen:]
	if string(b[:headerLen]) != fmt.Sprintf(header, crc32.Checksum(body, castagnoli)) {
		return nil, errors.New("it was not written by this version of locker, or its checksum is wrong")
	}
	s := new(state)
	if err := json.Unmarshal(body, s); err != nil {
		return nil, err
	}
	if s.Fence > locker.MaxToken {
		return nil, fmt.Errorf("its fence %d is out of range", s.Fence)
	}
	for key, g := range s.Grants {
		err := errors.Join(locker.ValidateKey(key), locker.ValidateTTL(g.TTL))
		if err == nil && (g.Holder == "" || g.Token == 0 || g.Token > s.Fence) {
			err = fmt.Errorf("token %d of holder %q above the fence %d", g.Token, locker.ShowHolder(g.Holder), s.Fence)
		}
		if err != nil {
			return nil, fmt.Errorf("a grant that cannot be: %w", err)
		}
	}
	if s.Grants == nil {
		s.Grants = make(map[string]grant)
	}
	return s, nil
}
