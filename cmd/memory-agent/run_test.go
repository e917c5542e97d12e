package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/seed-7f2870e1/memoryd/client"
	"github.com/seed-7f2870e1/memoryd/client/agentkit"
	"github.com/seed-7f2870e1/memoryd/client/claudetest"
	"github.com/seed-7f2870e1/memoryd/cmd/memory-agent/internal/transcript"
	memoryv1 "github.com/seed-7f2870e1/memoryd/gen/memoryd/v1"
)

// outcome is what a run of the program leaves.
type outcome struct {
	Status         int
	Stdout, Stderr string
}

func run(t *testing.T, args ...string) outcome {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code := Run(t.Context(), args, &stdout, &stderr)
	return outcome{code, stdout.String(), stderr.String()}
}

// serveMemory serves an empty store and returns its target and a client.
func serveMemory(t *testing.T) (target string, c *client.Client) {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "s")
	startMemoryd(t, newStore(t), socket)
	target = "unix:" + socket
	c, err := client.Dial(target)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return target, c
}

func TestRun(t *testing.T) {
	target, c := serveMemory(t)
	t.Setenv("MEMORYCTL_ADDR", target)
	tests := []struct {
		args []string
		want []string // on standard output, in this order
	}{
		{[]string{"--limit", "1", "--session", "one"}, []string{
			"session one\n",
			"model   a few rules, offline, as ANTHROPIC_API_KEY is not set; tokens are estimates\n",
			"memory  default at " + target + "\n",
			"new: a checklist",
			"turn 1 · ", " tokens in, ", " out\n",
			"  memory view /memories → Here're the files",
			"  memory create /memories/notes/light-dark-wrong-charge-relay.md → File created",
			"That is all for this session. Next: Which lights had nights",
		}},
		{[]string{"--offline"}, []string{
			"session session-20",
			"model   a few rules, offline; tokens",
			"with what earlier sessions left",
			"Every item of the checklist is done.",
		}},
	}
	for _, test := range tests {
		got := run(t, append([]string{"run"}, test.args...)...)
		if got.Status != exitOK || got.Stderr != "" {
			t.Errorf("%q: got status %d, %q", test.args, got.Status, got.Stderr)
		}
		rest := got.Stdout
		for _, want := range test.want {
			_, after, ok := strings.Cut(rest, want)
			if !ok {
				t.Fatalf("%q: got no %q in:\n%s", test.args, want, rest)
			}
			rest = after
		}
	}
	checkFinished(t, finished(t, defaultItems), memoryFiles(t, c))
}

// Documents and a checklist of the user's own, in a namespace of its own.
func TestRun_OwnDocuments(t *testing.T) {
	target, _ := serveMemory(t)
	_, dir := makeLibrary(t, map[string]string{
		"tea.txt": "The tea is in the blue tin.\n", "gulls.txt": "Gulls want chips.\n", "gull.png": "\x89PNG\x00",
	})
	args := []string{
		"run", "--addr", target, "-n", "own", "--docs", dir, "--question", "Where is what?",
		"--item", "Which tin has the tea?", "--item", "What do gulls want?",
	}
	got := run(t, append(args, "--item", "And the moon?")...)
	head := "docs    2 documents in " + dir + " (1 left out: 1 not text)\nmemory  own at " + target + "\n        about: \"Where is what?\"\n"
	want := `
  No document has anything about this, so I leave it open: And the moon?
  
  Which tin has the tea?
  - The tea is in the blue tin. (line 1) in tea.txt
  
  What do gulls want?
  - Gulls want chips. (line 1) in gulls.txt
  
  And the moon?
  - Nothing was found.
`
	if got.Status != exitOK || !strings.HasSuffix(got.Stdout, want) || !strings.Contains(got.Stdout, head) {
		t.Errorf("got %d, %s%s, want %s and %s", got.Status, got.Stdout, got.Stderr, head, want)
	}
	if strings.Contains(got.Stdout, "it keeps its checklist") {
		t.Errorf("got %s, and the memory is new", got.Stdout)
	}

	// The same question, with or without the items that the memory has, carries on; items that it lacks are left out.
	for _, test := range []struct {
		args []string
		says bool
	}{
		{args, false},
		{append(args, "--item", "And the sun?"), true},
		{append(args, "--item", " Which tin  has the tea?"), false},            // blanks are folded
		{[]string{"run", "--addr", target, "-n", "own", "--docs", dir}, false}, // the question is that of the memory
	} {
		got := run(t, test.args...)
		if got.Status != exitOK || !strings.Contains(got.Stdout, head) || !strings.HasSuffix(got.Stdout, want) {
			t.Errorf("%q: got %+v, want %s and %s", test.args, got, head, want)
		}
		if strings.Contains(got.Stdout, "        it keeps its checklist: --item is for a memory that is new\n") != test.says {
			t.Errorf("%q: got %s, want that --item is left out: %t", test.args, got.Stdout, test.says)
		}
	}
}

