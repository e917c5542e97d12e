package e2e

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write what memory-agent simulate prints into docs/context-editing.md")

// TestContextEditing runs every command of docs/context-editing.md, in order. The tables on the page are what
// `memory-agent simulate` prints; of commands that print nothing there, only the exit status counts.
func TestContextEditing(t *testing.T) {
	const (
		begins = "```console\n"
		ends   = "```\n"
	)
	path := filepath.Join(repository, "docs", "context-editing.md")
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	d := start(t)
	dir := t.TempDir()
	run := func(command string) string {
		cmd := exec.Command("bash", "-c", command)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "MEMORYCTL_ADDR="+d.target, "ANTHROPIC_API_KEY=", "PATH="+bin+":"+os.Getenv("PATH"))
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", command, err, out)
		}
		return string(out)
	}

	var written strings.Builder
	tables := 0
	for rest := string(content); ; {
		before, block, found := strings.Cut(rest, begins)
		written.WriteString(before)
		if !found {
			break
		}
		block, after, ended := strings.Cut(block, ends)
		if !ended {
			t.Fatalf("a block of %s does not end", path)
		}
		written.WriteString(begins)
		prints := strings.Count(block, "\n") > strings.Count("\n"+block, "\n$ ")
		for line := range strings.Lines(block) {
			command, ok := strings.CutPrefix(line, "$ ")
			if !ok {
				continue
			}
			written.WriteString(line)
			if output := run(strings.TrimSpace(command)); prints {
				written.WriteString(output)
				tables++
			}
		}
		written.WriteString(ends)
		rest = after
	}
	if tables < 2 {
		t.Errorf("%s has %d tables, want at least 2", path, tables)
	}
	if *update {
		if err := os.WriteFile(path, []byte(written.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(written.String(), string(content)); diff != "" {
		t.Errorf("docs/context-editing.md differs from what is printed; write it anew with\n"+
			"\tgo test ./cmd/e2e -run TestContextEditing -update\n(-want +got)\n%s", diff)
	}
}
