package testbed

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

const (
	zooKeeperMain = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
	javaLibraries = "/usr/share/java" // of Debian
)

// zooKeeperClassPath returns where Java finds ZooKeeper: what LOCKER_TEST_ZOOKEEPER
// says, else what Debian's package libzookeeper-java has, with a logger, and with what
// it needs for TLS beside.
func zooKeeperClassPath(libraries string) (string, error) {
	if path := os.Getenv("LOCKER_TEST_ZOOKEEPER"); path != "" {
		return path, nil
	}
	if _, err := os.Stat(filepath.Join(libraries, "zookeeper.jar")); err != nil {
		return "", fmt.Errorf("no ZooKeeper is installed: run make servers, or make test: %w", err)
	}
	var jars []string
	for _, name := range []string{"zookeeper", "slf4j-simple", "netty-codec", "netty-resolver"} {
		jars = append(jars, filepath.Join(libraries, name+".jar"))
	}
	return strings.Join(jars, string(filepath.ListSeparator)), nil
}

// ZooKeeperTick is the tick of the servers: they grant sessions of two ticks and more.
const ZooKeeperTick = 100 * time.Millisecond

// ZooKeeperServers are the servers of an ensemble.
type ZooKeeperServers struct {
	t         testing.TB
	java      string
	classPath string
	config    []string
	certs     *Certificates // nil without TLS
	mutual    bool

	quorum, election []int      // ports, in the order of Servers
	isolable         bool       // with links
	links            [][]*Proxy // from a server to the port of another for its followers

	Servers []*Server
}

// ZooKeeper starts a server that stands alone, with more lines of configuration, such
// as "maxSessionTimeout=60000".
func ZooKeeper(t testing.TB, config ...string) *Server {
	t.Helper()
	return startZooKeeper(t, &ZooKeeperServers{config: config}, 1).Servers[0]
}

// ZooKeeperTLS starts a ZooKeeper that speaks only TLS with clients, with the
// certificates, and asks them for one if mutual.
func ZooKeeperTLS(t testing.TB, certs *Certificates, mutual bool) *Server {
	t.Helper()
	return startZooKeeper(t, &ZooKeeperServers{certs: certs, mutual: mutual}, 1).Servers[0]
}

// ZooKeeperCluster starts an ensemble of n servers, with more lines of configuration.
func ZooKeeperCluster(t testing.TB, n int, config ...string) *ZooKeeperServers {
	t.Helper()
	return startZooKeeper(t, &ZooKeeperServers{config: config}, n)
}

// ZooKeeperIsolable is ZooKeeperCluster for [ZooKeeperServers.Isolate].
func ZooKeeperIsolable(t testing.TB, n int, config ...string) *ZooKeeperServers {
	t.Helper()
	return startZooKeeper(t, &ZooKeeperServers{config: config, isolable: true}, n)
}

func startZooKeeper(t testing.TB, z *ZooKeeperServers, n int) *ZooKeeperServers {
	t.Helper()
	z.t = t
	z.java = program(t, "default-jre-headless", "java")
	path, err := zooKeeperClassPath(javaLibraries)
	if err != nil {
		missing(t, err.Error())
	}
	z.classPath = path
	if n > 1 {
		z.connect(n)
	}
	for i := range n {
		z.Servers = append(z.Servers, Start(t, z.spec(i)))
	}
	z.awaitAll()
	return z
}

// connect reserves the ports by which n servers reach each other.
func (z *ZooKeeperServers) connect(n int) {
	z.t.Helper()
	z.links = make([][]*Proxy, n)
	for i := range n {
		z.quorum, z.election = append(z.quorum, reservePort(z.t)), append(z.election, reservePort(z.t))
		z.links[i] = make([]*Proxy, n)
	}
	for from := range n {
		for to := range n {
			if z.isolable && from != to {
				z.links[from][to] = NewProxy(z.t, relay(z.t, loopback(z.quorum[to])), Bytes)
			}
		}
	}
}

