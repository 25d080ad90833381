// Command nightly writes a report that every machine is scheduled to write. Whichever
// comes first writes it; the others see that it is being written, and are done.
//
// Where the locks are is told by the environment, and by that alone:
//
//	LOCKER_URL=file:///var/lib/nightly/locks nightly /srv/reports
//	LOCKER_URL=redis://cache:6379            nightly /srv/reports
//	LOCKER_URL=etcd://e1,e2,e3               nightly /srv/reports
//	LOCKER_CONFIG=/etc/locker.yaml           nightly /srv/reports
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"time"

	"github.com/locker-go/locker"
	"github.com/locker-go/locker/backends"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "nightly:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) (err error) {
	if len(args) != 1 {
		return errors.New("usage: nightly DIRECTORY")
	}
	reports := archive{args[0]}
	client, err := backends.OpenEnv(ctx, &locker.Options{TTL: 20 * time.Second})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, client.Close()) }()

	err = client.TryDo(ctx, "report:nightly", func(ctx context.Context, lease locker.Lease) error {
		text, err := compute(ctx)
		if err != nil {
			return err
		}
		path, err := reports.publish(lease.Token, text)
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "token %d: wrote %s\n", lease.Token, path)
		return nil
	})
	if errors.Is(err, locker.ErrHeld) {
		fmt.Fprintln(out, "another machine is writing it:", err)
		return nil
	}
	return err
}

// compute stands for an hour of queries. ctx ends when the lock is lost, and the queries
// with it.
func compute(ctx context.Context) ([]byte, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return fmt.Appendf(nil, "All was well on %s.\n", time.Now().Format(time.DateOnly)), nil
}
