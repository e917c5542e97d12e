package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed-7f2870e1/memoryd/client"
	memoryv1 "github.com/seed-7f2870e1/memoryd/gen/memoryd/v1"
)

func (c *cli) viewCommand() *cobra.Command {
	var lines lineRange
	cmd := &cobra.Command{
		Use:   "view PATH",
		Short: "Show a directory two levels deep, or a file with line numbers",
		Long: `View shows exactly what the agent would see: a directory two levels deep,
without hidden entries ("memoryctl tree" shows all), or a file with line
numbers, cut where it is long. The bytes of a file come with "memoryctl get".

On a terminal, control characters are shown as \u001b.`,
		Example: `  memoryctl view /memories
  memoryctl view /memories/notes.md
  memoryctl view /memories/notes.md --range 10:20
  memoryctl view /memories/notes.md --range 10:      from line 10 to the end`,
		GroupID:           groupMemory,
		Args:              arguments(1, 1),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: c.call(func(ctx context.Context, m *client.Client, args []string) error {
			resp, err := m.View(ctx, &memoryv1.ViewRequest{
				Namespace: c.namespace, Path: args[0], ViewRange: lines.value,
			})
			if err != nil {
				return err
			}
			return c.printResponse(resp)
		}),
	}
	cmd.Flags().Var(&lines, "range", "show only the lines from A to B, both included; -1 is the last line")
	must(cmd.RegisterFlagCompletionFunc("range", cobra.NoFileCompletions))
	return cmd
}

// lineRange is a flag: A:B, A: or :B.
type lineRange struct{ value *memoryv1.ViewRange }

// Set implements pflag.Value.
func (l *lineRange) Set(s string) error {
	errForm := errors.New("want A:B, A: or :B, lines counted from 1")
	from, to, found := strings.Cut(s, ":")
	if !found {
		return errForm
	}
	value := &memoryv1.ViewRange{Start: 1, End: -1}
	for _, end := range []struct {
		text string
		line *int64
	}{{from, &value.Start}, {to, &value.End}} {
		if end.text == "" {
			continue
		}
		n, err := strconv.ParseInt(end.text, 10, 64)
		if err != nil {
			return errForm
		}
		*end.line = n
	}
	l.value = value
	return nil
}

// String implements pflag.Value.
func (l *lineRange) String() string {
	if l.value == nil {
		return ""
	}
	return fmt.Sprintf("%d:%d", l.value.GetStart(), l.value.GetEnd())
}

// Type implements pflag.Value.
func (l *lineRange) Type() string { return "A:B" }
