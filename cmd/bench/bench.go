package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/seed-7f2870e1/memoryd/cmd/bench/internal/report"
	"github.com/seed-7f2870e1/memoryd/cmd/bench/internal/trial"
)

// startTimeout is how long a server may take to serve.
const startTimeout = time.Minute

// group is what shares servers.
type group struct {
	name  string
	large bool // it needs a large store
	run   func(ctx context.Context, b *bench) error
}

func groups() []group {
	return []group{
		{"view", false, runView},
		{"create", false, runCreate},
		{"edit", false, runEdit},
		{"list", false, runList},
		{"tool", false, runTool},
		{"scale", true, runScale},
		{"namespaces", true, runNamespaces},
		{"idle", true, runIdle},
	}
}

func groupNames() string {
	var names []string
	for _, g := range groups() {
		name := g.name
		if g.large {
			name += " (with --scale)"
		}
		names = append(names, name)
	}
	return strings.Join(names, ", ")
}

// bench is one run of the benchmark.
type bench struct {
	options  *options
	dir      string // of this run; removed at its end
	progress io.Writer
	report   *report.Report
	closers  []func() error // of the group that runs
	started  int            // servers, so that each has a name and a directory of its own
}

// measure runs the groups that are asked for. The report has no checks yet. It has what was measured also where there
// is an error.
func measure(ctx context.Context, o *options, only *regexp.Regexp, progress io.Writer) (_ *report.Report, err error) {
	dir, err := os.MkdirTemp(o.dir, "memoryd-bench-")
	if err != nil {
		return nil, fmt.Errorf("make directory for the data: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := os.Chmod(dir, 0o755); err != nil { //nolint:gosec // PostgreSQL runs as another user.
		return nil, err
	}
	version, err := exec.CommandContext(ctx, o.memoryd, "version").Output() //nolint:gosec // what is measured
	if err != nil {
		return nil, fmt.Errorf("run %s: %w: build it with `make build`, or say where it is with --memoryd", o.memoryd, err)
	}
	b := &bench{options: o, dir: dir, progress: progress, report: &report.Report{
		Schema: report.Schema, Time: time.Now().UTC().Truncate(time.Second),
		Machine: report.Machine{
			System: runtime.GOOS + "/" + runtime.GOARCH, CPUs: runtime.NumCPU(), FileSystem: fileSystem(dir),
			Go: runtime.Version(),
		},
		Versions: map[string]string{nameMemoryd: strings.TrimSpace(strings.TrimPrefix(string(version), nameMemoryd))},
		Slices:   o.slices, SliceSeconds: o.slice.Seconds(), Seed: o.seed,
	}}
	if inMemory(b.report.Machine.FileSystem) {
		b.note("%s is in memory (%s): nothing here is durable, and writes cost nothing. Say --dir.",
			o.dir, b.report.Machine.FileSystem)
	}
	for _, g := range groups() {
		if !only.MatchString(g.name) {
			continue
		}
		if g.large && !o.scale {
			b.note("Group %s was not run: it takes --scale.", g.name)
			continue
		}
		if err := b.run(ctx, g); err != nil {
			return b.report, fmt.Errorf("group %s: %w", g.name, err)
		}
	}
	return b.report, nil
}

// run runs a group and ends its servers.
func (b *bench) run(ctx context.Context, g group) (err error) {
	defer func() { err = errors.Join(err, b.stop()) }()
	return g.run(ctx, b)
}

// stop ends the servers and connections of a group, the last first.
func (b *bench) stop() error {
	var err error
	for len(b.closers) > 0 {
		last := len(b.closers) - 1
		closer := b.closers[last]
		b.closers = b.closers[:last]
		err = errors.Join(err, closer())
	}
	return err
}

// onStop has fn called at the end of the group.
func (b *bench) onStop(fn func() error) { b.closers = append(b.closers, fn) }

// compare measures a case and adds it to the report.
func (b *bench) compare(ctx context.Context, c trial.Case) error {
	fmt.Fprintf(b.progress, "%s, %d at once: %d slices of %s for each of %d\n",
		c.Name, c.Callers, b.options.slices, b.options.slice, len(c.Subjects))
	result, err := c.Run(ctx, b.options.settings())
	if errors.Is(err, trial.ErrNotCounted) {
		b.note("%s", err)
		err = nil
	}
	if err != nil {
		return err
	}
	b.report.Cases = append(b.report.Cases, result)
	return nil
}

// note says once, now and in the report, what is not as it should be.
func (b *bench) note(format string, args ...any) {
	note := fmt.Sprintf(format, args...)
	if slices.Contains(b.report.Notes, note) {
		return
	}
	fmt.Fprintf(b.progress, "*** %s ***\n", note)
	b.report.Notes = append(b.report.Notes, note)
}

// missing notes that a peer does not take part.
func (b *bench) missing(peer string, err error) {
	b.note("%s is NOT COMPARED: %s.", peer, err)
}

// newDir makes a directory for a server of the name.
func (b *bench) newDir(name string) (unique, dir string, err error) {
	b.started++
	unique = fmt.Sprintf("%s-%d", name, b.started)
	dir = filepath.Join(b.dir, unique)
	if err := os.Mkdir(dir, 0o700); err != nil {
		return "", "", err
	}
	b.onStop(func() error { return os.RemoveAll(dir) }) // called after the server that is started next was stopped
	return unique, dir, nil
}
