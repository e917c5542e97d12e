package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/seed-7f2870e1/memoryd/client"
)

// handle executes a command that must succeed.
func handle(t *testing.T, h *client.Handler, input map[string]any) string {
	t.Helper()
	raw, err := json.Marshal(input)
	if err != nil {
		t.Fatal(err)
	}
	result := h.Handle(t.Context(), raw)
	if result.IsError {
		t.Errorf("%s: %.300s", input["command"], result.Text())
	}
	return result.Text()
}

// TestParallelEdits makes 50 edits of different lines of one file at once: all must be present.
func TestParallelEdits(t *testing.T) {
	const edits = 50
	d := start(t)
	h := d.dial(t).Handler("")
	var before, after strings.Builder
	for i := range edits {
		fmt.Fprintf(&before, "line %d: old\n", i)
		fmt.Fprintf(&after, "line %d: new\n", i)
	}
	handle(t, h, map[string]any{"command": "create", "path": "/memories/f", "file_text": before.String()})
	var wg sync.WaitGroup
	for i := range edits {
		wg.Go(func() {
			handle(t, h, map[string]any{
				"command": "str_replace", "path": "/memories/f",
				"old_str": fmt.Sprintf("line %d: old\n", i), "new_str": fmt.Sprintf("line %d: new\n", i),
			})
		})
	}
	wg.Wait()
	if got := d.ctl(t, nil, "get", "/memories/f").stdout; got != after.String() {
		t.Errorf("got\n%s", got)
	}
}

// TestParallelProcesses lets 20 processes insert 100 lines each at the top of one file.
func TestParallelProcesses(t *testing.T) {
	const processes, inserts = 20, 100
	d := start(t)
	handle(t, d.dial(t).Handler(""), map[string]any{"command": "create", "path": "/memories/f", "file_text": ""})
	var wg sync.WaitGroup
	for process := range processes {
		var calls strings.Builder
		for i := range inserts {
			fmt.Fprintf(&calls, `{"command":"insert","path":"/memories/f","insert_line":0,"insert_text":"%d-%d"}`+"\n", process, i)
		}
		wg.Go(func() {
			out, err := d.tryCtl(t.Context(), strings.NewReader(calls.String()), "tool")
			if err != nil || out.status != 0 || strings.Count(out.stdout, `"is_error":false`) != inserts {
				t.Errorf("process %d: %v %d %s\n%.500s", process, err, out.status, out.stderr, out.stdout)
			}
		})
	}
	wg.Wait()
	got := strings.Split(strings.TrimSuffix(d.ctl(t, nil, "get", "/memories/f").stdout, "\n"), "\n")
	lines := map[string]bool{}
	for _, line := range got {
		lines[line] = true
	}
	if len(got) != processes*inserts || len(lines) != processes*inserts {
		t.Errorf("%d lines, %d different; want %d", len(got), len(lines), processes*inserts)
	}
}

// TestViewWhileEdited views a file that is changed all the time: every view must show one state of it.
func TestViewWhileEdited(t *testing.T) {
	d := start(t)
	h := d.dial(t).Handler("")
	text := func(word string) string { return strings.Repeat(word+"\n", 20_000) }
	put := func(word string) {
		if out := d.ctl(t, strings.NewReader(text(word)), "put", "/memories/f"); out.status != 0 {
			t.Error(out.stderr)
		}
	}
	put("one")
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 10 {
			put("two")
			put("one")
		}
	}()
	views := 0
	for ended := false; !ended; views++ {
		select {
		case <-done:
			ended = true
		default:
		}
		// The last line that is shown must be like the first.
		got := handle(t, h, map[string]any{"command": "view", "path": "/memories/f", "view_range": []int{18_000, 20_000}})
		if strings.Contains(got, "\tone") == strings.Contains(got, "\ttwo") {
			t.Fatalf("a mix: %.200s", got)
		}
	}
	if views < 2 {
		t.Errorf("only %d views", views)
	}
}

// TestLargeInputs checks inputs at and beyond what memories may hold.
func TestLargeInputs(t *testing.T) {
	d := start(t)
	if out := d.ctl(t, nil, "namespace", "set", "default", "--view-max-chars=0", "--max-file-bytes=8388608"); out.status != 0 {
		t.Fatal(out.stderr)
	}
	tool := startTool(t, d, "default")
	call := func(input string) (text string, isError bool) {
		t.Helper()
		result, err := tool.Execute(t.Context(), json.RawMessage(input))
		if err != nil {
			t.Fatal(err)
		}
		return result.Text, result.IsError
	}
	create := func(path, fileText string) {
		t.Helper()
		input, _ := json.Marshal(map[string]string{"command": "create", "path": path, "file_text": fileText})
		if text, isError := call(string(input)); isError {
			t.Fatalf("create %s: %.300s", path, text)
		}
	}
	for name, content := range map[string]string{
		"one-line":      strings.Repeat("x", 1<<20),
		"controls":      strings.Repeat("\x01\x00\x1f\x7f", 1<<18),
		"no-characters": strings.Repeat("\n", 999_998),
	} {
		create("/memories/"+name, content)
		if got := d.ctl(t, nil, "get", "/memories/"+name).stdout; got != content {
			t.Errorf("%s: read %d bytes, which differ", name, len(got))
		}
		text, isError := call(`{"command":"view","path":"/memories/` + name + `"}`)
		if lines := strings.Count(content, "\n") + 1; isError || strings.Count(text, "\n") != lines {
			t.Errorf("%s: view shows %d lines, want %d: %.300s", name, strings.Count(text, "\n"), lines, text)
		}
	}
	if text, isError := call(`{"command":"view","path":"/memories/` + strings.Repeat("x", 10<<20) + `"}`); !isError ||
		!strings.HasPrefix(text, "Error: Path is too long") {
		t.Errorf("a path of 10 MB: %.300s", text)
	}
	if text, isError := call(`{"command":"view","path":"/memories","x":` + strings.Repeat("[", 9_990) +
		strings.Repeat("]", 9_990) + `}`); isError {
		t.Errorf("a field 9,990 levels deep: %.300s", text)
	}
	if text, isError := call(`{"command":"view","path":"/memories/\u0000"}`); !isError ||
		text != `Error: Path contains invalid characters: "/memories/\x00"` {
		t.Errorf("NUL: %.300s", text)
	}
}

