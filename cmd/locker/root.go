package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/locker-go/locker"
)

// app is what all subcommands share.
type app struct {
	out     io.Writer
	err     io.Writer
	url     string // of --url
	config  string // of --config
	json    bool
	verbose bool
	signals chan os.Signal // those that end a command, until locker run takes them over
	handOff func()         // ends the handling of signals by the context
}

// execute runs the command line and returns the exit code.
func execute(args []string) int {
	a := &app{out: os.Stdout, err: os.Stderr}
	ctx, stop := a.interruptible(context.Background())
	defer stop()
	// Nobody reading what is printed must not end this process at once, with a lock in
	// its hands. Caught, unlike ignored, the signal is not inherited by a command.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	root := a.root()
	root.SetArgs(args)
	root.SetOut(a.out)
	root.SetErr(a.err)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	e, ok := errors.AsType[*exitError](err)
	if !ok {
		e = &exitError{exitUsage, err} // of cobra, since those of actions are classified
	}
	if e.err != nil {
		a.logf("%v", err)
	}
	return e.code
}

// interruptible returns a context that ends when a signal arrives which would end the
// process.
func (a *app) interruptible(ctx context.Context) (_ context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	a.signals = make(chan os.Signal, 16)
	for _, s := range ending {
		if !signal.Ignored(s) { // as by nohup
			signal.Notify(a.signals, s)
		}
	}
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		select {
		case s := <-a.signals:
			cancel(&signalError{s})
		case <-quit:
		}
	}()
	handed := false
	a.handOff = func() {
		if !handed {
			handed = true
			close(quit)
			<-done
		}
	}
	return ctx, func() {
		a.handOff()
		signal.Stop(a.signals)
		cancel(nil)
	}
}

// logf writes a message for people, as every message of this program.
func (a *app) logf(format string, args ...any) {
	message := strings.TrimSpace(scrub(fmt.Sprintf(format, args...)))
	_, _ = fmt.Fprintf(a.err, "locker: %s\n", strings.ReplaceAll(message, "\n", "\nlocker: "))
}

// logEvent writes what a client reports. Losses are written by whoever holds the lock.
func (a *app) logEvent(e locker.Event) {
	switch {
	case e.Kind == locker.EventLost:
	case e.Err != nil:
		a.logf("%s: %v", e.Kind, e.Err)
	case a.verbose:
		a.logf("%s %s with token %d", e.Kind, show(e.Holding.Key), e.Holding.Token)
	}
}

func (a *app) root() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "locker",
		Short: "Distributed locks with fencing tokens, over several backends",
		Long: `locker runs programs under a distributed lock, and takes, shows and breaks locks.

A lease can end while its holder is stalled; no lock service can prevent that. So every
grant has a fencing token that is higher than all before it for the same key, and the
resource that the lock guards should refuse lower ones.

Where locks are kept is told by --url or --config or, if neither is given, by one of the
environment variables LOCKER_URL and LOCKER_CONFIG. A URL is one of
  file:///DIRECTORY                           one machine, no server
  redis://[user:password@]host[:port][/db]    also rediss:// with TLS
  redis+sentinel://h1,h2,h3/master-name
  redis+cluster://h1,h2,h3
  redlock://h1,h2,h3,h4,h5                    a majority of independent Redis servers
  etcd://[user:password@]h1[:port],h2,h3      also etcds:// with TLS
  zookeeper://[user:password@]h1,h2,h3[/chroot]
By default locks are in a directory of this user on this machine: $XDG_STATE_HOME/locker,
or ~/.local/state/locker.

A configuration, in YAML or JSON, can send keys to different backends, and has defaults
for --ttl and --wait, which count more:
  url: redis://cache:6379?password_file=/run/secrets/redis
  ttl: 30s
  routes:
    - keys: invoice/*
      url: etcd://e1,e2,e3

Every user of the machine can see the arguments of a program, so a password does not
belong into --url. Put it into LOCKER_URL, or better into a file:
  redis://user@host?password_file=/run/secrets/redis

` + exitCodesHelp,
		SilenceErrors:     true,
		SilenceUsage:      true,
		CompletionOptions: cobra.CompletionOptions{HiddenDefaultCmd: true},
	}
	cmd.PersistentFlags().StringVar(&a.url, "url", "", "`URL` of the backend; better in LOCKER_URL if it has a password")
	cmd.PersistentFlags().StringVar(&a.config, "config", "", "configuration `FILE` of the backends")
	cmd.MarkFlagsMutuallyExclusive("url", "config")
	cmd.PersistentFlags().BoolVar(&a.json, "json", false, "print JSON, where anything is printed at all")
	cmd.PersistentFlags().BoolVarP(&a.verbose, "verbose", "v", false, "tell on standard error what happens")
	cmd.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return usage("%w; see %s --help", err, cmd.CommandPath()) })
	cmd.AddCommand(
		a.runCommand(),
		a.acquireCommand(), a.renewCommand(), a.releaseCommand(), a.fenceCommand(),
		a.statusCommand(), a.lsCommand(), a.breakCommand(),
		a.doctorCommand(), a.conformanceCommand(), a.versionCommand(),
	)
	for _, sub := range cmd.Commands() {
		sub.RunE = classified(sub.RunE)
	}
	return cmd
}

// action is what a subcommand does.
type action = func(cmd *cobra.Command, args []string) error

func classified(do action) action {
	return func(cmd *cobra.Command, args []string) error {
		if err := do(cmd, args); err != nil {
			return classify(cmd.Context(), err)
		}
		return nil
	}
}
