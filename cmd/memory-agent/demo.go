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
	"github.com/seed-7f2870e1/memoryd/client/agentkit"
	memoryv1 "github.com/seed-7f2870e1/memoryd/gen/memoryd/v1"
)

const (
	demoNamespace = "demo"
	// demoHold is the change of the second session after which it is killed: the first notes about an item.
	demoHold = 1
	// demoRestart is the turn of the third session at which memoryd is killed and started again.
	demoRestart = 4
	// demoTicked begins the line about the change that marks an item complete.
	demoTicked = "  " + toolMemory + " str_replace " + agentkit.FeaturesPath
)

// demoShown are the files that are shown at the end.
var demoShown = []string{agentkit.FeaturesPath, agentkit.ProgressPath, reportPath}

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
	d.saySurvived()
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
		func(line string, agent *os.Process) (bool, error) {
			if line != holdLine {
				return true, nil
			}
			err := agent.Kill()
			killed = err == nil
			return true, err
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
		"When its prompt has more than 4,000 tokens, old results of the document tools\n" +
		"are cleared from it: what matters of them is in the memory by then. What the\n" +
		"memory tool answered and what the model wrote is not cleared, so the prompt\n" +
		"still grows.")
	r := &recovery{demo: d}
	defer r.end()
	return d.session(ctx, []string{"--session", "session-3", "--trigger", "4000", "--clear-at-least", "0"}, r.line)
}

// recovery watches the third session. Once that has finished what the second had begun, only its last turn is shown.
type recovery struct {
	demo   *demo
	turns  int
	done   bool            // with what the second session had begun
	hidden int             // turns
	last   strings.Builder // the latest of them
}

func (r *recovery) line(line string, _ *os.Process) (show bool, err error) {
	isTurn := strings.HasPrefix(line, turnPrefix)
	if isTurn {
		r.turns++
		if r.turns == demoRestart {
			fmt.Fprintf(r.demo.out, "%s\n  (memoryd is killed here, and started again)\n", line)
			r.demo.server.kill()
			return false, r.demo.startMemoryd()
		}
		if r.done {
			r.hidden++
			r.last.Reset()
		}
	}
	r.done = r.done || strings.HasPrefix(line, demoTicked)
	if r.hidden > 0 {
		fmt.Fprintln(&r.last, line)
	}
	return r.hidden == 0, nil
}

// end shows what was not shown.
func (r *recovery) end() {
	if r.hidden > 1 {
		fmt.Fprintf(r.demo.out, "  (%d turns like these are not shown: the items that were left, and the report)\n",
			r.hidden-1)
	}
	fmt.Fprint(r.demo.out, r.last.String())
}

// watcher is told every line that an agent prints, and tells whether to show it. Its error ends the agent.
type watcher func(line string, agent *os.Process) (show bool, err error)

// session runs an agent until it ends, and prints what it prints. watch may be nil.
func (d *demo) session(ctx context.Context, args []string, watch watcher) error {
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
		show := true
		if watch != nil && watchErr == nil && line != "" {
			if show, watchErr = watch(strings.TrimSuffix(line, "\n"), agent.Process); watchErr != nil {
				cancel()
			}
		}
		if show {
			fmt.Fprint(d.out, line)
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

// showMemory prints the directory as the model sees it, and the files that tell most.
func (d *demo) showMemory(ctx context.Context, m *client.Client) error {
	listing, err := m.View(ctx, &memoryv1.ViewRequest{Namespace: demoNamespace, Path: "/memories"})
	if err != nil {
		return fmt.Errorf("view memory: %w", err)
	}
	fmt.Fprintf(d.out, "%s\n", listing.GetResult().GetContent()[0].GetText())
	for _, path := range demoShown {
		fmt.Fprintf(d.out, "\n--- %s\n", path)
		file, err := m.Get(ctx, &memoryv1.GetRequest{Namespace: demoNamespace, Path: path}, d.out)
		switch {
		case err != nil:
			return fmt.Errorf("get file: %w", err)
		case file.GetResult().GetIsError():
			return fmt.Errorf("there is no %s", path)
		}
	}
	return nil
}

// saySurvived says what the story was about.
func (d *demo) saySurvived() {
	d.say("What survived what")
	fmt.Fprint(d.out, `  The notes of session 2 survived kill -9 of the agent: session 3 went on with them.
  The memory survived kill -9 of memoryd: a change that was answered is on disk.
  What was read survived being cleared from the prompt: it had been noted at once.
`)
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
    %s run -n NAME --docs DIR --question TEXT
  Interrupt it with Ctrl-C and start it again: it carries on.

  How it is made: cmd/memory-agent/agent.go.
`, d.memoryd, d.self)
}

// say prints a part of the story.
func (d *demo) say(format string, args ...any) {
	fmt.Fprintf(d.out, "\n=== "+strings.ReplaceAll(format, "\n", "\n    ")+"\n", args...)
}
