package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-7f2870e1/memoryd/client/claudetest"
)

const (
	repository    = "../.."
	readmeAddress = "127.0.0.1:7711"
	readmeShared  = "memory.acme.internal:7711"
	readmeSocket  = "/run/memoryd/memoryd.sock"
	readmeData    = "/var/lib/memoryd"
)

// example is a command of README.md with the output that it shows.
type example struct{ command, output string }

// readBlocks returns the blocks of README.md that are in a language.
func readBlocks(t *testing.T, language string) []string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(repository, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	var blocks []string
	for _, match := range regexp.MustCompile("(?s)```"+language+"\n(.*?)```").FindAllSubmatch(content, -1) {
		blocks = append(blocks, string(match[1]))
	}
	if len(blocks) == 0 {
		t.Fatalf("README.md has no block of %s", language)
	}
	return blocks
}

// readExamples returns the commands of README.md.
func readExamples(t *testing.T) []example {
	t.Helper()
	var examples []example
	for _, block := range readBlocks(t, "console") {
		for line := range strings.Lines(block) {
			if command, ok := strings.CutPrefix(line, "$ "); ok {
				examples = append(examples, example{command: strings.TrimSpace(command)})
			} else {
				examples[len(examples)-1].output += line
			}
		}
	}
	return examples
}

var (
	timeOfDay = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`)
	grpcurl   = os.Getenv("MEMORYD_TEST_GRPCURL") // the path of the binary; make e2e sets it
)

// TestReadme runs every command of README.md, in order, and compares what it prints. Only times may differ, and the
// places where a test may listen and write.
func TestReadme(t *testing.T) {
	if grpcurl == "" {
		t.Log("MEMORYD_TEST_GRPCURL is not set: THE COMMANDS WITH GRPCURL ARE NOT RUN. make e2e runs them.")
	}
	root, err := filepath.Abs(repository)
	if err != nil {
		t.Fatal(err)
	}
	dir := socketDir(t)
	if err := os.Symlink(bin, filepath.Join(dir, "bin")); err != nil {
		t.Fatal(err)
	}
	if grpcurl != "" {
		if err := os.Symlink(grpcurl, filepath.Join(dir, "grpcurl")); err != nil {
			t.Fatal(err)
		}
	}
	socket := "unix://" + filepath.Join(dir, "memoryd.sock")
	env := append(os.Environ(), "MEMORYCTL_ADDR="+socket, "PATH="+filepath.Join(dir, "bin")+":"+dir+":"+os.Getenv("PATH"))

	writeCertificates(t, dir)
	shared := &daemon{dir: dir}
	t.Cleanup(func() { shared.stop(t) })

	served := false
	for _, e := range readExamples(t) {
		switch {
		case e.command == "make build":
			// TestMain has built what it builds.
		case e.command == "make run":
			// What it runs, for the binary of `go run` outlives a signal to make.
			recipe := exec.Command("make", "--dry-run", "-C", root, "run", "DATA="+filepath.Join(dir, "data"))
			out, err := recipe.Output()
			command, ok := strings.CutPrefix(lastLine(string(out)), "go run ./cmd/memoryd ")
			if err != nil || !ok {
				t.Fatalf("make run would run %q: %v", out, err)
			}
			serve(t, append(strings.Fields(command), "--listen", socket, "--http", ""))
			served = true
		case strings.HasPrefix(e.command, "memoryd --listen 0.0.0.0"):
			command := strings.NewReplacer("0.0.0.0:7711", "127.0.0.1:0", readmeData, "shared", `""`, "").Replace(
				strings.TrimPrefix(e.command, "memoryd "))
			shared.serveArgs(t, append(strings.Fields(command), ""))
			shared.target = shared.address(t)
		case strings.HasPrefix(e.command, "memoryd --listen"):
			command := strings.NewReplacer(readmeSocket, filepath.Join(dir, "other.sock"),
				readmeData, filepath.Join(dir, "other"), `""`, "").Replace(strings.TrimPrefix(e.command, "memoryd "))
			serve(t, append(strings.Fields(command), ""))
		case strings.HasPrefix(e.command, "grpcurl") && grpcurl == "":
		default:
			if !served {
				t.Fatalf("%s: nothing serves yet", e.command)
			}
			command := strings.NewReplacer(readmeAddress, socket, readmeShared, shared.target).Replace(e.command)
			cmd := exec.Command("bash", "-c", command)
			cmd.Dir, cmd.Env = dir, env
			out, err := cmd.CombinedOutput()
			if exit := new(exec.ExitError); err != nil && !errors.As(err, &exit) {
				t.Fatalf("%s: %v", e.command, err)
			}
			got := timeOfDay.ReplaceAllString(string(out), "TIME")
			want := timeOfDay.ReplaceAllString(e.output, "TIME")
			if diff := cmp.Diff(want, got); diff != "" || err != nil {
				t.Errorf("%s: %v (-README +got)\n%s", e.command, err, diff)
			}
		}
	}
}

func lastLine(s string) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	for i := len(lines) - 1; i >= 0; i-- {
		if !strings.HasPrefix(lines[i], "make") { // "make: Leaving directory"
			return lines[i]
		}
	}
	return ""
}

// serve runs memoryd until the test ends.
func serve(t *testing.T, args []string) {
	t.Helper()
	d := &daemon{}
	t.Cleanup(func() { d.stop(t) })
	d.serveArgs(t, args)
}

// TestReadmePython runs the Python of README.md as a part of a program.
func TestReadmePython(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("THERE IS NO python3: the Python of README.md is not run.")
	}
	d := start(t)
	program := strings.Join(readBlocks(t, "python"), "") + `
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
		t.Errorf("%v\n%s", err, out)
	}
}

