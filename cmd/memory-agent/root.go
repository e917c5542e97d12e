package main

import (
	"context"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"
)

// cli is one run of the command line.
type cli struct {
	stdout, stderr io.Writer

	addr        string        // of the memoryd that run uses
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
		PersistentPreRun: func(*cobra.Command, []string) {
			c.started = true
		},
	}
	root.AddCommand(c.demoCommand(), c.runCommand(), newSimulateCommand(), exitStatusTopic())
	return root
}

// must is for what only a mistake in this program can make fail.
func must(err error) {
	if err != nil {
		panic(err)
	}
}