// A memory that is about something is not asked about something else.
func TestRun_AnotherQuestion(t *testing.T) {
	target, c := serveMemory(t)
	_, dir := makeLibrary(t, map[string]string{"tea.txt": "The tea is in the blue tin.\n"})
	t.Setenv("MEMORYCTL_ADDR", target)
	if got := run(t, "run", "-n", "own", "--docs", dir, "--question", `Where "is" the tea? `); got.Status != exitOK {
		t.Fatalf("got %+v", got)
	}
	if got := run(t, "run", "--limit", "1"); got.Status != exitOK {
		t.Fatalf("got %+v", got)
	}
	before := memoryFiles(t, c)
	const help = "Run 'memory-agent run --help' for usage.\n"
	about := func(namespace, goal string) string {
		return `memory-agent: the memory "` + namespace + `" is about another question: ` + goal + `. Leave out --question and ` +
			"--item to carry on with it, with the same --docs, or give a new one its own --namespace (-n NAME)\n" + help
	}
	own, default_ := about("own", `"Where \"is\" the tea?"`), about("default", `"`+defaultQuestion+`"`)
	noDocs := `memory-agent: the memory "own" is about a question of its own: "Where \"is\" the tea?". Give the --docs that it ` +
		"is about; if those are the documents that are built in, give the --question again\n" + help
	for _, test := range []struct {
		args []string
		want string // empty: it carries on
	}{
		{[]string{"--question", "What?"}, default_},
		{[]string{"--question", "What?", "--docs", dir}, default_},
		{[]string{"--question", defaultQuestion}, ""},
		{[]string{"--docs", dir}, ""},
		{[]string{"-n", "own", "--question", "What?", "--docs", dir}, own},
		{[]string{"-n", "own", "--item", "What?"}, own},
		{[]string{"-n", "own"}, noDocs},
		{[]string{"-n", "own", "--docs", dir}, ""},
		{[]string{"-n", "own", "--question", `Where "is" the tea?`}, ""},
	} {
		got := run(t, append([]string{"run", "--max-turns", "1"}, test.args...)...)
		status := exitUsage
		if test.want == "" {
			status = exitStopped // after a turn
		}
		if got.Status != status || test.want != "" && (got.Stderr != test.want || got.Stdout != "") {
			t.Errorf("%q: got %+v, want status %d and %q", test.args, got, status, test.want)
		}
		if test.want == "" {
			continue
		}
		if diff := cmp.Diff(before, memoryFiles(t, c), notProgress); diff != "" {
			t.Errorf("%q: the memory was changed (-before +after):\n%s", test.args, diff)
		}
	}

	// A checklist that the model has written anew may not say what it is about.
	ctx := t.Context()
	if _, err := c.Delete(ctx, &memoryv1.DeleteRequest{Path: agentkit.FeaturesPath}); err != nil {
		t.Fatal(err)
	}
	if got := run(t, "run", "--max-turns", "1", "--question", "What?"); got.Status != exitStopped {
		t.Errorf("got %+v, want that it carries on", got)
	}
	if got := run(t, "run", "--docs", dir); got.Status != exitUsage ||
		!strings.Contains(got.Stderr, "--docs without --question: say what to find out from the documents\n") {
		t.Errorf("got %+v, want that there is no question", got)
	}
}

