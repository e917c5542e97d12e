package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"time"

	"github.com/seed-7f2870e1/memoryd/cmd/internal/buildinfo"
	"github.com/spf13/cobra"

	"github.com/seed-7f2870e1/memoryd/cmd/bench/internal/report"
	"github.com/seed-7f2870e1/memoryd/cmd/bench/internal/trial"
)

// minSlices is the least number of slices: medians of fewer say little.
const minSlices = 7

const (
	defaultSlice = time.Second
	quickSlice   = 200 * time.Millisecond
)

// options are the flags of the command.
type options struct {
	slices  int
	slice   time.Duration
	quick   bool
	seed    uint64
	scale   bool
	only    string
	dir     string
	memoryd string
	etcd    string
	node    string

	from, json, svg, markdown string
}

func newRoot() *cobra.Command {
	var o options
	root := &cobra.Command{
		Use:   "bench",
		Short: "Measure memoryd, and what it is compared with",
		Long: `bench starts servers of its own on the loopback interface, measures them, ends them, and prints a table.

What is compared takes turns: every round has one slice of time for each, in an order of its own. Whatever is measured,
two servers of the same configuration take part. By how much they differ is printed first: a ratio that is no further
from 1 says nothing, and nor does one that is no further from its target. Figures are medians of the slices, and ratios
those of the slices of a round. What memoryd and the system count (allocations, processor time, bytes and calls that
write, fsyncs, calls that share a commit) depends little on what else the machine does; times do.

Peers that are not installed are left out, and the report says so: etcd and memoryd next to this program, redis-server,
postgres and node in PATH. System calls are counted with strace, on Linux.

Groups: ` + groupNames() + `.
`,
		Example: `  bench                                  # all but what needs a large store
  bench --quick --only '^(view|create)$' # a glance
  bench --scale --json result.json       # all of it; the first time it makes stores of 10^6 files, of some GB
  bench --from result.json --markdown docs/performance.md --svg docs/performance.svg`,
		Args:          cobra.NoArgs,
		Version:       buildinfo.String(),
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.run(cmd)
		},
	}
	f := root.Flags()
	f.IntVar(&o.slices, "slices", minSlices, "how many slices each is measured in; at least 7")
	f.DurationVar(&o.slice, "slice-duration", defaultSlice, "how long a slice is")
	f.BoolVar(&o.quick, "quick", false, "slices of "+quickSlice.String()+", unless --slice-duration says otherwise")
	f.Uint64Var(&o.seed, "seed", 1, "seed of the order of slices, and of what is read")
	f.BoolVar(&o.scale, "scale", false, "also the groups that need large stores, which are kept for the next time")
	f.StringVar(&o.only, "only", "", "regular expression for the names of the groups to run")
	f.StringVar(&o.dir, "dir", defaultDir(), "directory for the data; on the disk that is to be measured")
	f.StringVar(&o.memoryd, "memoryd", beside("memoryd"), "program of memoryd")
	f.StringVar(&o.etcd, "etcd", beside("etcd"), "program of etcd")
	f.StringVar(&o.node, "tool", filepath.Join("cmd", "bench", "node"),
		"directory in which npm ci installed the tool of the TypeScript SDK")
	f.StringVar(&o.from, "from", "", "report what an earlier run wrote with --json, and measure nothing")
	f.StringVar(&o.json, "json", "", "file to write the whole result to")
	f.StringVar(&o.svg, "svg", "", "file to draw the ratios to")
	f.StringVar(&o.markdown, "markdown", "", "file with the markers "+report.BeginMarker+" and "+report.EndMarker+
		", to write the tables between")
	root.AddCommand(newReferenceCommand())
	root.CompletionOptions.DisableDefaultCmd = true
	return root
}

// beside returns the path of a program next to this one.
func beside(name string) string {
	self, err := os.Executable()
	if err != nil {
		return name
	}
	return filepath.Join(filepath.Dir(self), name)
}

// defaultDir is a directory that is on a disk, which os.TempDir is often not.
func defaultDir() string {
	const onDisk = "/var/tmp"
	if info, err := os.Stat(onDisk); err == nil && info.IsDir() {
		return onDisk
	}
	return os.TempDir()
}

func (o *options) run(cmd *cobra.Command) error {
	if o.quick && !cmd.Flags().Changed("slice-duration") {
		o.slice = quickSlice
	}
	if o.slices < minSlices {
		return fmt.Errorf("--slices is %d: it must be %d or more", o.slices, minSlices)
	}
	if o.slice <= 0 {
		return fmt.Errorf("--slice-duration is %s: it must be longer than 0s", o.slice)
	}
	only, err := regexp.Compile(o.only)
	if err != nil {
		return fmt.Errorf("--only: %w", err)
	}
	var r *report.Report
	if o.from != "" {
		r, err = report.Read(o.from)
	} else {
		r, err = measure(cmd.Context(), o, only, cmd.ErrOrStderr())
	}
	if r != nil { // What was measured before something failed is worth something.
		r.Checks = checks(r)
		err = errors.Join(err, o.write(r, cmd.OutOrStdout()))
	}
	return err
}

// write writes the report to all that the flags name.
func (o *options) write(r *report.Report, stdout io.Writer) error {
	if err := r.Text(stdout); err != nil {
		return err
	}
	for _, out := range []struct {
		file  string
		write func(file string) error
	}{{o.json, r.WriteJSON}, {o.svg, r.WriteSVG}, {o.markdown, r.WriteMarkdown}} {
		if out.file == "" {
			continue
		}
		if err := out.write(out.file); err != nil {
			return err
		}
	}
	return nil
}

func (o *options) settings() trial.Settings {
	return trial.Settings{Slices: o.slices, Slice: o.slice, Seed: o.seed}
}
