package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/locker-go/locker"
	"github.com/locker-go/locker/backends"
)

const defaultTTL = 30 * time.Second

// waiting are the flags that say how long to wait for a lock.
type waiting struct {
	no    bool
	limit time.Duration
}

func (w *waiting) flags(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&w.no, "no-wait", false, "fail at once, with exit code 75, if the lock is held")
	cmd.Flags().DurationVar(&w.limit, "wait", 0, "wait for a lock that is held at most this long, then fail with exit code 75 (default: without limit)")
	cmd.MarkFlagsMutuallyExclusive("no-wait", "wait")
}

// check refuses what makes no sense. Waiting for no time at all is not waiting.
func (w *waiting) check(cmd *cobra.Command) error {
	if !cmd.Flags().Changed("wait") {
		return nil
	}
	if w.limit < 0 {
		return usage("--wait %s: must not be negative", w.limit)
	}
	w.no = w.limit == 0
	return nil
}

// defaults takes from a configuration what no flag says.
func (w *waiting) defaults(cmd *cobra.Command, c backends.Config, ttl *time.Duration) {
	if c.TTL != 0 && !cmd.Flags().Changed("ttl") {
		*ttl = c.TTL
	}
	if !cmd.Flags().Changed("wait") && !w.no {
		w.limit = c.Wait
	}
}

func ttlFlag(cmd *cobra.Command, ttl *time.Duration, text string) {
	cmd.Flags().DurationVar(ttl, "ttl", defaultTTL, text)
}

func (a *app) acquireCommand() *cobra.Command {
	var (
		ttl  time.Duration
		wait waiting
	)
	cmd := &cobra.Command{
		Use:   "acquire KEY",
		Short: "Take a lock and print its lease as JSON",
		Long: `Take the lock of KEY and print its lease as JSON, for renew, release and fence.

Nobody renews the lease but you: it ends after --ttl. The lease is a credential, since
whoever has it can renew and release the lock; keep it in a file that others cannot read:

  umask 077
  locker acquire deploy --ttl 10m > lease
  ... the work, and now and then: locker renew --lease lease > new && mv new lease
  locker release --lease lease

` + exitCodesHelp,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, key := cmd.Context(), args[0]
			c, err := a.outliving()
			if err != nil {
				return err
			}
			wait.defaults(cmd, c, &ttl)
			if err := errors.Join(wait.check(cmd), locker.ValidateKey(key), locker.ValidateTTL(ttl)); err != nil {
				return err
			}
			return a.withLockerOf(ctx, c, func(l locker.Locker) error {
				lease, err := acquire(ctx, l, key, ttl, wait)
				if err != nil {
					return err
				}
				if err := a.printLease(lease); err != nil {
					// Nobody could ever give back a lease that nobody has seen.
					return errors.Join(err, l.Release(context.WithoutCancel(ctx), lease))
				}
				return nil
			})
		},
	}
	ttlFlag(cmd, &ttl, "how long the lease lasts unless it is renewed")
	wait.flags(cmd)
	return cmd
}

func acquire(ctx context.Context, l locker.Locker, key string, ttl time.Duration, wait waiting) (locker.Lease, error) {
	if wait.no {
		return l.Acquire(ctx, key, ttl)
	}
	if wait.limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, wait.limit)
		defer cancel()
	}
	return locker.AcquireWait(ctx, l, key, ttl)
}

func (a *app) renewCommand() *cobra.Command {
	var (
		path string
		ttl  time.Duration
	)
	cmd := &cobra.Command{
		Use:   "renew",
		Short: "Renew a lease and print the new one",
		Long: `Renew a lease, read as JSON from --lease or standard input, and print the new one.

It ends after --ttl, counted from now: by default the TTL that it was granted for. A
lease that has ended is not renewed: exit code 74.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			lease, err := readLease(path)
			if err != nil {
				return err
			}
			if !cmd.Flags().Changed("ttl") {
				ttl = lease.TTL
			}
			return a.withLocker(cmd.Context(), func(l locker.Locker) error {
				renewed, err := l.Renew(cmd.Context(), lease, ttl)
				if err != nil {
					return err
				}
				return a.printLease(renewed)
			})
		},
	}
	leaseFlag(cmd, &path)
	cmd.Flags().DurationVar(&ttl, "ttl", 0, "how long the lease lasts from now (default: as it was granted for)")
	return cmd
}

func (a *app) releaseCommand() *cobra.Command {
	var path string
	cmd := &cobra.Command{
		Use:   "release",
		Short: "Give back a lock by its lease",
		Long: `Give back the lock of a lease, read as JSON from --lease or standard input.

If it is no longer the current lease of its key nothing changes: exit code 74.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			lease, err := readLease(path)
			if err != nil {
				return err
			}
			return a.withLocker(cmd.Context(), func(l locker.Locker) error { return l.Release(cmd.Context(), lease) })
		},
	}
	leaseFlag(cmd, &path)
	return cmd
}

func (a *app) fenceCommand() *cobra.Command {
	var path string
	cmd := &cobra.Command{
		Use:   "fence",
		Short: "Ask whether a lease still holds, and print its fencing token",
		Long: `Ask the backend whether a lease, read as JSON from --lease or standard input, still is
the current one of its key, and print its fencing token. If it is not: exit code 74.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			lease, err := readLease(path)
			if err != nil {
				return err
			}
			return a.withLocker(cmd.Context(), func(l locker.Locker) error {
				token, err := l.FenceToken(cmd.Context(), lease)
				if err != nil {
					return err
				}
				if a.json {
					return a.printJSON(struct {
						Key   string       `json:"key"`
						Token locker.Token `json:"token"`
					}{lease.Key, token})
				}
				_, err = fmt.Fprintln(a.out, token)
				return err
			})
		},
	}
	leaseFlag(cmd, &path)
	return cmd
}

func leaseFlag(cmd *cobra.Command, path *string) {
	cmd.Flags().StringVar(path, "lease", "-", "`FILE` with the lease; - is standard input")
}

// maxLeaseSize bounds what is read in search of a lease, whose key has 1 kB at most.
const maxLeaseSize = 1 << 16

func readLease(path string) (locker.Lease, error) {
	in := os.Stdin
	if path != "-" {
		f, err := os.Open(path)
		if err != nil {
			return locker.Lease{}, &exitError{exitUsage, err}
		}
		defer f.Close()
		in = f
	}
	b, err := io.ReadAll(io.LimitReader(in, maxLeaseSize+1))
	if err != nil {
		return locker.Lease{}, &exitError{exitUsage, fmt.Errorf("reading the lease: %w", err)}
	}
	if len(b) > maxLeaseSize {
		return locker.Lease{}, usage("not a lease: it is longer than %d bytes", maxLeaseSize)
	}
	var lease locker.Lease
	if err := json.Unmarshal(b, &lease); err != nil {
		// Without its own text, which repeats pieces of what may be a credential.
		if errors.Is(err, locker.ErrInvalid) {
			return locker.Lease{}, err
		}
		return locker.Lease{}, usage("not a lease: it is not the JSON that acquire or renew prints")
	}
	return lease, nil
}

func (a *app) printLease(lease locker.Lease) error { return a.printJSON(lease) }

func (a *app) printJSON(v any) error {
	encoder := json.NewEncoder(a.out)
	encoder.SetEscapeHTML(false)
	return encoder.Encode(v)
}