// TestToolLines checks what `memoryctl tool` answers to lines that are no tool calls.
func TestToolLines(t *testing.T) {
	d := start(t)
	const malformed = `{"type":"tool_result","tool_use_id":"","content":"Error: The input must be a JSON object with a command: ` +
		`view, create, str_replace, insert, delete or rename","is_error":true}` + "\n"
	for name, line := range map[string]string{
		"not JSON":  "hello",
		"NUL":       "{\"command\":\x00}",
		"number":    "7",
		"too deep":  strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000),
		"not UTF-8": "\xff\xfe",
	} {
		if out := d.ctl(t, strings.NewReader(line), "tool"); out.status != 0 || out.stdout != malformed {
			t.Errorf("%s: %d %q %s", name, out.status, out.stdout, out.stderr)
		}
	}
}

// TestDeadService checks that a service that is not there is told apart from an empty memory.
func TestDeadService(t *testing.T) {
	d := start(t)
	d.stop(t)
	out := d.ctl(t, strings.NewReader(`{"command":"view","path":"/memories"}`+"\n"), "tool")
	const want = `{"type":"tool_result","tool_use_id":"","content":"Error: The memory service cannot be reached right now. ` +
		`Nothing was changed. Try again later.","is_error":true}` + "\n"
	if out.status != 0 || out.stdout != want {
		t.Errorf("tool: %d %s %s", out.status, out.stdout, out.stderr)
	}
	if out := d.ctl(t, nil, "view", "/memories"); out.status != 3 || !strings.Contains(out.stderr, d.target) {
		t.Errorf("view: %d %s", out.status, out.stderr)
	}
	d.serve(t)
}

// TestViewCreatesNothing checks that a namespace that was only viewed is not there.
func TestViewCreatesNothing(t *testing.T) {
	d := start(t)
	out := d.ctl(t, nil, "view", "/memories", "--namespace", "never/written")
	want := "Here're the files and directories up to 2 levels deep in /memories, excluding hidden items and node_modules:\n" +
		"0B\t/memories\n"
	if out.stdout != want || out.status != 0 {
		t.Errorf("%d %q %s", out.status, out.stdout, out.stderr)
	}
	if out := d.ctl(t, nil, "namespace", "list", "-o", "json"); strings.Contains(out.stdout, "never") {
		t.Error(out.stdout)
	}
}

// TestBytes puts in and gets out bytes that are no text.
func TestBytes(t *testing.T) {
	d := start(t)
	data := make([]byte, 1<<20)
	for i := range data {
		data[i] = byte(i * i >> 3)
	}
	if out := d.ctl(t, bytes.NewReader(data), "put", "/memories/blob"); out.status != 0 {
		t.Fatal(out.stderr)
	}
	if out := d.ctl(t, nil, "get", "/memories/blob"); out.stdout != string(data) {
		t.Errorf("%d bytes, which differ", len(out.stdout))
	}
	out := d.ctl(t, nil, "view", "/memories/blob")
	if out.status != 1 || !strings.Contains(out.stderr, "Error: The file /memories/blob is not valid UTF-8 text") {
		t.Errorf("view: %d %s %s", out.status, out.stdout, out.stderr)
	}
}

// TestRepeatedToolUse answers the same tool_use block in two processes, as after a crash of an agent.
func TestRepeatedToolUse(t *testing.T) {
	d := start(t)
	handle(t, d.dial(t).Handler(""), map[string]any{"command": "create", "path": "/memories/f", "file_text": ""})
	const block = `{"type":"tool_use","id":"toolu_1","name":"memory","input":` +
		`{"command":"insert","path":"/memories/f","insert_line":0,"insert_text":"once"}}` + "\n"
	first := d.ctl(t, strings.NewReader(block+block), "tool", "--session", "run-1")
	again := d.ctl(t, strings.NewReader(block), "tool", "--session", "run-1")
	if first.status != 0 || first.stdout != again.stdout+again.stdout {
		t.Errorf("got %q, and again %q", first.stdout, again.stdout)
	}
	if got := d.ctl(t, nil, "get", "/memories/f").stdout; got != "once\n" {
		t.Errorf("the file is %q", got)
	}
	// In another run of the agent it is another call.
	d.ctl(t, strings.NewReader(block), "tool", "--session", "run-2")
	if got := d.ctl(t, nil, "get", "/memories/f").stdout; got != "once\nonce\n" {
		t.Errorf("after another session the file is %q", got)
	}
	// The id of the first run for something else.
	other := strings.Replace(block, "once", "twice", 1)
	out := d.ctl(t, strings.NewReader(other), "tool", "--session", "run-1")
	if !strings.Contains(out.stdout, "Error: This tool call id was already used for a different command") {
		t.Errorf("got %s", out.stdout)
	}
}