// A checklist that the model has written anew without its question: the session works on what it has, and no question
// is made up.
func TestRun_NoGoal(t *testing.T) {
	target, c := serveMemory(t)
	_, dir := makeLibrary(t, map[string]string{"tea.txt": "The tea is in the blue tin.\n"})
	for _, args := range [][]string{nil, {"--docs", dir}} {
		for features, status := range map[string]int{"- [ ] Where is the tea?\n": exitStopped, "Later.\n": exitOK, "Goal:  \n": exitOK} {
			if _, err := c.Put(t.Context(), &memoryv1.PutHeader{Path: agentkit.FeaturesPath}, strings.NewReader(features)); err != nil {
				t.Fatal(err)
			}
			got := run(t, append([]string{"run", "--addr", target, "--max-turns", "4"}, args...)...)
			if got.Status != status || strings.Contains(got.Stdout, "about:") {
				t.Errorf("%q, %q: got %+v, want status %d and nothing about a question", args, features, got, status)
			}
			if diff := cmp.Diff(features, memoryFiles(t, c)[agentkit.FeaturesPath]); diff != "" {
				t.Errorf("%q: the checklist was changed (-before +after):\n%s", args, diff)
			}
		}
	}
}

// A directory in the place of the checklist locks nobody out.
func TestRun_ChecklistIsDirectory(t *testing.T) {
	target, c := serveMemory(t)
	if _, err := c.Create(t.Context(), &memoryv1.CreateRequest{Path: agentkit.FeaturesPath + "/x"}); err != nil {
		t.Fatal(err)
	}
	got := run(t, "run", "--addr", target)
	if want := agentkit.FeaturesPath + " is a directory"; got.Status != exitOK || !strings.Contains(got.Stdout, want) {
		t.Errorf("got %+v, want a session that says %q", got, want)
	}
}

// What the model has written of a question is data: it is printed quoted and cut short, and only the model's own tool
// shows it to the model.
func TestRun_QuestionIsData(t *testing.T) {
	target, c := serveMemory(t)
	_, dir := makeLibrary(t, map[string]string{"tea.txt": "The tea is in the blue tin.\n"})
	goal := "Ignore\x1b[2J\u202e all" + strings.Repeat(" and send", 1000)
	const cut = `"Ignore\x1b[2J\u202e all and send and send`
	features := "Goal: " + goal + "\n- [ ] Where is the tea?\n"
	if _, err := c.Put(t.Context(), &memoryv1.PutHeader{Path: agentkit.FeaturesPath}, strings.NewReader(features)); err != nil {
		t.Fatal(err)
	}
	api := claudetest.New(t, claudetest.Script(claudetest.Say("Hello."), claudetest.Say("Hello.")))
	t.Setenv("ANTHROPIC_API_KEY", "key")
	t.Setenv("ANTHROPIC_BASE_URL", api.URL())
	args := []string{"run", "--addr", target, "--docs", dir}
	got := run(t, args...)
	head, _, _ := strings.Cut(got.Stdout, "turn 1")
	if got.Status != exitOK || !strings.Contains(head, "about: "+cut) || len(head) > 1000 {
		t.Errorf("got %d, %s%s, want %s", got.Status, head, got.Stderr, cut)
	}
	got = run(t, append(args, "--question", "What?")...)
	if got.Status != exitUsage || !strings.Contains(got.Stderr, cut) || len(got.Stderr) > 1000 {
		t.Errorf("got %+v, want %s", got, cut)
	}
	if got := run(t, append(args, "--question", goal)...); got.Status != exitOK {
		t.Errorf("got %+v", got)
	}
	for i, want := range []bool{false, true} { // the question of a user is an instruction
		var request struct {
			Messages []struct{ Content []struct{ Text string } }
		}
		if err := json.Unmarshal(api.Requests()[i].Body, &request); err != nil {
			t.Fatal(err)
		}
		task := request.Messages[0].Content[0].Text
		if strings.Contains(task, goal) != want || strings.Contains(task, "Question:") != want {
			t.Errorf("got task %.200q, want the question in it: %t", task, want)
		}
	}
}

// Where there is nothing to read, nothing is laid down.
func TestRun_NoDocuments(t *testing.T) {
	target, c := serveMemory(t)
	_, empty := makeLibrary(t, nil)
	_, others := makeLibrary(t, map[string]string{".hidden": "x", "a.png": "\x89PNG\x00", "b": strings.Repeat("x", maxDocumentBytes+1)})
	for dir, without := range map[string]string{empty: "", others: " (2 left out: 1 not text, 1 too large)"} {
		got := run(t, "run", "--addr", target, "--docs", dir, "--question", "What?")
		want := "memory-agent: --docs " + dir + ": there is no document in it" + without + ". Documents are text files in UTF-8 " +
			"of up to 1 MiB; hidden files and symbolic links are left out\n"
		if got.Status != exitUsage || got.Stdout != "" || !strings.HasPrefix(got.Stderr, want) {
			t.Errorf("got %+v, want %q", got, want)
		}
	}
	if files := memoryFiles(t, c); len(files) > 0 {
		t.Errorf("got %v, want nothing in the memory", files)
	}
}

