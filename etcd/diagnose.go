package etcd

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/locker-go/locker"
)

var _ locker.Diagnoser = (*Locker)(nil)

// Diagnose asks all members for their status, those that the client has no endpoint
// of at the URLs that they advertise, and the cluster for its members, its tokens, and
// whether it wants passwords. To learn how short a lease can be it grants one, without a
// key, and revokes it. It is an error if no member answers.
func (l *Locker) Diagnose(ctx context.Context) ([]locker.Finding, error) {
	r, err := l.ask(ctx)
	if err != nil {
		return nil, l.fail(ctx, "diagnose", "", err)
	}
	return r.findings(), nil
}

// report is what a cluster told.
type report struct {
	limit     time.Duration // of a request
	asked     time.Time
	members   []member
	endpoints int      // of the client
	unlisted  error    // why the cluster did not list its members: then they are those that were asked
	clusters  []uint64 // the ids of the clusters that the members belong to
	noQuorum  error    // why a majority did not answer a read
	rev       int64    // of the store
	base      base
	noBase    error // what is wrong with it
	uncapped  bool  // history is as long as keptRevisions at least
	noHistory error // why that is not known
	auth      bool  // the cluster wants a user and a password
	noAuth    error // why that is not known
	floor     time.Duration
	noFloor   error // why that is not known
}

// member is one of a cluster.
type member struct {
	name    string // its address if it has none
	urls    []string
	id      uint64
	learner bool
	status  *clientv3.StatusResponse
	err     error // why it did not tell
}

// keptRevisions is how much history no cluster should keep. A lock taken and given back
// makes two revisions of it.
const keptRevisions = 1_000_000

func (l *Locker) ask(ctx context.Context) (report, error) {
	r := report{limit: l.opts.RequestTimeout, asked: time.Now()}
	var (
		asking sync.WaitGroup
		listed []*pb.Member
	)
	endpoints := l.client.Endpoints()
	r.endpoints = len(endpoints)
	known := make([]member, len(endpoints))
	for i, endpoint := range endpoints {
		known[i] = member{name: endpoint, urls: []string{endpoint}}
	}
	asking.Go(func() { l.askEach(ctx, known) })
	asking.Go(func() {
		// What one member knows by itself will do: there may be no majority.
		resp, err := bounded(ctx, r.limit, func(ctx context.Context) (*clientv3.MemberListResponse, error) {
			return l.client.MemberList(ctx, clientv3.WithSerializable())
		})
		if r.unlisted = err; err == nil {
			listed = resp.Members
		}
	})
	asking.Go(func() {
		resp, err := l.read(ctx, clientv3.OpGet(l.names.base()))
		if r.noQuorum = err; err == nil {
			r.rev = resp.Header.Revision
			r.base, r.noBase = readBase(first(resp, 0))
		}
	})
	asking.Wait()

	silent := r.noQuorum
	for _, m := range known {
		if m.err == nil {
			silent = nil
		}
	}
	if ctx.Err() != nil || silent != nil {
		return r, errors.Join(ctx.Err(), silent)
	}
	r.members = known
	if r.unlisted == nil {
		r.members = matched(listed, known)
	}
	asking.Go(func() { l.askEach(ctx, r.members) })
	if r.noQuorum == nil {
		asking.Go(func() { r.uncapped, r.noHistory = l.keeps(ctx, r.rev-keptRevisions) })
		asking.Go(func() { r.auth, r.noAuth = l.authenticates(ctx) })
		asking.Go(func() { r.floor, r.noFloor = l.shortest(ctx) })
	}
	asking.Wait()
	for _, m := range append(known, r.members...) {
		if m.err == nil && m.status != nil && !slices.Contains(r.clusters, m.status.Header.ClusterId) {
			r.clusters = append(r.clusters, m.status.Header.ClusterId)
		}
	}
	return r, ctx.Err()
}

// askEach asks those members for their status that have not told it.
func (l *Locker) askEach(ctx context.Context, members []member) {
	var asking sync.WaitGroup
	for i := range members {
		m := &members[i]
		if m.status != nil || len(m.urls) == 0 {
			continue
		}
		asking.Go(func() {
			m.status, m.err = bounded(ctx, l.opts.RequestTimeout, func(ctx context.Context) (*clientv3.StatusResponse, error) {
				var errs error
				for _, url := range m.urls {
					status, err := l.client.Status(ctx, url)
					if err == nil {
						return status, nil
					}
					errs = errors.Join(errs, err)
				}
				return nil, errs
			})
		})
	}
	asking.Wait()
}

// matched returns the members of a list, with the status of those that were asked.
// From here they may have other addresses than they advertise.
func matched(listed []*pb.Member, known []member) []member {
	members := make([]member, len(listed))
	for i, m := range listed {
		members[i] = member{name: m.Name, urls: m.ClientURLs, id: m.ID, learner: m.IsLearner}
		if m.Name == "" {
			members[i].name = strconv.FormatUint(m.ID, 16)
		}
		for _, k := range known {
			if k.err == nil && k.status.Header.MemberId == m.ID {
				members[i].status = k.status
			}
		}
	}
	return members
}

// keeps says whether the store still has a revision.
func (l *Locker) keeps(ctx context.Context, rev int64) (bool, error) {
	if rev <= 0 {
		return false, nil
	}
	_, err := bounded(ctx, l.opts.RequestTimeout, func(ctx context.Context) (*clientv3.GetResponse, error) {
		return l.client.Get(ctx, l.names.base(), clientv3.WithRev(rev), clientv3.WithCountOnly())
	})
	if errors.Is(err, rpctypes.ErrCompacted) {
		return false, nil
	}
	return err == nil, err
}

// authenticates says whether the cluster wants a user and a password.
func (l *Locker) authenticates(ctx context.Context) (bool, error) {
	status, err := bounded(ctx, l.opts.RequestTimeout, func(ctx context.Context) (*clientv3.AuthStatusResponse, error) {
		return l.client.AuthStatus(ctx)
	})
	if errors.Is(err, rpctypes.ErrPermissionDenied) || errors.Is(err, rpctypes.ErrUserEmpty) {
		return true, nil // it tells only its administrators
	}
	if err != nil {
		return false, err
	}
	return status.Enabled, nil
}

// shortest returns how long the server makes a lease that was to be as short as can be.
func (l *Locker) shortest(ctx context.Context) (time.Duration, error) {
	lease, err := l.leases.grant(ctx, 1)
	if err != nil {
		return 0, err
	}
	_ = l.leases.revoke(context.WithoutCancel(ctx), lease.id) // else it ends by itself in a moment
	return lease.ttl(), nil
}
