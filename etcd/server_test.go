package etcd_test

import (
	"context"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/locker-go/locker/internal/testbed"
)

// With their default election timeout, servers grant no lease for less than 2 s; with
// the shorter one, 1 s.
var (
	usual = []string{"--heartbeat-interval", "100", "--election-timeout", "1000"}
	fast  = []string{"--heartbeat-interval", "50", "--election-timeout", "500"}
)

// cluster is what was started.
type cluster struct {
	t       testing.TB
	all     *testbed.EtcdMembers
	members []*testbed.Server
}

// startCluster starts the members of a cluster, and waits until each of them serves.
func startCluster(t testing.TB, members int, args ...string) *cluster {
	t.Helper()
	if len(args) == 0 {
		args = usual
	}
	all := testbed.EtcdCluster(t, members, args...)
	return &cluster{t, all, all.Servers}
}

// restart kills all members and starts them again, with their data or with none.
func (c *cluster) restart(keepData bool) { c.t.Helper(); c.all.Restart(keepData) }

func (c *cluster) url() string { return "etcd://" + testbed.Join(c.members) }

func (c *cluster) client() *clientv3.Client { return connect(c.t, c.all.Endpoints()...) }

// serves returns nil if a member answers as one of a majority.
func serves(ctx context.Context, addr string) error {
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{addr}, Logger: zap.NewNop()})
	if err != nil {
		return err
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	_, err = c.Get(ctx, "any")
	return err
}
