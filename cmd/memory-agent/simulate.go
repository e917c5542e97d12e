package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/seed-7f2870e1/memoryd/cmd/memory-agent/internal/simulation"
	"github.com/seed-7f2870e1/memoryd/cmd/memory-agent/internal/transcript"
)

// The forms of output of simulate.
const (
	outputTable = "table"
	outputJSON  = "json"
)

// simulateOptions are the flags of simulate.
type simulateOptions struct {
	simulation.Options
	excludeMemory bool
	transcript    string
	output        string
}

func newSimulateCommand() *cobra.Command {
	o := simulateOptions{Options: simulation.DefaultOptions()}
	cmd := &cobra.Command{
		Use:   "simulate",
		Short: "Show what context editing saves, setting by setting",
		Long: `simulate plays a long run under a grid of settings of context editing, with and
without a memory, and counts tokens. The run is generated: a hundred steps of
web research. With --transcript it is one that was recorded by run --transcript.

There is no model in it and nothing is sent anywhere: Claude is played by a few
rules. docs/context-editing.md says how to use the result.`,
		Example: `  memory-agent simulate
  memory-agent simulate --trigger 30000 --keep 2,3,4 --clear-at-least 5000 --hold
  memory-agent run --transcript run.jsonl && memory-agent simulate --transcript run.jsonl`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return simulate(cmd, o) },
	}
	flags := cmd.Flags()
	flags.Uint64Var(&o.Seed, "seed", o.Seed, "`NUMBER` that the generated run is made from")
	flags.IntVar(&o.Turns, "turns", o.Turns, "how many steps the generated run has")
	flags.IntSliceVar(&o.Triggers, "trigger", o.Triggers, "`TOKENS` of the prompt above which results are cleared")
	flags.IntSliceVar(&o.Keeps, "keep", o.Keeps, "how many of the latest `RESULTS` stay")
	flags.IntVar(&o.ClearAtLeast, "clear-at-least", 0, "`TOKENS` that a clearing must gain, or else it is not made")
	flags.BoolVar(&o.excludeMemory, "exclude-memory", true, "never clear what the memory tool answered")
	flags.BoolVar(&o.Hold, "hold", false,
		"leave out of later requests what was cleared, instead of sending all again to be cleared anew")
	flags.StringVar(&o.transcript, "transcript", "", "play the run that was recorded in `FILE`; - is standard input")
	flags.StringVarP(&o.output, "output", "o", outputTable, "form of the output: `table|json`, for people or for programs")
	must(cmd.RegisterFlagCompletionFunc("output",
		cobra.FixedCompletions([]string{outputTable, outputJSON}, cobra.ShellCompDirectiveNoFileComp)))
	return cmd
}

func simulate(cmd *cobra.Command, o simulateOptions) error {
	o.ClearMemory = !o.excludeMemory
	if err := o.Check(); err != nil {
		return usageErrorf("%v", err)
	}
	if o.output != outputTable && o.output != outputJSON {
		return usageErrorf("--output %q: want table or json", o.output)
	}
	flags := cmd.Flags()
	if o.transcript != "" && (flags.Changed("seed") || flags.Changed("turns")) {
		return usageErrorf("--seed and --turns are for a generated run, --transcript is for a recorded one")
	}
	if flags.Changed("transcript") && o.transcript == "" {
		return usageErrorf("--transcript is empty")
	}
	report, err := o.report(cmd)
	if err != nil {
		return err
	}
	if o.output == outputJSON {
		err = json.NewEncoder(cmd.OutOrStdout()).Encode(report)
	} else {
		err = report.WriteTable(cmd.OutOrStdout())
	}
	if err != nil {
		return fmt.Errorf("write standard output: %w", err)
	}
	return nil
}

func (o simulateOptions) report(cmd *cobra.Command) (*simulation.Report, error) {
	if o.transcript == "" {
		return simulation.Generate(cmd.Context(), o.Options)
	}
	recorded, err := readTranscript(o.transcript, cmd.InOrStdin())
	if err != nil {
		return nil, fmt.Errorf("read transcript: %w", err)
	}
	if recorded.CutOff > 0 {
		fmt.Fprintf(cmd.ErrOrStderr(), "memory-agent: line %d of the transcript is cut off and was left out: the run was "+
			"probably killed while it was written\n", recorded.CutOff)
	}
	return simulation.Replay(cmd.Context(), recorded, o.Options)
}

// readTranscript reads a file; - is standard input.
func readTranscript(name string, stdin io.Reader) (*transcript.Transcript, error) {
	if name == "-" {
		recorded, err := transcript.Read(stdin)
		if err != nil {
			return nil, fmt.Errorf("standard input: %w", err)
		}
		return recorded, nil
	}
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }() // it was only read
	recorded, err := transcript.Read(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return recorded, nil
}