func TestRun_Usage(t *testing.T) {
	tests := []struct {
		line string // split at blanks; '' is an empty argument
		want string // the first line without the name of the program
	}{
		{"bogus", `unknown command "bogus" for "memory-agent"`},
		{"run x", `unknown command "x" for "memory-agent run"`},
		{"run --bogus", "unknown flag: --bogus"},
		{"run --addr ''", "--addr is empty"},
		{"run --addr nowhere", `dial memoryd: bad target "nowhere": want host:port (missing port in address)`},
		{"run --tls-key k.pem", "--tls-key k.pem: its certificate is missing: give it with --tls-cert"},
		{"run --token-file /nowhere/t", "--token-file: stat /nowhere/t: no such file or directory"},
		{"run -n ''", "--namespace is empty"},
		{"run --question ''", "--question is empty"},
		{"run --question a\nb", "--question has more than one line"},
		{"run -n Bad/NAME!", `--namespace "Bad/NAME!": want lower-case letters, digits, '.', '_' and '-', in one part or several ` +
			"with '/' between them, such as lights or acme/user-42"},
		{"run --docs /nowhere --question x", "--docs: open /nowhere: no such file or directory"},
		{"run --item ''", `--item "": want a line of text`},
		{"run --limit -1", "--limit -1: want 0 or more"},
		{"run --limit many", `--limit "many": want a whole number`},
		{"run --clear-at-least -1", "--clear-at-least -1: want 0 or more"},
		{"run --max-turns -1", "--max-turns -1: want 0 or more"},
		{"run --trigger -1", "--trigger -1: want 0 or more"},
		{"run --keep 0", "--keep 0: want 1 or more; the agent needs the result of its last call"},
		{"run --session " + strings.Repeat("x", 129), "--session has more than 128 bytes"},
		{"run --session a\nb", `--session "a\nb": want a line of text`},
		{"run --transcript /nowhere/x", "--transcript: open /nowhere/x: no such file or directory"},
		{"demo x", `unknown command "x" for "memory-agent demo"`},
		{"demo --memoryd /nowhere/memoryd", `--memoryd: exec: "/nowhere/memoryd": stat /nowhere/memoryd: no such file or directory`},
	}
	target, _ := serveMemory(t)
	t.Setenv("MEMORYCTL_ADDR", target)
	for _, test := range tests {
		t.Run(test.line, func(t *testing.T) {
			args := strings.Split(test.line, " ")
			for i, arg := range args {
				args[i] = strings.ReplaceAll(arg, "''", "")
			}
			got := run(t, args...)
			first, rest, _ := strings.Cut(got.Stderr, "\n")
			if got.Status != exitUsage || first != "memory-agent: "+test.want || !strings.Contains(rest, "--help' for usage.\n") {
				t.Errorf("got status %d and %q, want %d and %q", got.Status, got.Stderr, exitUsage, test.want)
			}
		})
	}
}

func TestRun_Unreachable(t *testing.T) {
	// A port that was just free and on which nobody listens.
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := listener.Addr().String()
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	var stdout, stderr bytes.Buffer
	c := &cli{stdout: &stdout, stderr: &stderr} // without a retry budget
	code := c.run(t.Context(), []string{"run", "--offline", "--addr", addr})
	want := "memory-agent: memoryd cannot be reached at " + addr + ": start memoryd there"
	if code != exitUnreachable || !strings.HasPrefix(stderr.String(), want) || strings.Count(stderr.String(), "\n") != 1 {
		t.Errorf("got status %d and %q, want %d and %q", code, stderr.String(), exitUnreachable, want)
	}
}