// TestReadmeGo runs the Go programs of README.md: an agent with the SDK, which talks to a Claude of the test, and one
// without.
func TestReadmeGo(t *testing.T) {
	const listing = "Here're the files and directories up to 2 levels deep in /memories, excluding hidden items and " +
		"node_modules:\n0B\t/memories"
	api := claudetest.New(t, claudetest.ModelFunc(func(_ context.Context, req *claudetest.Request) (claudetest.Turn, error) {
		switch results := req.ToolResults(); {
		case len(results) == 0:
			return claudetest.Use(claudetest.Call("memory", map[string]any{"command": "view", "path": "/memories"})), nil
		case results[0].Text == listing:
			return claudetest.Say("I remember nothing yet."), nil
		default:
			return claudetest.Turn{}, fmt.Errorf("the memory is %q", results[0].Text)
		}
	}))
	d := start(t)
	wants := []string{
		"I remember nothing yet.\n",
		`{"type":"tool_result","tool_use_id":"toolu_1","content":"` + strings.NewReplacer("\n", `\n`, "\t", `\t`).Replace(listing) +
			`","is_error":false}` + "\n",
	}
	programs := readBlocks(t, "go")
	if len(programs) != len(wants) {
		t.Fatalf("README.md has %d programs, want %d", len(programs), len(wants))
	}
	for i, program := range programs {
		file := filepath.Join(t.TempDir(), "main.go")
		program = strings.ReplaceAll(program, readmeAddress, d.target)
		if err := os.WriteFile(file, []byte(program), 0o600); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command("go", "run", file)
		cmd.Dir = repository
		cmd.Env = append(os.Environ(), "ANTHROPIC_BASE_URL="+api.URL(), "ANTHROPIC_API_KEY=claudetest")
		out, err := cmd.CombinedOutput()
		if string(out) != wants[i] || err != nil {
			t.Errorf("program %d: %v\n%s", i+1, err, out)
		}
	}
}

// TestDocsNameTests checks that every test that a page names is there.
func TestDocsNameTests(t *testing.T) {
	for page, least := range map[string]int{"reliability.md": 20, "security.md": 10} {
		content, err := os.ReadFile(filepath.Join(repository, "docs", page))
		if err != nil {
			t.Fatal(err)
		}
		row := regexp.MustCompile("((?:`(?:Test|Fuzz)\\w+`(?:, )?)+) in ([\\w/-]+)(?: and (\\w+))?")
		rows := row.FindAllStringSubmatch(string(content), -1)
		if len(rows) < least {
			t.Fatalf("%s: only %d places with tests were found", page, len(rows))
		}
		for _, match := range rows {
			for _, dir := range match[2:] {
				if dir != "" {
					checkTests(t, page, dir, match[1])
				}
			}
		}
	}
}

// checkTests checks that the tests of a list are in a directory.
func checkTests(t *testing.T, page, dir, list string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(repository, dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	var source strings.Builder
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		source.Write(text)
	}
	for _, name := range regexp.MustCompile(`(Test|Fuzz)\w+`).FindAllString(list, -1) {
		if !strings.Contains(source.String(), "\nfunc "+name+"(") {
			t.Errorf("%s: %s has no %s", page, dir, name)
		}
	}
}
