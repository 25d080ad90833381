package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/locker-go/locker"
)

// runOptions are the flags of locker run.
type runOptions struct {
	ttl       time.Duration
	wait      waiting
	killAfter time.Duration
}

const runHelp = `Take the lock of KEY, run COMMAND, and give the lock back when COMMAND has ended.

COMMAND runs in a process group of its own, with standard input, output and error as
they are, and in its environment the variables LOCKER_KEY and LOCKER_FENCE_TOKEN. Pass
the token on to what COMMAND writes to, and have it refuse lower ones than it has seen.
Signals are passed on to the whole group. On a terminal, Ctrl-C, Ctrl-Z and reading work
as without locker.

The lock is renewed as long as COMMAND runs. If it cannot be, the group gets SIGTERM
early enough to be gone when the lease ends: --kill-after before that moment, at which
it gets SIGKILL. If somebody else broke the lock, SIGTERM comes when it is found out, at
the latest after a third of --ttl, and SIGKILL --kill-after later. While locker is
stopped (by Ctrl-Z, or SIGSTOP) nobody renews: if the lease ended meanwhile, the group
gets SIGTERM as soon as locker goes on, and SIGKILL a second later or sooner.

What COMMAND leaves running in its group when it ends has a second to end too; then it
gets SIGTERM, and after --kill-after SIGKILL. Only then is the lock given back. If locker
itself is killed, even by SIGKILL, the whole group is killed at once, and the lock is
free after --ttl. A process that leaves the group (a daemon, by setsid) is beyond reach:
it neither keeps the lock nor is ended.

Exit codes: that of COMMAND, 128+n if signal n ended it or came while waiting for the lock, and
  64       wrong use: arguments, the URL, or what the backend cannot do
  69       the backend does not answer, or not usefully
  70       an error that should not occur
  71       the operating system refused: no process, no place for the default backend
  74       the lock was lost before COMMAND had ended, whatever the exit code of that was
  75       somebody else holds the lock, and --no-wait was given or --wait ran out
  126      COMMAND cannot be executed
  127      COMMAND was not found; the lock was not taken`

func (a *app) runCommand() *cobra.Command {
	var opts runOptions
	cmd := &cobra.Command{
		Use:                   "run [flags] KEY -- COMMAND [ARGUMENT...]",
		Short:                 "Run a command while holding a lock",
		Long:                  runHelp,
		Example:               `  locker run deploy -- sh -c './deploy --fence "$LOCKER_FENCE_TOKEN"'`,
		DisableFlagsInUseLine: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.ArgsLenAtDash() != 1 || len(args) < 2 {
				return usage("one KEY, two dashes and a COMMAND are needed: locker run KEY -- COMMAND [ARGUMENT...]")
			}
			c, err := a.shared()
			if err != nil {
				return err
			}
			opts.wait.defaults(cmd, c, &opts.ttl)
			if err := opts.check(cmd, args[0]); err != nil {
				return err
			}
			c.TTL, c.Wait = opts.ttl, opts.wait.limit
			return a.run(cmd.Context(), c, args[0], args[1:], opts)
		},
	}
	ttlFlag(cmd, &opts.ttl, "how long the lock stays taken if this machine dies")
	opts.wait.flags(cmd)
	cmd.Flags().DurationVar(&opts.killAfter, "kill-after", 0, "time from SIGTERM to SIGKILL, at most half of --ttl (default: a sixth of --ttl, at most 5s)")
	return cmd
}

func (o *runOptions) check(cmd *cobra.Command, key string) error {
	if err := errors.Join(o.wait.check(cmd), locker.ValidateKey(key), locker.ValidateTTL(o.ttl)); err != nil {
		return err
	}
	if !cmd.Flags().Changed("kill-after") {
		o.killAfter = min(o.ttl/6, 5*time.Second)
	}
	if o.killAfter < 0 || o.killAfter > o.ttl/2 {
		return fmt.Errorf("%w: --kill-after is %s; it must be from 0 to half of --ttl, %s", locker.ErrInvalid, o.killAfter, o.ttl/2)
	}
	return nil
}
