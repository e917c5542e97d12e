package main

import (
	"context"
	"errors"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/seed-7f2870e1/memoryd/cmd/internal/buildinfo"
	"github.com/seed-7f2870e1/memoryd/cmd/internal/connect"
)

// cli is one run of the command line.
type cli struct {
	stdout, stderr io.Writer

	ran         runOptions    // of the command run, if that is what runs
	retryBudget time.Duration // of its client
	started     bool          // a command runs: flags and arguments are right
}

func (c *cli) run(ctx context.Context, args []string) int {
	root := c.rootCommand()
	root.SetArgs(slices.Concat([]string{}, args)) // for nil, cobra would take those of the process
	root.SetOut(c.stdout)
	root.SetErr(c.stderr)
	command, err := root.ExecuteContextC(ctx)
	return c.exitStatus(ctx, command, err)
}

func (c *cli) rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "memory-agent",
		Short: "A research assistant whose memory is memoryd",
		Long: `memory-agent is an example of an agent in Go whose memory is memoryd. It answers
a question from local documents, over as many sessions as it takes: what it
found, and what is left to do, it keeps in its memory.

With ANTHROPIC_API_KEY set it asks Claude. Without, a few rules answer in the
place of Claude, so that everything works offline.`,
		Example: `  memory-agent demo                    three sessions, one of them killed, offline
  memory-agent run                     one session against a memoryd that runs
  memory-agent simulate                what context editing saves`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Version:       buildinfo.String(),
		PersistentPreRun: func(*cobra.Command, []string) {
			c.started = true
		},
	}
	root.SetFlagErrorFunc(flagError)
	root.AddCommand(
		c.demoCommand(), c.runCommand(), newSimulateCommand(), c.versionCommand(),
		connect.Topic(), exitStatusTopic(),
	)
	return root
}

// flagWants says what the types of flags want.
var flagWants = map[string]string{
	"bool":     "true or false",
	"int":      "a whole number",
	"int64":    "a whole number",
	"intSlice": "whole numbers with commas between them, such as 3,5,10",
	"uint64":   "a whole number, 0 or more",
}

// flagError says in plain words that a flag has a value that it cannot have.
func flagError(_ *cobra.Command, err error) error {
	var invalid *pflag.InvalidValueError
	if !errors.As(err, &invalid) {
		return err
	}
	want, ok := flagWants[invalid.GetFlag().Value.Type()]
	if !ok {
		return err
	}
	return usageErrorf("--%s %q: want %s", invalid.GetFlag().Name, invalid.GetValue(), want)
}

// must is for what only a mistake in this program can make fail.
func must(err error) {
	if err != nil {
		panic(err)
	}
}
