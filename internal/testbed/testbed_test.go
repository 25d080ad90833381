package testbed

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"
)

// In this role the test binary starts a server, says which, and waits to be killed.
const roleEnv = "LOCKER_TESTBED_ROLE"

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func connect(t *testing.T, addr string) *redis.Client {
	t.Helper()
	c := redis.NewClient(&redis.Options{Addr: addr, DisableIdentity: true, MaxRetries: -1, DialerRetries: 1, PoolSize: 1, ReadTimeout: 5 * time.Second})
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func TestServerEndsWithTheTestBinary(t *testing.T) {
	if os.Getenv(roleEnv) == "parent" {
		fmt.Printf("server %d\n", Redis(t).Pid())
		select {}
	}
	if runtime.GOOS != "linux" {
		t.Skip("only Linux ends children with their parent")
	}
	Redis(t) // so that the test is skipped here if there is no server
	cmd := exec.Command(os.Args[0], "-test.run=^TestServerEndsWithTheTestBinary$", "-test.v")
	cmd.Env = append(os.Environ(), roleEnv+"=parent")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	pid := 0
	for lines := bufio.NewScanner(out); pid == 0 && lines.Scan(); {
		_, number, _ := strings.Cut(lines.Text(), "server ")
		pid, _ = strconv.Atoi(number)
	}
	if pid == 0 {
		t.Fatal("the child did not start a server")
	}
	alive := func() bool {
		state, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		return err == nil && !bytes.Contains(state, []byte(") Z "))
	}
	if !alive() {
		t.Fatalf("the server %d is not running", pid)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // killed, as it should be
	until(t, "the server ends", func(context.Context) error {
		if alive() {
			return errors.New("it runs")
		}
		return nil
	})
}

// What a person sees when there is no server, it does not start, or a test fails.
func TestReports(t *testing.T) {
	switch os.Getenv(roleEnv) {
	case "":
		Redis(t) // so that the test is skipped here if there is no server
	case "misconfigured":
		Redis(t, "--no-such-option", "1")
		return
	default:
		Redis(t)
		t.Error("it failed")
		return
	}
	for _, tt := range []struct {
		role, servers, path string
		ok                  bool
		want                []string
	}{
		{"missing", "", t.TempDir(), true, []string{"--- SKIP: TestReports", "apt-get install redis-tools"}},
		{"missing", "require", t.TempDir(), false, []string{"--- FAIL: TestReports", "apt-get install redis-tools"}},
		{"misconfigured", "", os.Getenv("PATH"), false, []string{"did not start", "FATAL CONFIG FILE ERROR"}},
		{"failing", "", os.Getenv("PATH"), false, []string{"its log ends with", "Ready to accept connections"}},
	} {
		cmd := exec.Command(os.Args[0], "-test.run=^TestReports$", "-test.v")
		cmd.Env = append(os.Environ(), "PATH="+tt.path, "LOCKER_TEST_SERVERS="+tt.servers, roleEnv+"="+tt.role)
		out, err := cmd.CombinedOutput()
		if (err == nil) != tt.ok {
			t.Errorf("%s, LOCKER_TEST_SERVERS=%q: %v", tt.role, tt.servers, err)
		}
		for _, want := range tt.want {
			if !strings.Contains(string(out), want) {
				t.Errorf("%s, LOCKER_TEST_SERVERS=%q: no %q in\n%s", tt.role, tt.servers, want, out)
			}
		}
	}
}

func TestServerIsBroken(t *testing.T) {
	ctx := t.Context()
	s := Redis(t, "--appendonly", "yes", "--appendfsync", "always")
	other := Redis(t)
	c := connect(t, s.Addr())
	set := func(v string) {
		t.Helper()
		if err := c.Set(ctx, "k", v, 0).Err(); err != nil {
			t.Fatal(err)
		}
	}
	set("1")
	s.Restart(true)
	if got, err := connect(t, s.Addr()).Get(ctx, "k").Result(); got != "1" {
		t.Errorf("after a restart with data: %q, %v", got, err)
	}
	s.Restart(false)
	if got, err := connect(t, s.Addr()).Get(ctx, "k").Result(); err != redis.Nil {
		t.Errorf("after a restart without data: %q, %v; want nothing", got, err)
	}
	s.Pause()
	hasty := redis.NewClient(&redis.Options{Addr: s.Addr(), ReadTimeout: 50 * time.Millisecond, MaxRetries: -1})
	defer hasty.Close()
	if err := hasty.Ping(ctx).Err(); err == nil {
		t.Error("a paused server answers")
	}
	s.Resume()
	if err := connect(t, s.Addr()).Ping(ctx).Err(); err != nil {
		t.Errorf("after Resume: %v", err)
	}
	s.Stop()
	if err := connect(t, s.Addr()).Ping(ctx).Err(); err == nil {
		t.Error("a stopped server answers")
	}
	s.StartAgain()
	if err := connect(t, s.Addr()).Ping(ctx).Err(); err != nil {
		t.Errorf("after StartAgain: %v", err)
	}
	if err := connect(t, other.Addr()).Ping(ctx).Err(); err != nil {
		t.Errorf("the other server: %v", err)
	}
}

func TestRedisTLS(t *testing.T) {
	certs := NewCertificates(t)
	s := RedisTLS(t, certs, true)
	c := redis.NewClient(&redis.Options{Addr: s.Addr(), TLSConfig: certs.Client(t)})
	defer c.Close()
	if err := c.Ping(t.Context()).Err(); err != nil {
		t.Error(err)
	}
	if err := connect(t, s.Addr()).Ping(t.Context()).Err(); err == nil {
		t.Error("it answers without TLS")
	}
}

func TestProxy(t *testing.T) {
	ctx := t.Context()
	s := Redis(t)
	direct := connect(t, s.Addr())
	p := NewProxy(t, s.Addr(), RESP)
	fresh := func() *redis.Client { return connect(t, p.Addr()) }

	if err := fresh().Set(ctx, "k", "1\r\n2", 0).Err(); err != nil {
		t.Fatal(err)
	}
	if got := direct.Get(ctx, "k").Val(); got != "1\r\n2" {
		t.Errorf("the value that passed is %q", got)
	}
	if got := p.Requests(); got[len(got)-1] != "set" {
		t.Errorf("requests = %q, want a set at the end", got)
	}

	c := fresh()
	c.Ping(ctx)
	p.LoseReply("incr")
	if err := c.Incr(ctx, "lost").Err(); err == nil {
		t.Error("the reply was not lost")
	}
	if got := direct.Get(ctx, "lost").Val(); got != "1" {
		t.Errorf("the request whose reply was lost: %q, want 1", got)
	}
	if err := fresh().Incr(ctx, "lost").Err(); err != nil {
		t.Errorf("the next reply was lost too: %v", err)
	}

	deliver := p.HoldRequest("incr")
	late, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancel()
	hasty := redis.NewClient(&redis.Options{Addr: p.Addr(), ContextTimeoutEnabled: true, MaxRetries: -1})
	if err := hasty.Incr(late, "late").Err(); err == nil {
		t.Error("the request was not withheld")
	}
	_ = hasty.Close()
	if n := direct.Exists(ctx, "late").Val(); n != 0 {
		t.Error("the request arrived before it was delivered")
	}
	deliver()
	until(t, "the late request arrives", func(ctx context.Context) error { return direct.Get(ctx, "late").Err() })

	resume := p.Stall()
	answer := make(chan error, 1)
	stalled := fresh()
	go func() { answer <- stalled.Ping(ctx).Err() }()
	select {
	case err := <-answer:
		t.Errorf("answered in a stall: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	resume()
	if err := <-answer; err != nil {
		t.Errorf("after the stall: %v", err)
	}

	p.Delay(50 * time.Millisecond)
	start := time.Now()
	if err := fresh().Ping(ctx).Err(); err != nil || time.Since(start) < 50*time.Millisecond {
		t.Errorf("a delayed request took %s, %v", time.Since(start), err)
	}
	p.Delay(0)

	open := fresh()
	open.Ping(ctx)
	p.Cut()
	if open.Ping(ctx).Err() == nil || fresh().Ping(ctx).Err() == nil {
		t.Error("answered although it was cut")
	}
	p.Heal()
	if err := fresh().Ping(ctx).Err(); err != nil {
		t.Errorf("after Heal: %v", err)
	}
	raw, err := net.Dial("tcp", p.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close()
	buffer := make([]byte, 7)
	if _, err := io.WriteString(raw, "PING\r\n"); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(raw, buffer); err != nil || string(buffer) != "+PONG\r\n" {
		t.Fatalf("PING: %q, %v", buffer, err)
	}
	p.Reset()
	if _, err := raw.Read(buffer); err == nil || err == io.EOF {
		t.Errorf("read after a reset: %v, want an error of the connection", err)
	}
}

func TestFraming(t *testing.T) {
	const set, ping = "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$4\r\n*1\r\n\r\n", "PING\r\n"
	r := bufio.NewReader(strings.NewReader(set + ping))
	for _, want := range []struct{ name, frame string }{{"set", set}, {"ping", ping}} {
		name, frame, err := RESP(r)
		if name != want.name || string(frame) != want.frame || err != nil {
			t.Errorf("RESP = %q, %q, %v; want %q, %q", name, frame, err, want.name, want.frame)
		}
	}
	if _, frame, err := Bytes(bufio.NewReader(strings.NewReader(set))); string(frame) != set || err != nil {
		t.Errorf("Bytes = %q, %v", frame, err)
	}
}

func TestReplicaSentinelAndCluster(t *testing.T) {
	t.Run("replica", func(t *testing.T) {
		t.Parallel()
		master := Redis(t)
		c := connect(t, master.Addr()) // WAIT is about the writes of its connection
		for n := range 2 {
			if err := c.Set(t.Context(), "k", n, 0).Err(); err != nil {
				t.Fatal(err)
			}
			replica := RedisReplica(t, master)
			if got := connect(t, replica.Addr()).Get(t.Context(), "k").Val(); got != strconv.Itoa(n) {
				t.Errorf("the replica has %q, want %d", got, n)
			}
			if got := c.Info(t.Context(), "replication").Val(); strings.Count(got, "state=online") != n+1 {
				t.Errorf("the master does not serve %d replicas: %s", n+1, got)
			}
			if got := c.Wait(t.Context(), n+1, 4*time.Second).Val(); int(got) != n+1 {
				t.Errorf("%d replicas confirm a write, want %d", got, n+1)
			}
		}
	})
	t.Run("sentinel", func(t *testing.T) {
		t.Parallel()
		g := RedisSentinel(t)
		c := redis.NewFailoverClient(&redis.FailoverOptions{MasterName: g.Name, SentinelAddrs: g.Addrs()})
		defer c.Close()
		if err := c.Set(t.Context(), "k", 1, 0).Err(); err != nil {
			t.Error(err)
		}
	})
	t.Run("cluster", func(t *testing.T) {
		t.Parallel()
		c := redis.NewClusterClient(&redis.ClusterOptions{Addrs: strings.Split(Join(RedisCluster(t)), ",")})
		defer c.Close()
		for i := range 100 {
			if err := c.Set(t.Context(), fmt.Sprint(i), 1, 0).Err(); err != nil {
				t.Error(err)
			}
		}
	})
}