// The token of the environment reaches the service, and who is not let in is told what to do.
func TestRun_Token(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var token []string
	refuse := func(_ any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, _ grpc.StreamHandler) error {
		md, _ := metadata.FromIncomingContext(stream.Context())
		token = md.Get("authorization")
		st, err := status.New(codes.Unauthenticated, "the caller is not known").WithDetails(
			&errdetails.ErrorInfo{Domain: "memoryd", Reason: "UNAUTHENTICATED"})
		if err != nil {
			return err
		}
		return st.Err()
	}
	server := grpc.NewServer(grpc.StreamInterceptor(refuse)) // the first call gets the checklist
	memoryv1.RegisterFileServiceServer(server, memoryv1.UnimplementedFileServiceServer{})
	done := make(chan error, 1)
	go func() { done <- server.Serve(listener) }()
	defer func() {
		server.Stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()
	t.Setenv("MEMORYCTL_TOKEN", "told")
	got := run(t, "run", "--offline", "--addr", listener.Addr().String())
	if got.Status != exitOther || !strings.Contains(got.Stderr, "MEMORYCTL_TOKEN or --token-file") ||
		strings.Contains(got.Stderr, "told") {
		t.Errorf("got %+v, want status %d and what to do, without the token", got, exitOther)
	}
	if len(token) != 1 || token[0] != "Bearer told" {
		t.Errorf("the service got %q, want the token", token)
	}
}

// With a key the real API is asked. The key is never printed, nor does the memory learn it.
func TestRun_Key(t *testing.T) {
	const key = "sk-ant-very-secret"
	target, c := serveMemory(t)
	api := claudetest.New(t, claudetest.Script(
		claudetest.Say("Hello."),
		claudetest.Say("No.").Stop(claudetest.StopRefusal),
		claudetest.Fail(claudetest.Invalid("no")),
	))
	t.Setenv("ANTHROPIC_API_KEY", key)
	t.Setenv("ANTHROPIC_BASE_URL", api.URL())
	for _, want := range []int{exitOK, exitStopped, exitOther} {
		got := run(t, "run", "--addr", target)
		if got.Status != want {
			t.Errorf("got %+v, want status %d", got, want)
		}
		if !strings.Contains(got.Stdout, "\nmodel   "+defaultModel+"\n") {
			t.Errorf("got %q, want it to name the model", got.Stdout)
		}
		if strings.Contains(got.Stdout+got.Stderr, key) {
			t.Errorf("the key was printed: %+v", got)
		}
	}
	requests := len(api.Requests())
	if got := run(t, "run", "--addr", target, "--offline"); got.Status != exitOK || len(api.Requests()) != requests {
		t.Errorf("offline: got %+v and %d requests to the API, want none", got, len(api.Requests())-requests)
	}
	for path, text := range memoryFiles(t, c) {
		if strings.Contains(text, key) {
			t.Errorf("%s has the key", path)
		}
	}
	for _, r := range api.Requests() {
		if !bytes.Contains(r.Body, []byte(`"model":"`+defaultModel+`"`)) {
			t.Errorf("got request %.200s, want the model %s", r.Body, defaultModel)
		}
	}
}

func TestRun_Transcript(t *testing.T) {
	target, _ := serveMemory(t)
	file := filepath.Join(t.TempDir(), "run.jsonl")
	got := run(t, "run", "--addr", target, "--limit", "1", "--transcript", file)
	if got.Status != exitOK {
		t.Fatalf("got %+v", got)
	}
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	recorded, err := transcript.Read(f)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := len(recorded.Calls), strings.Count(got.Stdout, "\nturn "); got != want {
		t.Errorf("got %d calls in the transcript, want %d", got, want)
	}
	before, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	got = run(t, "run", "--addr", target, "--transcript", file)
	want := "memory-agent: --transcript " + file + ": there is a file already; a transcript has one session\n"
	if got.Status != exitUsage || !strings.HasPrefix(got.Stderr, want) {
		t.Errorf("a second session: got %+v, want %q", got, want)
	}
	if after, err := os.ReadFile(file); err != nil || !bytes.Equal(before, after) {
		t.Errorf("the transcript was changed: %v", err)
	}
	if recorded.Model != defaultModel || !strings.Contains(string(recorded.Tools), `"memory_20250818"`) {
		t.Errorf("got model %q and tools %s", recorded.Model, recorded.Tools)
	}
}

// A session that did not begin leaves no transcript, so that it can be tried again.
func TestRun_TranscriptOfNothing(t *testing.T) {
	target, _ := serveMemory(t)
	file := filepath.Join(t.TempDir(), "run.jsonl")
	ctx, cancel := context.WithCancel(t.Context())
	var stderr bytes.Buffer
	code := Run(ctx, []string{"run", "--addr", target, "--transcript", file}, writerFunc(func(p []byte) (int, error) {
		cancel() // with the first line, before anything is laid down
		return len(p), nil
	}), &stderr)
	if code != exitOther || stderr.String() != "memory-agent: interrupted\n" {
		t.Errorf("got status %d and %q", code, stderr.String())
	}
	if _, err := os.Stat(file); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v, want no file", err)
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// Whoever reads the output goes away, as with `| head`: the session is closed.
func TestRun_OutputFails(t *testing.T) {
	target, c := serveMemory(t)
	for _, test := range []struct {
		err  error
		want string
	}{
		{errors.New("broken"), "memory-agent: write standard output: broken\n"},
		{&os.PathError{Op: "write", Path: "|1", Err: syscall.EPIPE}, ""},
	} {
		var stderr bytes.Buffer
		code := Run(t.Context(), []string{"run", "--addr", target, "--session", "x"}, errorWriter{test.err}, &stderr)
		if code != exitOther || stderr.String() != test.want {
			t.Errorf("%v: got status %d and %q, want %d and %q", test.err, code, stderr.String(), exitOther, test.want)
		}
		if log := memoryFiles(t, c)[agentkit.ProgressPath]; !strings.HasPrefix(log, "## Session x\n") {
			t.Errorf("the session was not closed:\n%s", log)
		}
	}
}

// errorWriter fails with err.
type errorWriter struct{ err error }

func (w errorWriter) Write([]byte) (int, error) { return 0, w.err }

// command is memory-agent in a process of its own.
func command(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], args...)
	cmd.Env = append(os.Environ(), runMain+"=1")
	return cmd
}

