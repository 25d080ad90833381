package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/locker-go/locker"
)

// shownHolding is a holding as JSON.
type shownHolding struct {
	Key       string       `json:"key"`
	Held      bool         `json:"held"`
	Holder    string       `json:"holder,omitempty"`
	Token     locker.Token `json:"token,omitempty"`     // absent for a lock of another program
	Remaining string       `json:"remaining,omitempty"` // a duration, or forever; absent if unknown
}

func shown(h locker.Holding) shownHolding {
	s := shownHolding{Key: h.Key, Held: true, Holder: h.Holder, Token: h.Token}
	switch {
	case h.Remaining == locker.Forever:
		s.Remaining = "forever"
	case h.Remaining > 0:
		s.Remaining = h.Remaining.Round(time.Millisecond).String()
	}
	return s
}

func (a *app) statusCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "status KEY",
		Short: "Show who holds a lock",
		Long:  "Show who holds the lock of KEY. Exit code 0 if it is held, 1 if it is free.",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			key := args[0]
			return a.withAdmin(cmd.Context(), func(admin locker.Admin) error {
				h, err := admin.Inspect(cmd.Context(), key)
				if errors.Is(err, locker.ErrNotHeld) {
					if err := a.printFree(key); err != nil {
						return err
					}
					return &exitError{code: exitFailed}
				}
				if err != nil {
					return err
				}
				if a.json {
					return a.printJSON(shown(h))
				}
				return table(a.out, []locker.Holding{h})
			})
		},
	}
}

func (a *app) printFree(key string) error {
	if a.json {
		return a.printJSON(shownHolding{Key: key})
	}
	_, err := fmt.Fprintf(a.out, "%s is free\n", show(key))
	return err
}

func (a *app) lsCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "ls [PREFIX]",
		Short: "List the locks that are held",
		Long:  "List the locks that are held, of keys that begin with PREFIX, by key.",
		Args:  cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			prefix := strings.Join(args, "")
			return a.withAdmin(cmd.Context(), func(admin locker.Admin) error {
				var all []locker.Holding
				for h, err := range admin.Holdings(cmd.Context(), prefix) {
					if err != nil {
						return err
					}
					all = append(all, h)
				}
				slices.SortFunc(all, func(a, b locker.Holding) int { return strings.Compare(a.Key, b.Key) })
				if !a.json {
					return table(a.out, all)
				}
				list := make([]shownHolding, len(all))
				for i, h := range all {
					list[i] = shown(h)
				}
				return a.printJSON(list)
			})
		},
	}
}

// table writes holdings for people; nothing at all if there are none.
func table(w io.Writer, all []locker.Holding) error {
	if len(all) == 0 {
		return nil
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "KEY\tHOLDER\tTOKEN\tREMAINING")
	for _, h := range all {
		s, token := shown(h), "-"
		if h.Token != 0 {
			token = strconv.FormatUint(uint64(h.Token), 10)
		}
		if s.Remaining == "" {
			s.Remaining = "unknown"
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", show(h.Key), show(h.Holder), token, s.Remaining)
	}
	return t.Flush() // which returns the errors of all writes
}

// show returns a text from elsewhere as it is if it is plain, else quoted: it must not
// move columns, or control the terminal.
func show(text string) string {
	plain := func(r rune) bool { return unicode.IsGraphic(r) && !unicode.IsSpace(r) && r != '"' }
	if text == "" || strings.IndexFunc(text, func(r rune) bool { return !plain(r) }) >= 0 {
		return strconv.QuoteToGraphic(text)
	}
	return text
}

func (a *app) breakCommand() *cobra.Command {
	var (
		token  uint64
		holder string
	)
	cmd := &cobra.Command{
		Use:   "break KEY (--token TOKEN | --holder HOLDER)",
		Short: "End somebody's hold of a lock",
		Long: `End the grant of KEY that status or ls has shown, named by its token or holder. If
another has the lock by now it is left alone: exit code 74.

The broken holder learns of it at its next renewal and goes on working until then, unless
the resource refuses its token. So break only what is known to be dead.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withAdmin(cmd.Context(), func(admin locker.Admin) error {
				h, err := admin.Inspect(cmd.Context(), args[0])
				if err != nil {
					return err
				}
				seen := h.Holder == holder
				if cmd.Flags().Changed("token") {
					seen = h.Token != 0 && h.Token == locker.Token(token)
				}
				if !seen {
					return fmt.Errorf("%w by the one to break: it is %v", locker.ErrNotHeld, &locker.HeldError{Holding: h})
				}
				return admin.Break(cmd.Context(), h)
			})
		},
	}
	cmd.Flags().Uint64Var(&token, "token", 0, "the token of the grant to break")
	cmd.Flags().StringVar(&holder, "holder", "", "the holder to break, for a lock without a token")
	cmd.MarkFlagsOneRequired("token", "holder")
	cmd.MarkFlagsMutuallyExclusive("token", "holder")
	return cmd
}