func (z *ZooKeeperServers) spec(i int) Spec {
	return Spec{
		Name: "zookeeper",
		Path: z.java,
		Args: func(port int, dir string) []string {
			if err := z.configure(i, port, dir); err != nil {
				z.t.Errorf("configure ZooKeeper: %v", err)
			}
			args := []string{
				"-XX:+UseSerialGC", "-Xshare:auto", "-Xms16m", "-Xmx128m",
				"-Dzookeeper.forceSync=no", // a killed process leaves its data to the kernel
				"-Dzookeeper.preAllocSize=100",
				// Elections: by default a server that missed one waits for up to a minute.
				"-Dzookeeper.fastleader.maxNotificationInterval=500",
				"-Dzookeeper.jmx.log4j.disable=true",
				"-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
				"-Dorg.slf4j.simpleLogger.showDateTime=true",
				"-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS",
			}
			if _, measured := z.t.(*testing.B); !measured {
				args = append(args, "-XX:TieredStopAtLevel=1") // starts sooner
			}
			return append(args, "-cp", z.classPath, zooKeeperMain, filepath.Join(dir, "zoo.cfg"))
		},
		Ready: func(ctx context.Context, addr string) error {
			if z.running(addr) < len(z.quorum)/2 {
				return nil // with fewer than half of the others it does not serve: let them start
			}
			return z.serves(ctx, addr)
		},
	}
}

// configure writes the files of server i.
func (z *ZooKeeperServers) configure(i, port int, dir string) error {
	clients := "clientPort"
	if z.certs != nil {
		clients = "secureClientPort"
	}
	lines := []string{
		fmt.Sprintf("tickTime=%d", ZooKeeperTick.Milliseconds()),
		"dataDir=" + dir,
		fmt.Sprintf("%s=%d", clients, port), clients + "Address=127.0.0.1",
		"maxClientCnxns=0",
		"admin.enableServer=false",
		"4lw.commands.whitelist=*",
		// A server of a busy machine may be silent for long.
		"initLimit=100", "syncLimit=100",
	}
	if z.certs != nil {
		auth := "none"
		if z.mutual {
			auth = "need"
		}
		keys := filepath.Join(dir, "server.pem")
		if err := joinFiles(keys, z.certs.ServerKey, z.certs.ServerCert); err != nil {
			return err
		}
		lines = append(lines,
			"serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory",
			"ssl.keyStore.location="+keys, "ssl.keyStore.type=PEM",
			"ssl.trustStore.location="+z.certs.CA, "ssl.trustStore.type=PEM",
			"ssl.hostnameVerification=false", "ssl.clientAuth="+auth)
	}
	for j := range z.quorum {
		quorum := loopback(z.quorum[j])
		if z.isolable && j != i {
			quorum = z.links[i][j].Addr()
		}
		lines = append(lines, fmt.Sprintf("server.%d=%s:%d", j+1, quorum, z.election[j]))
	}
	lines = append(lines, z.config...)
	if err := os.WriteFile(filepath.Join(dir, "myid"), fmt.Append(nil, i+1), 0o600); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "zoo.cfg"), []byte(strings.Join(lines, "\n")+"\n"), 0o600)
}

// joinFiles writes a file that has one after the other.
func joinFiles(name string, parts ...string) error {
	var all []byte
	for _, part := range parts {
		b, err := os.ReadFile(part)
		if err != nil {
			return err
		}
		all = append(all, b...)
	}
	return os.WriteFile(name, all, 0o600)
}

// running returns how many servers run, but for the one at addr.
func (z *ZooKeeperServers) running(addr string) int {
	n := 0
	for _, s := range z.Servers {
		if s.Addr() != addr && s.cmd != nil {
			n++
		}
	}
	return n
}

func (z *ZooKeeperServers) awaitAll() {
	z.t.Helper()
	for _, s := range z.Servers {
		until(z.t, s.String()+" serves", func(ctx context.Context) error { return z.serves(ctx, s.Addr()) })
	}
}

