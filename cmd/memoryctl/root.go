package main

import (
	"context"
	"io"
	"os"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/seed-7f2870e1/memoryd/client"
	"github.com/seed-7f2870e1/memoryd/cmd/internal/buildinfo"
	"github.com/seed-7f2870e1/memoryd/cmd/internal/connect"
)

// defaultTimeout is the longest that one call may take.
const defaultTimeout = 30 * time.Second

// The forms of output.
const (
	outputTable = "table"
	outputJSON  = "json"
)

// The groups of commands in the help text.
const (
	groupMemory = "memory"
	groupFiles  = "files"
	groupAdmin  = "admin"
	groupAgents = "agents"
)

// cli is one run of the command line.
type cli struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	isTerminal     func(stream any) bool

	addr       string
	connection connect.Flags
	namespace  string
	about      string // what the caller needs a right in, such as a namespace, and which; "" where that is not known
	timeout    time.Duration
	output     string

	// retryBudget is that of the client; 0: somebody who waits is told at once that memoryd is not there.
	retryBudget time.Duration

	started bool      // a command runs: flags and arguments are right
	began   time.Time // when the command began to call; zero where it makes calls as long as somebody wants it to
}

func (c *cli) run(ctx context.Context, args []string) int {
	root := c.rootCommand()
	root.SetArgs(slices.Concat([]string{}, args)) // for nil, cobra would take those of the process
	root.SetIn(c.stdin)
	root.SetOut(c.stdout)
	root.SetErr(c.stderr)
	command, err := root.ExecuteContextC(ctx)
	return c.exitStatus(ctx, command, err)
}

func (c *cli) rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "memoryctl",
		Short: "Read and change the memory of agents that a memoryd service keeps",
		Long: `memoryctl reads and changes the memory of agents that a memoryd service keeps.

A memory is a tree of files below /memories. Every agent (or user, or team) has
its own, called a namespace. Paths are always whole: /memories/notes.md.`,
		Example: `  memoryctl tree                                      what is there
  memoryctl view /memories/notes.md                   one file, with line numbers
  memoryctl create /memories/notes.md "Likes tea"     a new file
  memoryctl -n acme/user-42 view /memories            the memory of someone else
  memoryctl namespace list                            whose memories there are
  memoryctl help connection                           tokens and TLS
  memoryctl help exit-status                          what a script has to know`,
		SilenceErrors:     true,
		SilenceUsage:      true,
		Version:           buildinfo.String(),
		PersistentPreRunE: c.settle,
	}
	root.SuggestionsMinimumDistance = 1 // at 2, cobra would suggest rm for ls
	flags := root.PersistentFlags()
	flags.StringVar(&c.addr, "addr", client.DefaultTarget,
		"address of memoryd, `HOST:PORT` or unix:///path (environment: MEMORYCTL_ADDR)")
	c.connection.Add(root, flags)
	flags.StringVarP(&c.namespace, "namespace", "n", client.DefaultNamespace,
		"`NAME` of the memory (environment: MEMORYCTL_NAMESPACE)")
	flags.DurationVar(&c.timeout, "timeout", defaultTimeout, "the longest that one call to memoryd may take")
	flags.StringVarP(&c.output, "output", "o", outputTable, "form of the output: `table|json`, for people or for programs")
	must(root.RegisterFlagCompletionFunc("output",
		cobra.FixedCompletions([]string{outputTable, outputJSON}, cobra.ShellCompDirectiveNoFileComp)))
	must(root.RegisterFlagCompletionFunc("addr", cobra.NoFileCompletions))
	must(root.RegisterFlagCompletionFunc("namespace", cobra.NoFileCompletions))

	root.AddGroup(
		&cobra.Group{ID: groupMemory, Title: "The memory, as its agent has it:"},
		&cobra.Group{ID: groupFiles, Title: "Files in and out:"},
		&cobra.Group{ID: groupAdmin, Title: "The service and its namespaces:"},
		&cobra.Group{ID: groupAgents, Title: "For agents:"},
	)
	root.AddCommand(
		c.viewCommand(), c.createCommand(), c.strReplaceCommand(), c.insertCommand(), c.rmCommand(), c.mvCommand(),
		c.treeCommand(), c.putCommand(), c.getCommand(), c.exportCommand(), c.importCommand(),
		c.pinCommand(), c.unpinCommand(), c.expiryCommand(),
		c.namespaceCommand(), c.screenCommand(), c.backupCommand(), c.topCommand(),
		c.toolCommand(),
		c.versionCommand(), connect.Topic(), exitStatusTopic(),
	)
	return root
}

// settle runs before every command: it checks what all of them have in common, and lets the environment speak where a
// flag was not given.
func (c *cli) settle(cmd *cobra.Command, args []string) error {
	flags := cmd.Flags()
	for _, f := range []struct {
		name, env string
		value     *string
	}{
		{"addr", "MEMORYCTL_ADDR", &c.addr},
		{"namespace", "MEMORYCTL_NAMESPACE", &c.namespace},
	} {
		if env := os.Getenv(f.env); env != "" && !flags.Changed(f.name) {
			*f.value = env
		}
		switch {
		case *f.value == "":
			return usageErrorf("--%s is empty", f.name)
		case !utf8.ValidString(*f.value):
			return usageErrorf("--%s %q is not valid UTF-8", f.name, *f.value)
		}
	}
	if c.output != outputTable && c.output != outputJSON {
		return usageErrorf("--output %q: want table or json", c.output)
	}
	if c.timeout <= 0 {
		return usageErrorf("--timeout %s: want more than 0, for example 30s", c.timeout)
	}
	for _, arg := range args {
		if !utf8.ValidString(arg) {
			return usageErrorf("argument %q is not valid UTF-8", arg)
		}
	}
	c.about = "namespace " + c.namespace + " (-n says which)"
	c.started = true
	return nil
}

// runFunc is the function of a cobra.Command that runs it.
type runFunc = func(cmd *cobra.Command, args []string) error

// remoteFunc is what a command does with the service.
type remoteFunc func(ctx context.Context, m *client.Client, args []string) error

// call connects to the service.
func (c *cli) call(run remoteFunc) runFunc {
	return func(cmd *cobra.Command, args []string) error {
		opts, err := c.connection.Options(cmd.Flags(), os.Getenv)
		if err != nil {
			return usageErrorf("%v", err)
		}
		opts = append(opts, client.WithTimeout(c.timeout), client.WithRetryBudget(c.retryBudget))
		m, err := client.Dial(c.addr, opts...)
		if err != nil {
			return usageErrorf("%v", err)
		}
		defer func() { _ = m.Close() }() // nothing is under way any more
		c.began = time.Now()
		return run(cmd.Context(), m, args)
	}
}

// arguments checks how many arguments a command has, and shows which it takes.
func arguments(least, most int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < least || len(args) > most {
			return usageErrorf("%s given, but it is: %s", count(int64(len(args)), "argument", "arguments"),
				strings.TrimSuffix(cmd.UseLine(), " [flags]"))
		}
		return nil
	}
}

// must is for what only a mistake in this program can make fail.
func must(err error) {
	if err != nil {
		panic(err)
	}
}
