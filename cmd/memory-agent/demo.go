package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed-7f2870e1/memoryd/client"
	memoryv1 "github.com/seed-7f2870e1/memoryd/gen/memoryd/v1"
)

const (
	demoNamespace = "demo"
	// demoHold is the change of the second session after which it is killed: the first notes about an item.
	demoHold = 1
	// demoRestart is the turn of the third session at which memoryd is killed and started again.
	demoRestart = 4
)

func (c *cli) demoCommand() *cobra.Command {
	d := &demo{out: c.stdout}
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Show an agent that is killed in the middle of its work and carries on from memory",
		Long: `Demo starts a memoryd with an empty store in a temporary directory, and runs
three sessions of an agent on it. The second is killed (kill -9) in the middle
of its work, and so is memoryd during the third. The third session finds out
from the memory what was done, carries on and finishes. Then the memory is
shown.

It needs no network and no key: a few rules answer in the place of Claude. All
that it starts ends with it.`,
		Example: `  memory-agent demo
  memory-agent demo --keep-data        leave the store, to look at it with memoryctl`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return d.run(cmd.Context()) },
	}
	cmd.Flags().StringVar(&d.memoryd, "memoryd", "",
		"`PATH` of the memoryd to start (default: next to memory-agent, else the one in PATH)")
	cmd.Flags().BoolVar(&d.keepData, "keep-data", false, "leave the data directory of memoryd")
	return cmd
}

// demo is one run of `memory-agent demo`.
type demo struct {
	out      io.Writer
	memoryd  string // the path of the program
	keepData bool

	self   string // the path of this program
	dir    string // where all that it makes is
	target string // of memoryd
	server *sidecar
}

func (d *demo) run(ctx context.Context) (err error) {
	if d.self, err = os.Executable(); err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	if d.memoryd, err = findMemoryd(d.memoryd, d.self); err != nil {
		return err
	}
	if d.dir, err = os.MkdirTemp("", "memory-agent"); err != nil {
		return fmt.Errorf("make temporary directory: %w", err)
	}
	d.target = "unix://" + filepath.Join(d.dir, "memoryd.sock")
	defer func() { err = cmp.Or(err, d.cleanUp()) }()

	d.say("memoryd keeps the memory of agents. Here it starts with an empty store, %s.", d.data())
	if err := d.startMemoryd(); err != nil {
		return err
	}
	m, err := client.Dial(d.target)
	if err != nil {
		return err
	}
	defer func() { _ = m.Close() }() // nothing is under way any more
	if err := d.server.await(ctx, m); err != nil {
		return err
	}
	if err := d.sessions(ctx); err != nil {
		return err
	}
	d.say("The memory, as the agent has left it:")
	if err := d.showMemory(ctx, m); err != nil {
		return err
	}
	d.sayNext()
	return nil
}

// data is the data directory of memoryd.
func (d *demo) data() string { return filepath.Join(d.dir, "data") }

func (d *demo) startMemoryd() (err error) {
	d.server, err = startSidecar(d.memoryd, d.target, d.data())
	return err
}

// cleanUp stops memoryd and removes what was made.
func (d *demo) cleanUp() error {
	if d.server != nil {
		d.server.stop()
	}
	if d.keepData {
		return nil
	}
	if err := os.RemoveAll(d.dir); err != nil {
		return fmt.Errorf("remove temporary directory: %w", err)
	}
	return nil
}

