package e2e

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// demo is a `memory-agent demo` that runs.
type demo struct {
	cmd    *exec.Cmd
	tmp    string // where it makes all its files
	stdout *bufio.Reader
	stderr bytes.Buffer
	alive  *os.File // has an end when all processes that come from the demo are gone
}

// startDemo starts a demo, in a process group of its own.
func startDemo(t *testing.T, args ...string) *demo {
	t.Helper()
	alive, inherited, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = alive.Close() })
	d := &demo{tmp: socketDir(t), alive: alive}
	d.cmd = exec.CommandContext(t.Context(), binary("memory-agent"), append([]string{"demo"}, args...)...)
	d.cmd.Env = append(os.Environ(), "TMPDIR="+d.tmp, "ANTHROPIC_API_KEY=not-to-be-used", "MEMORYD_LISTEN=127.0.0.1:1")
	d.cmd.ExtraFiles = []*os.File{inherited} // and so its children have it too
	d.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	d.cmd.Stderr = &d.stderr
	stdout, err := d.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	d.stdout = bufio.NewReader(stdout)
	if err := d.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if err := inherited.Close(); err != nil {
		t.Fatal(err)
	}
	return d
}

// wait returns the rest of the output and the exit status.
func (d *demo) wait(t *testing.T) (stdout string, status int) {
	t.Helper()
	rest, err := io.ReadAll(d.stdout)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.cmd.Wait(); err != nil && !errors.As(err, new(*exec.ExitError)) {
		t.Fatal(err)
	}
	return string(rest), d.cmd.ProcessState.ExitCode()
}

// checkNothingLeft checks that the demo has left no process, and no files but those.
func (d *demo) checkNothingLeft(t *testing.T, files ...string) {
	t.Helper()
	if err := d.alive.SetReadDeadline(time.Now().Add(5 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := d.alive.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("a process was left: %v", err)
	}
	entries, err := os.ReadDir(d.tmp)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range entries {
		got = append(got, e.Name())
	}
	if fmt.Sprint(got) != fmt.Sprint(files) {
		t.Errorf("got files %q, want %q", got, files)
	}
}

func TestDemo(t *testing.T) {
	d := startDemo(t)
	out, status := d.wait(t)
	if status != 0 || d.stderr.Len() > 0 {
		t.Fatalf("got status %d, %s%s", status, out, d.stderr.String())
	}
	rest := out
	for _, want := range []string{
		"=== memoryd keeps the memory of agents.",
		"=== Session 1 lays down the memory",
		"new: a checklist and a progress log were laid down",
		"  I look at my memory first.",
		"That is all for this session.",
		"=== Session 2 goes on",
		"with what earlier sessions left",
		"(stopped here: memoryd has made the change, the agent has not seen the answer)",
		"  killed",
		"=== Session 3 is a new process",
		"Session session-2 was cut off. I carry on from what it left.",
		"(memoryd is killed here, and started again)",
		"I have notes about the next item already",
		"(20 turns like these are not shown: the items that were left, and the report)\nturn 30 · ",
		" cleared, ",
		"  Every item of the checklist is done.",
		"The light on Gull Rock was dark from 23:30 on 21 November",
		"Three lights had nights below 4 °C in their huts: Holm Skerry 31 of them, Gull Rock 27 and North Stack 22.",
		"lot 47 was built without the gasket",
		"Gull Rock and Ferry Point still carry a relay of lot 47.",
		"one spare relay of lot 52; an order of more takes six weeks",
		"=== The memory, as the agent has left it:",
		"/memories/report.md\n",
		"--- /memories/features.md",
		"--- /memories/progress.md",
		"## Session session-2: not closed",
		"--- /memories/report.md",
		"=== What survived what\n",
		"=== What to try next",
	} {
		_, after, ok := strings.Cut(rest, want)
		if !ok {
			t.Fatalf("got no %q after the landmarks before it:\n%s", want, out)
		}
		rest = after
	}
	if want := " run -n NAME --docs DIR --question TEXT\n"; !strings.Contains(rest, want) {
		t.Errorf("got %q, want %q", rest, want)
	}
	for _, unwanted := range []string{"✗", "- [ ]", "Error", "not-to-be-used"} {
		if strings.Contains(out, unwanted) {
			t.Errorf("got %q in:\n%s", unwanted, out)
		}
	}
	d.checkNothingLeft(t)
}

func TestDemo_KeepData(t *testing.T) {
	d := startDemo(t, "--keep-data")
	out, status := d.wait(t)
	if status != 0 {
		t.Fatalf("got status %d, %s%s", status, out, d.stderr.String())
	}
	_, rest, _ := strings.Cut(out, "memoryd --data ")
	data, _, ok := strings.Cut(rest, "\n")
	if !ok {
		t.Fatalf("got no data directory:\n%s", out)
	}
	if out, err := exec.Command(binary("memoryd"), "check", "--data", data).CombinedOutput(); err != nil {
		t.Errorf("memoryd check: %v\n%s", err, out)
	}
	d.checkNothingLeft(t, filepath.Base(filepath.Dir(data)))
}

// Interrupted in the middle, the demo ends what it started and removes what it made, be it that a terminal interrupts
// all processes or somebody the demo alone.
func TestDemo_Interrupted(t *testing.T) {
	for _, test := range []struct {
		name string
		kill func(pid int) error
	}{
		{"by a terminal", func(pid int) error { return syscall.Kill(-pid, syscall.SIGINT) }},
		{"by a supervisor", func(pid int) error { return syscall.Kill(pid, syscall.SIGTERM) }},
	} {
		t.Run(test.name, func(t *testing.T) {
			// The second time it is started this memoryd does not serve, so that the third session stands.
			memoryd := filepath.Join(t.TempDir(), "memoryd")
			script := fmt.Sprintf("#!/bin/sh\n[ -e $0.started ] && exec sleep 600\ntouch $0.started\nexec %s \"$@\"\n",
				binary("memoryd"))
			if err := os.WriteFile(memoryd, []byte(script), 0o700); err != nil {
				t.Fatal(err)
			}
			d := startDemo(t, "--memoryd", memoryd)
			var out strings.Builder
			for !strings.HasSuffix(out.String(), "(memoryd is killed here, and started again)\n") {
				line, err := d.stdout.ReadString('\n')
				out.WriteString(line)
				if err != nil {
					t.Fatalf("%v\n%s%s", err, out.String(), d.stderr.String())
				}
			}
			if err := test.kill(d.cmd.Process.Pid); err != nil {
				t.Fatal(err)
			}
			rest, status := d.wait(t)
			if status != 4 || d.stderr.String() != "memory-agent: interrupted\n" {
				t.Errorf("got status %d, %s%s%s", status, out.String(), rest, d.stderr.String())
			}
			d.checkNothingLeft(t)
		})
	}
}

func TestDemo_WithoutMemoryd(t *testing.T) {
	program, err := exec.LookPath("true")
	if err != nil {
		t.Skip(err)
	}
	d := startDemo(t, "--memoryd", program)
	out, status := d.wait(t)
	if status != 4 || !strings.Contains(d.stderr.String(), "ended without a word instead of serving: is it a memoryd?") {
		t.Errorf("got status %d, %s%s", status, out, d.stderr.String())
	}
	d.checkNothingLeft(t)
}
