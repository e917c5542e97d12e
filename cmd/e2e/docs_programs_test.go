package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed-7f2870e1/memoryd/client/claudetest"
)

// emptyListing is what a view of a memory shows that has nothing yet.
const emptyListing = "Here're the files and directories up to 2 levels deep in /memories, excluding hidden items and " +
	"node_modules:\n0B\t/memories"

// TestDocs_Go runs the whole programs in Go of the documentation: those with Claude's SDK talk to a Claude of the test.
func TestDocs_Go(t *testing.T) {
	api := claudetest.New(t, claudetest.ModelFunc(func(_ context.Context, req *claudetest.Request) (claudetest.Turn, error) {
		switch results := req.ToolResults(); {
		case len(results) == 0:
			return claudetest.Use(claudetest.Call("memory", map[string]any{"command": "view", "path": "/memories"})), nil
		case results[0].Text == emptyListing:
			return claudetest.Say("I remember nothing yet."), nil
		default:
			return claudetest.Turn{}, fmt.Errorf("the memory is %q", results[0].Text)
		}
	}))
	d := start(t)
	withSDK, without := 0, 0
	for _, name := range documentation(t) {
		for _, program := range readPage(t, name).blocks("go") {
			want := "I remember nothing yet.\n"
			switch {
			case !strings.HasPrefix(program, "package main\n"): // an excerpt
				continue
			case strings.Contains(program, "anthropic-sdk-go"):
				withSDK++
			default:
				without++
				want = `{"type":"tool_result","tool_use_id":"toolu_1","content":"` +
					strings.NewReplacer("\n", `\n`, "\t", `\t`).Replace(emptyListing) + `","is_error":false}` + "\n"
			}
			file := filepath.Join(t.TempDir(), "main.go")
			writeFile(t, file, []byte(strings.ReplaceAll(program, docsAddress, d.target)))
			cmd := exec.Command("go", "run", file)
			cmd.Dir = repository
			cmd.Env = append(os.Environ(), "ANTHROPIC_BASE_URL="+api.URL(), "ANTHROPIC_API_KEY=claudetest")
			if out, err := cmd.CombinedOutput(); string(out) != want || err != nil {
				t.Errorf("%s: %v\n%s\nof\n%s", name, err, out, program)
			}
		}
	}
	if withSDK == 0 || without == 0 {
		t.Errorf("%d programs with the SDK and %d without, want some of both", withSDK, without)
	}
}

// TestDocs_Python runs the Python of the documentation as a part of a program.
func TestDocs_Python(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("THERE IS NO python3: the Python of the documentation is not run.")
	}
	run := 0
	for _, name := range documentation(t) {
		blocks := readPage(t, name).blocks("python")
		if len(blocks) == 0 {
			continue
		}
		run++
		d := start(t)
		program := strings.Join(blocks, "") + `
for i, command in enumerate([
    {"command": "create", "path": "/memories/f", "file_text": "é\n"},
    {"command": "view", "path": "/memories/f"},
]):
    print(handle({"type": "tool_use", "id": str(i), "name": "memory", "input": command}))
memory.stdin.close()
print(memory.wait())
`
		cmd := exec.Command(python, "-c", program)
		cmd.Env = append(os.Environ(), "MEMORYCTL_ADDR="+d.target, "PATH="+bin+":"+os.Getenv("PATH"), "PYTHONIOENCODING=utf-8")
		out, err := cmd.CombinedOutput()
		want := `{'type': 'tool_result', 'tool_use_id': '0', 'content': 'File created successfully at: /memories/f', ` +
			`'is_error': False}
{'type': 'tool_result', 'tool_use_id': '1', 'content': "Here's the content of /memories/f with line numbers:\n` +
			`     1\té\n     2\t", 'is_error': False}
0
`
		if string(out) != want || err != nil {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
	if run == 0 {
		t.Error("no page has Python")
	}
}
