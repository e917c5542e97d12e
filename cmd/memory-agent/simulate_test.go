package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// simulated runs simulate and returns what it printed.
func simulated(t *testing.T, stdin string, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	cmd := newSimulateCommand()
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetArgs(args)
	cmd.SetIn(strings.NewReader(stdin))
	cmd.SetOut(&out)
	err := cmd.ExecuteContext(t.Context())
	return out.String(), err
}

const recordedRun = `{"type":"header","version":1,"model":"claude-test"}
{"type":"call","messages":[{"role":"user","content":"Search."}],"response":{"content":[{"type":"tool_use","id":"a","name":"find","input":{}}],"usage":{"input_tokens":1000}}}
{"type":"call","messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":"much"}]}],"response":{"content":[{"type":"text","text":"Done."}],"usage":{"input_tokens":2500}}}
`

func TestSimulate_JSON(t *testing.T) {
	out, err := simulated(t, "", "--turns", "5", "--trigger", "2000", "--keep", "1,2", "--output", "json", "--seed", "3",
		"--clear-at-least", "100", "--exclude-memory=false", "--hold")
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Generated struct {
			Seed, Turns int
		}
		Rows []struct {
			Trigger, Keep, Requests int
			InputTokens             int  `json:"input_tokens"`
			ClearAtLeast            int  `json:"clear_at_least"`
			ClearMemory             bool `json:"clear_memory"`
			Hold, Memory            bool
		}
	}
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		t.Fatal(err)
	}
	if got.Generated.Seed != 3 || got.Generated.Turns != 5 || len(got.Rows) != 6 {
		t.Fatalf("got %+v", got)
	}
	if r := got.Rows[5]; r.Trigger != 2000 || r.Keep != 2 || r.ClearAtLeast != 100 || !r.ClearMemory || !r.Hold || !r.Memory {
		t.Errorf("got last row %+v", r)
	}
	if r := got.Rows[0]; r.Requests != 6 || r.InputTokens == 0 {
		t.Errorf("got first row %+v", r)
	}
}

func TestSimulate_Transcript(t *testing.T) {
	file := filepath.Join(t.TempDir(), "run.jsonl")
	if err := os.WriteFile(file, []byte(recordedRun), 0o600); err != nil {
		t.Fatal(err)
	}
	fromFile, err := simulated(t, "", "--transcript", file, "--trigger", "2000", "--keep", "1")
	if err != nil {
		t.Fatal(err)
	}
	fromStdin, err := simulated(t, recordedRun, "--transcript", "-", "--trigger", "2000", "--keep", "1")
	if err != nil {
		t.Fatal(err)
	}
	if fromFile != fromStdin {
		t.Errorf("a file and standard input came out differently:\n%s\n%s", fromFile, fromStdin)
	}
	for _, want := range []string{`Recorded run: 2 requests to "claude-test".`, " none               2   3,500  2,500 "} {
		if !strings.Contains(fromFile, want) {
			t.Errorf("%q is not in the output:\n%s", want, fromFile)
		}
	}
}

// Of a run that was killed all is played but the line that was being written.
func TestSimulate_CutOff(t *testing.T) {
	file := filepath.Join(t.TempDir(), "run.jsonl")
	if err := os.WriteFile(file, []byte(recordedRun+`{"type":"call","mess`), 0o600); err != nil {
		t.Fatal(err)
	}
	got := run(t, "simulate", "--transcript", file, "--trigger", "2000", "--keep", "1")
	want, err := simulated(t, recordedRun, "--transcript", "-", "--trigger", "2000", "--keep", "1")
	if err != nil {
		t.Fatal(err)
	}
	warning := "memory-agent: line 4 of the transcript is cut off and was left out: the run was probably killed while it was written\n"
	if got.Status != exitOK || got.Stdout != want || got.Stderr != warning {
		t.Errorf("got %+v, want %q and %q", got, want, warning)
	}
}

func TestSimulate_NoTriggerReached(t *testing.T) {
	got, err := simulated(t, recordedRun, "--transcript", "-")
	if err != nil {
		t.Fatal(err)
	}
	want := "Recorded run: 2 requests to \"claude-test\".\n\n" +
		"The largest prompt had 2,500 tokens: no trigger was reached.\nTry --trigger 620,1200\n"
	if got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestSimulate_Fails(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing")
	for _, test := range []struct {
		name   string
		args   []string
		stdin  string
		status int
		want   string
	}{
		{"argument", []string{"now"}, "", exitUsage, `memory-agent: unknown command "now" for "memory-agent simulate"`},
		{"no number", []string{"--trigger", "many"}, "", exitUsage, `memory-agent: --trigger "many": want whole numbers with commas between them, such as 3,5,10`},
		{"no number to keep", []string{"--keep", "a"}, "", exitUsage, `memory-agent: --keep "a": want whole numbers`},
		{"no seed", []string{"--seed", "-1"}, "", exitUsage, `memory-agent: --seed "-1": want a whole number, 0 or more`},
		{"neither", []string{"--hold=x"}, "", exitUsage, `memory-agent: --hold "x": want true or false`},
		{"option", []string{"--keep", "0"}, "", exitUsage, "memory-agent: keep [0]: want 1 or more results"},
		{"output", []string{"--output", "xml"}, "", exitUsage, `memory-agent: --output "xml": want table or json`},
		{"no file name", []string{"--transcript", ""}, "", exitUsage, "memory-agent: --transcript is empty"},
		{"two runs", []string{"--transcript", "-", "--turns", "5"}, "", exitUsage, "memory-agent: --seed and --turns are for a generated run"},
		{"no file", []string{"--transcript", missing}, "", exitOther, "memory-agent: read transcript: open " + missing},
	} {
		t.Run(test.name, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			status := Run(t.Context(), append([]string{"simulate"}, test.args...), &stdout, &stderr)
			if status != test.status || !strings.Contains(stderr.String(), test.want) || stdout.Len() > 0 {
				t.Errorf("got status %d, %q and %q, want %d, and %q on standard error",
					status, stdout.String(), stderr.String(), test.status, test.want)
			}
		})
	}
	t.Run("bad line", func(t *testing.T) {
		_, err := simulated(t, recordedRun+"{}\n", "--transcript", "-")
		want := `read transcript: standard input: line 4: is of type "", want call`
		if err == nil || err.Error() != want {
			t.Errorf("got error %v, want %s", err, want)
		}
	})
}
