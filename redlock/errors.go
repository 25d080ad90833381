package redlock

import (
	"errors"
	"fmt"
	"strings"

	"github.com/hashicorp/go-multierror"

	"github.com/locker-go/locker"
	"github.com/locker-go/locker/internal/redisnode"
)

// definite says whether a request that failed was not, and will not be, carried out.
func definite(err error) bool {
	_, never := errors.AsType[*unasked](err)
	return never || errors.Is(err, errRestarted) || redisnode.Refused(err) || redisnode.NeverSent(err)
}

// nodeError is what one node failed with.
type nodeError struct {
	addr string
	err  error
}

func (e *nodeError) Error() string {
	return e.addr + ": " + strings.TrimPrefix(e.err.Error(), locker.ErrUnavailable.Error()+": ")
}

func (e *nodeError) Unwrap() error { return e.err }

// nodeErrors returns the errors of nodes as one, in their order.
func (l *Locker) nodeErrors(errs map[*member]error) error {
	all := &multierror.Error{ErrorFormat: func(errs []error) string {
		texts := make([]string, len(errs))
		for i, err := range errs {
			texts[i] = err.Error()
		}
		return strings.Join(texts, "; ")
	}}
	for _, m := range l.members {
		if err := errs[m]; err != nil {
			all = multierror.Append(all, &nodeError{m.addr, err})
		}
	}
	return all
}

// noMajority returns that no majority gave an answer to go by, and what failed.
func (l *Locker) noMajority(errs map[*member]error) error {
	return fmt.Errorf("%w: no majority of the %d nodes: %d failed: %w", locker.ErrUnavailable, len(l.members), len(errs), l.nodeErrors(errs))
}

// invalid returns err as an ErrInvalid if it says that a server cannot be a member:
// when all is set up somebody can still put it right.
func invalid(err error) error {
	if why, ok := errors.AsType[misfit](err); ok {
		return fmt.Errorf("%w: %s", locker.ErrInvalid, why)
	}
	return err
}