// sessions tells the story.
func (d *demo) sessions(ctx context.Context) error {
	d.say("Session 1 lays down the memory: a checklist, a progress log and how to start.\n" +
		"Then it works on the first item of the checklist, and ends as it should.")
	err := d.session(ctx, []string{"--session", "session-1", "--limit", "1"}, nil)
	if err != nil {
		return err
	}

	d.say("Session 2 goes on with the next item of the checklist.\n" +
		"It is killed (kill -9) right after it has written its first notes.")
	killed := false
	err = d.session(ctx, []string{"--session", "session-2", "--hold-after-change", strconv.Itoa(demoHold)},
		func(line string, agent *os.Process) error {
			if line != holdLine {
				return nil
			}
			err := agent.Kill()
			killed = err == nil
			return err
		})
	switch {
	case !killed && err == nil:
		return errors.New("session 2 ended before it could be killed")
	case !killed:
		return err
	}
	fmt.Fprintln(d.out, "  killed")

	d.say("Session 3 is a new process and knows nothing but the memory. It finds out that\n" +
		"session 2 was cut off, and carries on from there. In the middle of it memoryd is\n" +
		"killed too, and started again: the agent waits for a moment and loses nothing.\n" +
		"Old results of its tools are cleared from its prompt when that has 4,000 tokens;\n" +
		"what matters of them is in the memory by then.")
	turns := 0
	return d.session(ctx, []string{"--session", "session-3", "--trigger", "4000"}, func(line string, _ *os.Process) error {
		if !strings.HasPrefix(line, turnPrefix) {
			return nil
		}
		if turns++; turns != demoRestart {
			return nil
		}
		fmt.Fprintln(d.out, "  (memoryd is killed here, and started again)")
		d.server.kill()
		return d.startMemoryd()
	})
}

// session runs an agent until it ends, and prints what it prints. watch, which may be nil, is told every line; its
// error ends the agent.
func (d *demo) session(ctx context.Context, args []string, watch func(line string, agent *os.Process) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	args = append([]string{"run", "--offline", "--addr", d.target, "--namespace", demoNamespace}, args...)
	agent := exec.CommandContext(ctx, d.self, args...) //nolint:gosec // this program itself
	agent.Env = plainEnvironment()
	stdout, err := agent.StdoutPipe()
	if err != nil {
		return fmt.Errorf("run agent: %w", err)
	}
	agent.Stderr = agent.Stdout
	if err := agent.Start(); err != nil {
		return fmt.Errorf("run agent: %w", err)
	}
	var watchErr error
	lines := bufio.NewReader(stdout)
	for err == nil { // until it has ended
		var line string
		line, err = lines.ReadString('\n')
		fmt.Fprint(d.out, line)
		if watch != nil && watchErr == nil {
			if watchErr = watch(strings.TrimSuffix(line, "\n"), agent.Process); watchErr != nil {
				cancel()
			}
		}
	}
	err = agent.Wait()
	switch {
	case watchErr != nil:
		return watchErr
	case err != nil:
		return fmt.Errorf("the agent ended: %w", err)
	}
	return nil
}

// showMemory prints the directory as the model sees it, and all files in it.
func (d *demo) showMemory(ctx context.Context, m *client.Client) error {
	listing, err := m.View(ctx, &memoryv1.ViewRequest{Namespace: demoNamespace, Path: "/memories"})
	if err != nil {
		return fmt.Errorf("view memory: %w", err)
	}
	fmt.Fprintf(d.out, "%s\n", listing.GetResult().GetContent()[0].GetText())
	reported := false
	for _, e := range listing.GetEntries() {
		if e.GetKind() != memoryv1.EntryKind_ENTRY_KIND_FILE {
			continue
		}
		reported = reported || e.GetPath() == reportPath
		fmt.Fprintf(d.out, "\n--- %s\n", e.GetPath())
		if _, err := m.Get(ctx, &memoryv1.GetRequest{Namespace: demoNamespace, Path: e.GetPath()}, d.out); err != nil {
			return fmt.Errorf("get file: %w", err)
		}
	}
	if !reported {
		return errors.New("there is no report")
	}
	return nil
}

func (d *demo) sayNext() {
	d.say("What to try next")
	if d.keepData {
		fmt.Fprintf(d.out, `  The store is still there. Serve it, and look around:
    %s --data %s
    memoryctl --namespace %s tree

`, d.memoryd, d.data(), demoNamespace)
	}
	fmt.Fprintf(d.out, `  The same with Claude, on documents of your own. In one terminal:
    %s
  In another:
    export ANTHROPIC_API_KEY=...
    %s run --docs DIR --question TEXT
  Interrupt it with Ctrl-C and start it again: it carries on.

  How it is made: cmd/memory-agent/agent.go.
`, d.memoryd, d.self)
}

// say prints a part of the story.
func (d *demo) say(format string, args ...any) {
	fmt.Fprintf(d.out, "\n=== "+strings.ReplaceAll(format, "\n", "\n    ")+"\n", args...)
}
