package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	memoryv1 "github.com/seed-7f2870e1/memoryd/gen/memoryd/v1"
)

// echo answers Execute with the size of the input, and with the whole of it where it is short.
func echo(_ context.Context, req proto.Message) (proto.Message, error) {
	input := req.(*memoryv1.ExecuteRequest).GetInput()
	return &memoryv1.ExecuteResponse{Result: text(fmt.Sprintf("%d %.60s", len(input), input))}, nil
}

func TestTool(t *testing.T) {
	long := `{"command":"create","path":"/memories/a","file_text":"` + strings.Repeat("x", 5<<20) + `"}`
	deep := `{"type":"tool_use","id":"toolu_1","input":` + strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000) + `}`
	ok := func(id, text string) string {
		return `{"type":"tool_result","tool_use_id":"` + id + `","content":"` + text + `","is_error":false}` + "\n"
	}
	noID := `{"type":"tool_result","tool_use_id":"",` +
		`"content":"Error: The tool_use block has no id","is_error":true}` + "\n"

	tests := []struct{ name, stdin, want string }{
		{"nothing", "", ""},
		{"blank lines", "\n \t\r\n\n", ""},
		{"bare input", `{"command":"view"}` + "\n", ok("", `18 {\"command\":\"view\"}`)},
		{"no newline at the end", `{"command":"view"}`, ok("", `18 {\"command\":\"view\"}`)},
		{"CRLF and blanks", "  {} \r\n", ok("", "2 {}")},
		{
			"block", `{"type":"tool_use","id":"toolu_1","name":"memory","input":{"command":"view"}}` + "\n",
			ok("toolu_1", `18 {\"command\":\"view\"}`),
		},
		{"block, other order of keys", `{"input":{},"id":"toolu_1","type":"tool_use"}` + "\n", ok("toolu_1", "2 {}")},
		{"type that is escaped", `{"type":"tool\u005fuse","id":"toolu_1","input":{}}` + "\n", ok("toolu_1", "2 {}")},
		{"block without id", `{"type":"tool_use","input":{}}` + "\n", noID},
		{"block with a number as id", `{"type":"tool_use","id":7,"input":{}}` + "\n", noID},
		{"deep block", deep + "\n", ok("toolu_1", "40000 "+strings.Repeat("[", 60))},
		{"Type is no type", `{"Type":"tool_use"}` + "\n", ok("", `19 {\"Type\":\"tool_use\"}`)},
		{"not JSON", "view /memories\n", ok("", "14 view /memories")}, // the service says what it thinks of it
		{"not an object", "5\n", ok("", "1 5")},
		{"half a block", `{"type":"tool_use","id":` + "\n", ok("", `24 {\"type\":\"tool_use\",\"id\":`)},
		{"order", "{}\n\n[1]\n{}x\n", ok("", "2 {}") + ok("", "3 [1]") + ok("", "3 {}x")},
		{
			"long line", long + "\n{}\n",
			ok("", fmt.Sprintf("%d %s", len(long), strings.ReplaceAll(long[:60], `"`, `\"`))) + ok("", "2 {}"),
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := startService(t)
			s.unary = echo
			got, want := s.run(t, test.stdin, "tool"), outcome{exitOK, test.want, ""}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestTool_Request(t *testing.T) {
	s := startService(t)
	s.unary = echo
	got := s.run(t, "{}\n", "tool", "-n", "acme/user-42", "--session", "run-7")
	if got.Status != exitOK {
		t.Errorf("got %+v, want status %d", got, exitOK)
	}
	want := []proto.Message{&memoryv1.ExecuteRequest{Namespace: "acme/user-42", Session: "run-7", Input: "{}"}}
	if diff := cmp.Diff(want, s.requests(), protocmp.Transform()); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

// A block that comes again, in another run, has the same id, and the id of another run is another.
func TestTool_RequestID(t *testing.T) {
	s := startService(t)
	var ids []string
	s.unary = func(_ context.Context, req proto.Message) (proto.Message, error) {
		ids = append(ids, req.(*memoryv1.ExecuteRequest).GetRequestId())
		return &memoryv1.ExecuteResponse{Result: text("x")}, nil
	}
	block := `{"type":"tool_use","id":"toolu_1","input":{}}` + "\n"
	for _, args := range [][]string{
		{"tool", "--session", "run-7"}, {"tool", "--session", "run-7"}, {"tool", "--session", "run-8"}, {"tool"},
	} {
		if got := s.run(t, block, args...); got.Status != exitOK {
			t.Errorf("%v: got %+v, want status %d", args, got, exitOK)
		}
	}
	if diff := cmp.Diff([]string{"run-7/toolu_1", "run-7/toolu_1", "run-8/toolu_1", "toolu_1"}, ids); diff != "" {
		t.Errorf("request ids (-want +got):\n%s", diff)
	}
}

func TestTool_GuardStaleEdits(t *testing.T) {
	for _, test := range []struct {
		args []string
		want []string
	}{{[]string{"tool"}, []string{"", ""}}, {[]string{"tool", "--guard-stale-edits"}, []string{"", "abc"}}} {
		s := startService(t)
		var sums []string
		s.unary = func(_ context.Context, req proto.Message) (proto.Message, error) {
			sums = append(sums, req.(*memoryv1.ExecuteRequest).GetIfSha256())
			return &memoryv1.ExecuteResponse{Result: text("x"), Entry: &memoryv1.Entry{
				Path: "/memories/a", Kind: memoryv1.EntryKind_ENTRY_KIND_FILE, Sha256: "abc",
			}}, nil
		}
		lines := `{"command":"view","path":"/memories/a"}` + "\n" + `{"command":"delete","path":"/memories/a"}` + "\n"
		s.run(t, lines, test.args...)
		if diff := cmp.Diff(test.want, sums); diff != "" {
			t.Errorf("%v: if_sha256 (-want +got):\n%s", test.args, diff)
		}
	}
}

// An error is a result like any other, whoever made it.
func TestTool_Errors(t *testing.T) {
	s := startService(t)
	answers := []struct {
		result *memoryv1.ToolResult
		err    error
	}{
		{result: errorText(memoryv1.Reason_REASON_UNKNOWN_COMMAND, "Error: Unknown command: x")},
		{err: statusError(codes.Unavailable, "STORE_BUSY", "the store is busy", true)}, // is asked again
		{result: text("late")},
		{err: statusError(codes.ResourceExhausted, "STORE_FULL", "the store is full", true)},
		{result: text("fine")},
	}
	s.unary = func(context.Context, proto.Message) (proto.Message, error) {
		a := answers[0]
		answers = answers[1:]
		return &memoryv1.ExecuteResponse{Result: a.result}, a.err
	}
	want := outcome{exitOK, `{"type":"tool_result","tool_use_id":"","content":"Error: Unknown command: x","is_error":true}
{"type":"tool_result","tool_use_id":"","content":"late","is_error":false}
{"type":"tool_result","tool_use_id":"","content":"Error: The memory service has a problem. ` +
		`Nothing was changed. Try again later.","is_error":true}
{"type":"tool_result","tool_use_id":"","content":"fine","is_error":false}
`, "memoryctl: the store is full (RESOURCE_EXHAUSTED, STORE_FULL)\n"}
	if diff := cmp.Diff(want, s.run(t, "{}\n{}\n{}\n{}\n", "tool")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestTool_Unreachable(t *testing.T) {
	got := run(t, strings.NewReader("{}\n"), "--addr", "unix://"+t.TempDir()+"/none", "tool", "--timeout", "100ms")
	if !strings.HasPrefix(got.Stderr, "memoryctl: memoryd cannot be reached at unix://") {
		t.Errorf("got %q on standard error", got.Stderr)
	}
	got.Stderr = ""
	want := outcome{exitOK, `{"type":"tool_result","tool_use_id":"","content":"Error: The memory service cannot be ` +
		`reached right now. Nothing was changed. Try again later.","is_error":true}` + "\n", ""}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Every answer comes before the next line is sent.
func TestTool_Interactive(t *testing.T) {
	s := startService(t)
	s.unary = echo
	in, send := io.Pipe()
	receive, out := io.Pipe()
	status := make(chan int, 1)
	go func() {
		status <- Run(t.Context(), []string{"--addr", s.addr, "tool"}, in, out, io.Discard)
		_ = out.Close()
	}()
	answers := bufio.NewReader(receive)
	for i := range 3 {
		if _, err := fmt.Fprintf(send, "[%d]\n", i); err != nil {
			t.Fatal(err)
		}
		got, err := answers.ReadString('\n')
		want := fmt.Sprintf(`{"type":"tool_result","tool_use_id":"","content":"3 [%d]","is_error":false}`+"\n", i)
		if err != nil || got != want {
			t.Fatalf("got %q, %v, want %q", got, err, want)
		}
	}
	_ = send.Close()
	if got := <-status; got != exitOK {
		t.Errorf("got status %d, want %d", got, exitOK)
	}
}

// What was read before standard input failed is half a line, and is not executed.
func TestTool_InputFails(t *testing.T) {
	s := startService(t)
	s.unary = echo
	stdin := io.MultiReader(strings.NewReader("{}\n{}"), iotest.ErrReader(errBroken))
	got := run(t, stdin, "--addr", s.addr, "tool")
	want := outcome{
		exitOther, `{"type":"tool_result","tool_use_id":"","content":"2 {}","is_error":false}` + "\n",
		"memoryctl: read standard input: broken\n",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// process starts the program itself as a child process.
func process(t *testing.T, args ...string) (*exec.Cmd, io.WriteCloser, *bytes.Buffer) {
	t.Helper()
	executable, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), executable, args...)
	cmd.Env = append(os.Environ(), runMain+"=1")
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	return cmd, stdin, &stderr
}

func TestProcess_Signal(t *testing.T) {
	for _, signal := range []os.Signal{os.Interrupt, syscall.SIGTERM} {
		t.Run(signal.String(), func(t *testing.T) {
			s := startService(t)
			s.unary = echo
			cmd, stdin, stderr := process(t, "--addr", s.addr, "tool")
			stdout, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			// After an answer the program surely waits for signals.
			if _, err := io.WriteString(stdin, "{}\n"); err != nil {
				t.Fatal(err)
			}
			if _, err := bufio.NewReader(stdout).ReadString('\n'); err != nil {
				t.Fatal(err)
			}
			if err := cmd.Process.Signal(signal); err != nil {
				t.Fatal(err)
			}
			_ = cmd.Wait() // the status is below
			if got := cmd.ProcessState.ExitCode(); got != exitOther {
				t.Errorf("got status %d, want %d", got, exitOther)
			}
			if got, want := stderr.String(), "memoryctl: interrupted\n"; got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
}

func TestProcess_OutputClosed(t *testing.T) {
	s := startService(t)
	s.unary = echo
	cmd, stdin, stderr := process(t, "--addr", s.addr, "tool")
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout = write
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = read.Close()
	_ = write.Close()
	if _, err := io.WriteString(stdin, "{}\n"); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // the status is below
	if got := cmd.ProcessState.ExitCode(); got != exitOther {
		t.Errorf("got status %d, want %d", got, exitOther)
	}
	if got := stderr.String(); got != "" {
		t.Errorf("got %q, want nothing", got)
	}
}
