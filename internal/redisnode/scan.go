package redisnode

import (
	"context"
	"errors"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/locker-go/locker"
)

// scanCount is how many keys a server looks at in one step of a scan.
const scanCount = 1000

// ScanHoldings calls yield for each lock on one server whose name begins with
// prefix, with the lock's name as the Holding's Key, until yield returns false.
// Values of other types than a string are passed over. A lock may be yielded twice.
func ScanHoldings(ctx context.Context, server *redis.Client, prefix string, yield func(locker.Holding) bool) error {
	return scan(ctx, server, escapePattern(prefix)+"*", func(names []string) (bool, error) {
		pipe := server.Pipeline()
		values := make([]*redis.StringCmd, len(names))
		left := make([]*redis.Cmd, len(names))
		for i, name := range names {
			values[i] = pipe.Get(ctx, name)
			left[i] = pipe.Do(ctx, "pttl", name)
		}
		_, _ = pipe.Exec(ctx) // each command has its error
		for i, name := range names {
			if err := values[i].Err(); err == redis.Nil || redis.HasErrorPrefix(err, "WRONGTYPE") {
				continue // free by now, or not a string
			}
			if err := errors.Join(values[i].Err(), left[i].Err()); err != nil {
				return false, err
			}
			pttl, _ := left[i].Val().(int64)
			if pttl == -2 {
				continue
			}
			if !yield(holdingOf(name, values[i].Val(), pttl)) {
				return false, nil
			}
		}
		return true, nil
	})
}

// HighWater returns what no token is above that one server granted in a namespace.
func HighWater(ctx context.Context, server *redis.Client, namespace string) (locker.Token, error) {
	fence, err := highestFence(ctx, server, namespace)
	if err != nil {
		return 0, err
	}
	// Fences that have expired are below the server's clock.
	now, err := server.Time(ctx).Result()
	if err != nil {
		return 0, Unavailable(ctx, err)
	}
	return max(fence, locker.Token(now.UnixMicro())), nil
}

// highestFence returns the highest fence of a namespace on one server.
func highestFence(ctx context.Context, server *redis.Client, namespace string) (locker.Token, error) {
	var highest locker.Token
	err := scan(ctx, server, FencePattern(namespace), func(names []string) (bool, error) {
		pipe := server.Pipeline()
		records := make([]*redis.StringCmd, len(names))
		for i, name := range names {
			records[i] = pipe.Get(ctx, name)
		}
		_, err := pipe.Exec(ctx)
		for _, r := range records {
			if r.Err() == redis.Nil {
				continue
			}
			if r.Err() != nil {
				return false, err
			}
			digits, _, _ := strings.Cut(r.Val(), " ")
			token, err := strconv.ParseUint(digits, 10, 53)
			if err != nil {
				continue // not a fence
			}
			highest = max(highest, locker.Token(token))
		}
		return true, nil
	})
	return highest, err
}

// scan calls batch with the keys that match, some at a time.
func scan(ctx context.Context, server *redis.Client, pattern string, batch func(names []string) (bool, error)) error {
	for cursor := uint64(0); ; {
		names, next, err := server.Scan(ctx, cursor, pattern, scanCount).Result()
		if err != nil {
			return Unavailable(ctx, err)
		}
		if len(names) > 0 {
			more, err := batch(names)
			if err != nil {
				return Unavailable(ctx, err)
			}
			if !more {
				return nil
			}
		}
		if cursor = next; cursor == 0 {
			return nil
		}
	}
}

// escapePattern returns a pattern that matches text alone.
func escapePattern(text string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`).Replace(text)
}
