package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/seed-7f2870e1/memoryd/cmd/bench/internal/report"
	"github.com/seed-7f2870e1/memoryd/cmd/bench/internal/trial"
)

// TestMain lets the test binary be the reference that the benchmark starts as a process of its own.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "reference" {
		main()
		return
	}
	goleak.VerifyTestMain(m)
}

// buildMemoryd builds the memoryd of this tree.
func buildMemoryd(t *testing.T) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "memoryd")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", program, "./cmd/memoryd")
	build.Dir = filepath.Join("..", "..")
	if output, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build memoryd: %v\n%s", err, output)
	}
	return program
}

// runBench runs the command. It returns what it prints.
func runBench(t *testing.T, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	root := newRoot()
	var out, errOut bytes.Buffer
	root.SetArgs(args)
	root.SetOut(&out)
	root.SetErr(&errOut)
	err = root.ExecuteContext(t.Context())
	return out.String(), errOut.String(), err
}

// The whole way, in slices that are too short to say anything: memoryd, its control and the reference, without peers.
func TestBench(t *testing.T) {
	memoryd := buildMemoryd(t)
	dir := t.TempDir()
	file := filepath.Join(t.TempDir(), "report.json")
	t.Setenv("PATH", t.TempDir())
	stdout, stderr, err := runBench(t, "--slice-duration", "10ms", "--only", "^(view|create|edit|list|idle)$", "--dir", dir,
		"--memoryd", memoryd, "--etcd", filepath.Join(dir, "none"), "--json", file)
	if err != nil {
		t.Fatalf("%v\n%s", err, stderr)
	}
	for _, want := range []string{
		"etcd is NOT COMPARED", "Redis is NOT COMPARED", "PostgreSQL is NOT COMPARED", "there is no strace here",
		"Group idle was not run: it takes --scale.",
	} {
		if !strings.Contains(stdout, want) || !strings.Contains(stderr, want) {
			t.Errorf("nothing says %q:\n%s\n%s", want, stdout, stderr)
		}
	}
	if control, targets := strings.Index(stdout, "Control."), strings.Index(stdout, "Targets."); control > targets {
		t.Error("the control does not come first")
	}
	r, err := report.Read(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []struct {
		name     string
		callers  int
		subjects []string
	}{
		{caseView, 64, []string{nameMemoryd, nameControl, nameEcho}},
		{caseCreate, 256, []string{nameMemoryd, nameControl, nameRaw, nameShared}},
		{caseEdit, 1, []string{nameMemoryd, nameControl}},
		{caseList, 1, []string{nameFew, nameFew + trial.Again, nameMany, nameBelow}},
	} {
		c, ok := r.Case(want.name, want.callers)
		if !ok {
			t.Errorf("there is no %s with %d callers", want.name, want.callers)
		}
		for _, name := range want.subjects {
			s, _ := c.Subject(name)
			if len(s.Slices) != minSlices || s.Figures[trial.Rate] <= 0 || s.Figures[trial.P50] <= 0 {
				t.Errorf("%s, %s: got %d slices with %v", want.name, name, len(s.Slices), s.Figures)
			}
		}
		if _, ok := c.Spread(trial.Rate); !ok {
			t.Errorf("%s has no control", want.name)
		}
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) > 0 {
		t.Errorf("%v is left, %v", left, err)
	}

	// What was measured can be reported again.
	again, _, err := runBench(t, "--from", file)
	if err != nil || again != stdout {
		t.Errorf("the report reads otherwise the second time, %v:\n%s", err, again)
	}
}

func TestBench_Errors(t *testing.T) {
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"--slices", "6"}, "--slices is 6: it must be 7 or more"},
		{[]string{"--slice-duration", "0s"}, "--slice-duration is 0s: it must be longer than 0s"},
		{[]string{"--only", "("}, "--only: error parsing regexp"},
		{[]string{"--memoryd", "/nowhere/memoryd", "--dir", t.TempDir()}, "say where it is with --memoryd"},
		{[]string{"--from", "/nowhere/report.json"}, "read report: open /nowhere/report.json"},
		{[]string{"view"}, `unknown command "view"`},
	} {
		if _, _, err := runBench(t, test.args...); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%v: got %v, want %s", test.args, err, test.want)
		}
	}
}

func TestChecks(t *testing.T) {
	for _, c := range checks(&report.Report{}) {
		if c.Measured != nil || c.Met || c.CannotTell {
			t.Errorf("nothing was measured, and %s is %v", c.Work, c)
		}
	}
	subject := func(name string, figures trial.Figures) trial.SubjectResult {
		return trial.SubjectResult{Name: name, Slices: []trial.Figures{figures}, Figures: figures}
	}
	r := &report.Report{Cases: []trial.Result{
		{Name: caseView, Callers: 8, Subjects: []trial.SubjectResult{
			subject(nameMemoryd, trial.Figures{trial.P50: 0.0013, trial.Allocs: 80, trial.Rate: 1000}),
			subject(nameControl, trial.Figures{trial.P50: 0.0014, trial.Rate: 1100}),
			subject(nameEcho, trial.Figures{trial.P50: 0.001, trial.Allocs: 59}),
			subject(nameEtcd, trial.Figures{trial.Rate: 625}),
		}},
		{Name: caseNamespacesView, Callers: scaleCallers, Subjects: []trial.SubjectResult{
			subject(nameOne, trial.Figures{trial.Rate: 1000}), subject(nameOne+trial.Again, trial.Figures{trial.Rate: 1100}),
			subject(nameManyNamespaces, trial.Figures{trial.Rate: 950}),
		}},
		{Name: caseEdit, Callers: 1, Subjects: []trial.SubjectResult{
			subject(nameMemoryd, trial.Figures{trial.WrittenBytes: 1_400_000}),
		}},
		{Name: caseIdle, Subjects: []trial.SubjectResult{subject(nameLargeStore, trial.Figures{trial.Start: 0.04})}},
	}}
	got := map[string]report.Check{}
	for _, c := range checks(r) {
		got[c.Work] = c
	}
	for _, test := range []struct {
		work       string
		measured   float64
		met        bool
		cannotTell bool
	}{
		{"View over a bare RPC, p50, C=8", 1.3, false, true}, // The control differs by 8%, the target by 4%.
		{"View over a bare RPC, allocations, C=8", 21, false, false},
		{"View over etcd's linearizable get, rate, C=8", 1.6, true, false},
		{"10^5 namespaces over one, rate of view, C=8", 0.95, true, false},
		{"str_replace in a file of 1 MB, bytes written over its size, C=1", 1.4, false, false},
		{"Start at 10^6 files", 0.04, true, false},
	} {
		c := got[test.work]
		if c.Measured == nil || *c.Measured-test.measured > 1e-9 || test.measured-*c.Measured > 1e-9 ||
			c.Met != test.met || c.CannotTell != test.cannotTell {
			b, _ := json.Marshal(c)
			t.Errorf("%s: got %s, want %v, met %v, cannot tell %v", test.work, b, test.measured, test.met, test.cannotTell)
		}
	}
}

func TestNewText(t *testing.T) {
	for _, size := range []int{0, 1, fileBytes, editBytes} {
		if got := newText(1, size); len(got) != size {
			t.Errorf("got %d bytes, want %d", len(got), size)
		}
	}
	first := newText(1, fileBytes)
	if again := newText(1, fileBytes); again != first {
		t.Error("the same number gives another text")
	}
	if first == newText(2, fileBytes) {
		t.Error("another number gives the same text")
	}
}
