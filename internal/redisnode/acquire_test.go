package redisnode

import (
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/locker-go/locker"
	"github.com/locker-go/locker/internal/testbed"
)

// The fence is kept until retention and TTL have passed since the token, and since the
// grant. Servers before 7.0 do not tell their version, and some do not know PXAT: there
// the clock is asked for each time.
func TestAcquireKeepsTheFence(t *testing.T) {
	server := testbed.Redis(t)
	client := redis.NewClient(&redis.Options{Addr: server.Addr()})
	defer client.Close()
	ctx := t.Context()
	source := acquireScript.source.(string)
	old := strings.Replace(source, "redis.REDIS_VERSION_NUM", "nil", 1)
	old = strings.Replace(old, "'PXAT'", "'UNKNOWN'", 1)
	const ttl, kept = time.Minute, time.Hour + time.Minute
	keys := KeysOf("", "k")
	for name, source := range map[string]string{"new": source, "old": old} {
		for _, off := range []time.Duration{0, -15 * time.Second, 9 * time.Second} { // the client's clock
			client.FlushAll(ctx)
			for i := range int64(2) { // the second with a fence just below
				now := client.Time(ctx).Val()
				token := now.Add(off)
				if i > 0 {
					client.Set(ctx, keys.Fence, digits(token.UnixMicro()-1), 0)
				}
				value := valueOf("h", locker.Token(token.UnixMicro()))
				got, err := client.Eval(ctx, source, []string{keys.Lock, keys.Fence}, value, ttl.Milliseconds(), token.Add(kept).UnixMilli()).Int64()
				if err != nil || got != ttl.Milliseconds() {
					t.Fatalf("%s server, clock %s off, acquire %d = %d, %v; want the lock", name, off, i, got, err)
				}
				least := token
				if off < 0 && (i == 0 || name == "old") {
					least = now
				}
				if until := client.PExpireTime(ctx, keys.Fence).Val(); until < time.Duration(least.Add(kept).UnixMilli())*time.Millisecond {
					t.Errorf("%s server, clock %s off, after acquire %d the fence is kept for %s after the server's clock was read", name, off, i, until-time.Duration(now.UnixNano()))
				}
				client.Del(ctx, keys.Lock)
			}
		}
	}
}

func digits(token int64) string { return strings.TrimPrefix(valueOf("", locker.Token(token)), ":") }

// A clock that begins in 1970 is no step above a fence that is not there.
func TestAcquireWithoutClock(t *testing.T) {
	server := testbed.Redis(t)
	client := redis.NewClient(&redis.Options{Addr: server.Addr()})
	defer client.Close()
	keys := KeysOf("", "k")
	got, err := client.Eval(t.Context(), acquireScript.source.(string), []string{keys.Lock, keys.Fence}, valueOf("h", 5), 60000, 120000).Slice()
	if err != nil || len(got) != 3 || got[0] != "stale" {
		t.Errorf("acquire with token 5 = %v, %v; want stale", got, err)
	}
}
