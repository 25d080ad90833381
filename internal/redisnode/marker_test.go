package redisnode

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/locker-go/locker/internal/testbed"
)

const members = "3/1m0s/abc"

// marked marks a node and returns what it is then.
func marked(t *testing.T, server *testbed.Server, first bool) Identity {
	t.Helper()
	client := redis.NewClient(&redis.Options{Addr: server.Addr(), DialerRetries: 1})
	defer client.Close()
	n := NewVoter(OnServer(client, 5*time.Second), time.Hour)
	looked, err := n.Look(t.Context(), "n")
	if err != nil {
		t.Fatalf("look: %v", err)
	}
	var until time.Time
	if first {
		until = looked.Time.Add(time.Minute)
	}
	id, err := n.Mark(t.Context(), "n", members, looked, until)
	if err != nil {
		t.Fatalf("mark: %v", err)
	}
	return id
}

func do(t *testing.T, server *testbed.Server, words ...any) {
	t.Helper()
	client := redis.NewClient(&redis.Options{Addr: server.Addr()})
	defer client.Close()
	if err := client.Do(t.Context(), words...).Err(); err != nil {
		t.Fatalf("%v: %v", words, err)
	}
}

// A marker tells since when a node remembers what it voted for, and why not longer.
func TestMark(t *testing.T) {
	t.Parallel()
	durable := []string{"--appendonly", "yes", "--appendfsync", "always"}
	for _, tt := range []struct {
		name   string
		args   []string
		before func(t *testing.T, s *testbed.Server)
		reason Reason
		since  string // the time it was marked, the time it was started, or as before
	}{
		{"never written to", nil, func(*testing.T, *testbed.Server) {}, Empty, "started"},
		{"used for something else", nil, func(t *testing.T, s *testbed.Server) { do(t, s, "set", "k", "v") }, Fresh, "marked"},
		{"flushed", nil, func(t *testing.T, s *testbed.Server) { marked(t, s, true); do(t, s, "flushall") }, Fresh, "marked"},
		{"flushed and saved", nil, func(t *testing.T, s *testbed.Server) {
			marked(t, s, true)
			do(t, s, "flushall")
			time.Sleep(3 * time.Second) // the server counts in seconds
			do(t, s, "save")
		}, Fresh, "marked"},
		{"started again with all it knew", durable, func(t *testing.T, s *testbed.Server) { marked(t, s, true); s.Restart(true) }, Kept, "before"},
		{"started again with most of it", []string{"--appendonly", "yes", "--appendfsync", "everysec"}, func(t *testing.T, s *testbed.Server) {
			marked(t, s, true)
			time.Sleep(2 * time.Second) // until it is on disk
			s.Restart(true)
		}, Restarted, "marked"},
		{"started again with a snapshot", nil, func(t *testing.T, s *testbed.Server) {
			marked(t, s, true)
			do(t, s, "save")
			s.Restart(true)
		}, Restarted, "marked"},
		{"told that it was not durable before", []string{"--appendonly", "yes"}, func(t *testing.T, s *testbed.Server) {
			marked(t, s, true)
			do(t, s, "config", "set", "appendfsync", "always")
			s.Restart(true)
		}, Restarted, "marked"},
		{"asked again", nil, func(t *testing.T, s *testbed.Server) { marked(t, s, true) }, First, "before"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			server := testbed.Redis(t, tt.args...)
			started := time.Now()
			tt.before(t, server)
			asked := time.Now()
			id := marked(t, server, false)
			if !id.Marked || id.Marker.Run != id.Run || id.Marker.Membership != members || id.Marker.Reason != tt.reason {
				t.Fatalf("it is %+v; want a marker of its own with the reason %s", id, tt.reason)
			}
			from, to := time.UnixMicro(0), time.UnixMicro(0)
			switch tt.since {
			case "started":
				from, to = started.Add(-5*time.Second), started.Add(3*time.Second)
			case "marked":
				from, to = asked.Add(-time.Millisecond), time.Now()
			}
			if since := id.Marker.Since; since.Before(from) || since.After(to) {
				t.Errorf("it remembers since %s; want from %s to %s", since, from, to)
			}
		})
	}
}

// A replica that takes over under the address of its master has its marker, and may
// lack its last grants.
func TestMarkOfAPromotedReplica(t *testing.T) {
	t.Parallel()
	durable := []string{"--appendonly", "yes", "--appendfsync", "always"}
	master := testbed.Redis(t, durable...)
	marked(t, master, true)
	replica := testbed.RedisReplica(t, master, durable...)
	if id := marked(t, replica, false); id.Role != "slave" || id.Marker.Run == id.Run {
		t.Errorf("a replica is %+v; want one that is not marked for itself", id)
	}
	do(t, replica, "replicaof", "no", "one")
	if id := marked(t, replica, false); id.Role != "master" || id.Marker.Reason != Restarted {
		t.Errorf("a promoted replica is %+v; want it to have forgotten grants", id)
	}
}

// The marker of another membership stays.
func TestMarkOfAnotherMembership(t *testing.T) {
	t.Parallel()
	server := testbed.Redis(t)
	marked(t, server, true)
	client := redis.NewClient(&redis.Options{Addr: server.Addr()})
	defer client.Close()
	n := NewVoter(OnServer(client, 5*time.Second), time.Hour)
	for _, other := range []string{"5/1m0s/abc", "3/30s/abc"} {
		id, err := n.Mark(t.Context(), "n", other, Identity{}, time.Now().Add(time.Minute))
		if err != nil || id.Marker.Membership != members {
			t.Errorf("marked for %s it is of %q, %v; want %s", other, id.Marker.Membership, err, members)
		}
	}
	if id, err := n.Look(t.Context(), "another"); err != nil || id.Marked {
		t.Errorf("in another namespace it is %+v, %v; want no marker", id, err)
	}
}
