package etcd_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/locker-go/locker"
)

// tap is where single requests of a client are disturbed.
type tap struct {
	mu    sync.Mutex
	match func(request any) bool
	do    func(send func() error) error
}

// tapped returns a client with a tap.
func tapped(t testing.TB, c *cluster) (*clientv3.Client, *tap) {
	t.Helper()
	p := new(tap)
	client, err := clientv3.New(clientv3.Config{
		Endpoints: c.all.Endpoints(), Logger: zap.NewNop(), DialTimeout: 5 * time.Second,
		DialOptions: []grpc.DialOption{grpc.WithChainUnaryInterceptor(p.intercept)},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return client, p
}

func (p *tap) intercept(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	p.mu.Lock()
	do := p.do
	if do == nil || !p.match(req) {
		p.mu.Unlock()
		return invoke(ctx, method, req, reply, cc, opts...)
	}
	p.do = nil
	p.mu.Unlock()
	return do(func() error { return invoke(context.WithoutCancel(ctx), method, req, reply, cc, opts...) })
}

// next has do sent the next request that matches, as it likes.
func (p *tap) next(match func(request any) bool, do func(send func() error) error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.match, p.do = match, do
}

// loseReply lets the next request that matches arrive, and its reply get lost.
func (p *tap) loseReply(t testing.TB, match func(request any) bool) {
	p.next(match, func(send func() error) error {
		if err := send(); err != nil {
			t.Errorf("the request of which the reply is to be lost: %v", err)
		}
		return errLost
	})
}

// errLost is what the driver says of a connection that broke.
var errLost = status.Error(codes.Unavailable, "the connection broke")

// puts matches transactions that put something.
func puts(request any) bool {
	txn, ok := request.(*pb.TxnRequest)
	return ok && len(txn.Success) > 0 && txn.Success[0].GetRequestPut() != nil
}

func grants(request any) bool { _, ok := request.(*pb.LeaseGrantRequest); return ok }

func mustRenew(t testing.TB, l locker.Locker, lease locker.Lease, ttl time.Duration) locker.Lease {
	t.Helper()
	renewed, err := l.Renew(t.Context(), lease, ttl)
	if err != nil {
		t.Fatalf("renew: %v", err)
	}
	if renewed.Token != lease.Token {
		t.Errorf("renewing made the token %d of %d", renewed.Token, lease.Token)
	}
	return renewed
}

// dynamolock#280: a renewal was applied, its reply lost, and the next one failed. Here a
// longer one puts the entry under another lease.
func TestLostReplyToALongerRenewal(t *testing.T) {
	t.Parallel()
	for name, renewer := range map[string]bool{"by who acquired": true, "by another process": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cluster := startCluster(t, 1, fast...)
			c := cluster.client()
			through, wire := tapped(t, cluster)
			l := on(t, through, nil)
			first := l
			if !renewer {
				first = on(t, c, nil)
			}
			const short, long = time.Second, 4 * time.Second
			lease, err := first.Acquire(t.Context(), "k", short)
			if err != nil {
				t.Fatal(err)
			}
			before := queued(t, c, "k", 1)[0].Lease
			wire.loseReply(t, puts)
			if _, err := l.Renew(t.Context(), lease, long); !errors.Is(err, locker.ErrUnavailable) {
				t.Errorf("Renew without a reply: %v", err)
			}
			if queued(t, c, "k", 1)[0].Lease == before {
				t.Error("the entry is under the lease of before")
			}
			lease = mustRenew(t, l, lease, long)
			if lease.TTL != long || lease.Remaining() <= short {
				t.Errorf("%s are left of %s, want %s", lease.Remaining(), lease.TTL, long)
			}
			time.Sleep(2 * short) // the lease of before is over, also by a slow server
			lease = mustRenew(t, l, lease, long)
			if token, err := l.FenceToken(t.Context(), lease); err != nil || token != lease.Token {
				t.Errorf("after the shorter TTL: %d, %v", token, err)
			}
			mustRelease(t, l, lease)
			queued(t, c, "k", 0)
			closeLocker(t, l)
			closeLocker(t, first)
			serverLeases(t, c, 0) // none outlives its TTL
		})
	}
}

// A longer renewal that was given up, and then a shorter one: what arrives late of the
// first must not put the entry under a lease that ends before the holder's deadline.
func TestLateLongerRenewal(t *testing.T) {
	t.Parallel()
	through, wire := tapped(t, startCluster(t, 1, fast...))
	l := on(t, through, nil)
	const short, long = 3 * time.Second, 4 * time.Second
	lease, err := l.Acquire(t.Context(), "k", short)
	if err != nil {
		t.Fatal(err)
	}
	var late func() error
	wire.next(puts, func(send func() error) error { late = send; return errLost })
	if _, err := l.Renew(t.Context(), lease, long); !errors.Is(err, locker.ErrUnavailable) {
		t.Errorf("Renew that does not arrive: %v", err)
	}
	for range 2 {
		time.Sleep(short / 2)
		lease = mustRenew(t, l, lease, short)
	}
	if err := late(); err != nil && status.Code(err) != codes.NotFound { // its lease may be gone
		t.Fatal(err)
	}
	for left := lease.Remaining(); left > 50*time.Millisecond; left = lease.Remaining() {
		if _, err := l.FenceToken(t.Context(), lease); err != nil && lease.Remaining() > 0 {
			t.Fatalf("the lock was lost %s before its deadline: %v", left, err)
		}
	}
	_ = l.Release(t.Context(), lease) // it may just be over
}

// rueidis#925: the reply to a request was lost, the driver sent it again, and what the
// first one had done was in its way.
func TestLostReplyToAGrant(t *testing.T) {
	t.Parallel()
	cluster := startCluster(t, 1)
	c := cluster.client()
	through, wire := tapped(t, cluster)
	l := on(t, through, nil)
	wire.loseReply(t, grants)
	lease := mustAcquire(t, l, "k")
	serverLeases(t, c, 1)
	if lease.TTL != testTTL {
		t.Errorf("granted for %s", lease.TTL)
	}
	mustRelease(t, l, mustRenew(t, l, lease, testTTL))
}

// Whoever closes the client ends the waits too, soon and with an error.
func TestWaitOnAClosedClient(t *testing.T) {
	t.Parallel()
	cluster := startCluster(t, 1)
	c := cluster.client()
	holder := on(t, c, nil)
	lease := mustAcquire(t, holder, "k")
	l, err := openURL(t.Context(), cluster.url())
	if err != nil {
		t.Fatal(err)
	}
	w := wait(t, l, "k")
	queued(t, c, "k", 2)
	began := time.Now()
	if err := l.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	w.end(t)
	if !errors.Is(w.err, locker.ErrUnavailable) {
		t.Errorf("the wait ended with %v", w.err)
	}
	if took := time.Since(began); took > 10*time.Second { // without, it goes on for 30 s
		t.Errorf("the wait went on for %s", took)
	}
	mustRelease(t, holder, lease)
}