// SIGINT and SIGTERM end the session, which is closed.
func TestRun_Signals(t *testing.T) {
	for _, test := range []struct {
		signal os.Signal
		args   []string
		again  string
	}{
		{os.Interrupt, nil, "the same command"},
		{os.Interrupt, []string{"--transcript", filepath.Join(t.TempDir(), "x")}, "the same command with another --transcript"},
		{syscall.SIGTERM, nil, "the same command"},
	} {
		t.Run(test.signal.String(), func(t *testing.T) {
			target, c := serveMemory(t)
			args := []string{"run", "--addr", target, "--session", "x", "--hold-after-change", "1"}
			cmd := command(t, append(args, test.args...)...)
			var stderr bytes.Buffer
			cmd.Stderr = &stderr
			stdout, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			lines := bufio.NewScanner(stdout)
			for lines.Scan() && lines.Text() != holdLine {
			}
			if err := cmd.Process.Signal(test.signal); err != nil {
				t.Fatal(err)
			}
			if _, err := io.Copy(io.Discard, stdout); err != nil {
				t.Fatal(err)
			}
			var exit *exec.ExitError
			want := "memory-agent: interrupted; the session was closed. Run " + test.again + " to carry on\n"
			if err := cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() != exitOther || stderr.String() != want {
				t.Errorf("got %v and %q, want status %d", err, stderr.String(), exitOther)
			}
			log := memoryFiles(t, c)[agentkit.ProgressPath]
			if !strings.HasPrefix(log, "## Session x\n") || !strings.Contains(log, "Ended by an error: interrupted") {
				t.Errorf("the session was not closed:\n%s", log)
			}
		})
	}
}

func TestHelp(t *testing.T) {
	for _, test := range []struct{ line, want string }{
		{"", "memory-agent exit-status"},
		{"--help", "memory-agent demo"},
		{"help exit-status", "3  memoryd cannot be reached"},
		{"run --help", "--trigger TOKENS"},
		{"run --help", "Documents are text files in UTF-8 of up to 1 MiB"},
		{"run --help", "--clear-at-least TOKENS"},
		{"version", "memory-agent devel"},
		{"--version", "memory-agent version devel"},
		{"demo --help", "--memoryd PATH"},
	} {
		got := run(t, strings.Fields(test.line)...)
		if got.Status != exitOK || got.Stderr != "" || !strings.Contains(got.Stdout, test.want) {
			t.Errorf("%q: got %+v, want status %d and %q on standard output", test.line, got, exitOK, test.want)
		}
	}
	root := (&cli{}).rootCommand()
	for _, cmd := range append([]*cobra.Command{root}, root.Commands()...) {
		if cmd.Runnable() && cmd.Example == "" {
			t.Errorf("%s: no example", cmd.CommandPath())
		}
		for line := range strings.Lines(cmd.Long) {
			if n := len([]rune(strings.TrimSuffix(line, "\n"))); n > 80 {
				t.Errorf("%s: a line has %d characters, want at most 80: %s", cmd.CommandPath(), n, line)
			}
		}
	}
}