// serves returns nil if the server at addr serves clients.
func (z *ZooKeeperServers) serves(ctx context.Context, addr string) error {
	stats, err := z.ask(ctx, addr, "srvr")
	if err == nil && !strings.Contains(stats, "Mode: ") {
		err = errors.New(strings.TrimSpace(stats))
	}
	return err
}

// ask sends one of the commands of four letters.
func (z *ZooKeeperServers) ask(ctx context.Context, addr, command string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	if z.certs != nil {
		config := z.certs.Client(z.t)
		config.ServerName = "localhost"
		conn = tls.Client(conn, config)
	}
	if deadline, ok := ctx.Deadline(); ok {
		if err := conn.SetDeadline(deadline); err != nil {
			return "", err
		}
	}
	if _, err := io.WriteString(conn, command); err != nil {
		return "", err
	}
	answer, err := io.ReadAll(conn)
	if len(answer) > 0 {
		err = nil // it ends the connection, more or less politely
	}
	return string(answer), err
}

// Endpoints returns the addresses at which the servers serve clients.
func (z *ZooKeeperServers) Endpoints() []string { return addrs(z.Servers) }

// Leader returns the server that leads, once there is one.
func (z *ZooKeeperServers) Leader() *Server {
	z.t.Helper()
	var leader *Server
	until(z.t, "a server leads", func(ctx context.Context) error {
		for _, s := range z.Servers {
			if s.cmd == nil {
				continue
			}
			if stats, err := z.ask(ctx, s.Addr(), "srvr"); err == nil && strings.Contains(stats, "Mode: leader") {
				leader = s
				return nil
			}
		}
		return errors.New("none says so")
	})
	return leader
}

// Restart kills all servers and starts them again on the same ports, with the data
// that they keep or with none.
func (z *ZooKeeperServers) Restart(keepData bool) {
	z.t.Helper()
	for _, s := range z.Servers {
		if s.cmd != nil {
			s.Kill()
		}
	}
	for _, s := range z.Servers {
		if !keepData {
			s.wipe()
		}
		s.StartAgain()
	}
	z.awaitAll()
}

// Isolate lets nothing pass between a server and the others, until the function that it
// returns is called. Its clients do not notice before it does itself, after syncLimit
// ticks. The election of a leader is not held up.
func (z *ZooKeeperServers) Isolate(s *Server) (heal func()) {
	z.t.Helper()
	i := slices.Index(z.Servers, s)
	var resume []func()
	for j := range z.Servers {
		if j != i {
			resume = append(resume, z.links[i][j].Stall(), z.links[j][i].Stall())
		}
	}
	return func() {
		for _, fn := range resume {
			fn()
		}
	}
}

// ZooKeeperStats returns what a server counts, by the names of its command mntr.
func ZooKeeperStats(t testing.TB, s *Server) map[string]string {
	t.Helper()
	text, err := new(ZooKeeperServers).ask(t.Context(), s.Addr(), "mntr")
	if err != nil {
		t.Fatalf("%s: read its statistics: %v", s, err)
	}
	stats := make(map[string]string)
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), "\t"); ok {
			stats[name] = value
		}
	}
	return stats
}

// ZooKeeperWrites returns how many changes a server has seen since its last leader was
// elected, or since it has data if it stands alone.
func ZooKeeperWrites(t testing.TB, s *Server) int64 {
	t.Helper()
	text, err := new(ZooKeeperServers).ask(t.Context(), s.Addr(), "srvr")
	if err != nil {
		t.Fatalf("%s: read its statistics: %v", s, err)
	}
	for line := range strings.Lines(text) {
		if number, ok := strings.CutPrefix(strings.TrimSpace(line), "Zxid: "); ok {
			zxid, err := strconv.ParseInt(number, 0, 64)
			if err != nil {
				t.Fatal(err)
			}
			return zxid & 0xffffffff
		}
	}
	t.Fatalf("%s does not tell its zxid: %s", s, text)
	return 0
}
