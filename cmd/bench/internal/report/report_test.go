package report

import (
	"encoding/xml"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-7f2870e1/memoryd/cmd/bench/internal/trial"
)

var update = flag.Bool("update", false, "write the goldens of testdata")

// sample is a report with one of everything.
func sample() *Report {
	subject := func(name string, slices ...trial.Figures) trial.SubjectResult {
		return trial.SubjectResult{Name: name, Slices: slices, Figures: trial.Medians(slices)}
	}
	slice := func(rate, p50, cpu float64) trial.Figures {
		return trial.Figures{trial.Rate: rate, trial.P50: p50, trial.P99: 3 * p50, trial.CPU: cpu}
	}
	memoryd := subject("memoryd", slice(1000, 0.001, 0.00008), slice(1200, 0.0009, 0.00007))
	memoryd.Figures[trial.Allocs] = 81.4
	memoryd.Figures[trial.WrittenBytes] = 14.5 * 1024
	memoryd.Figures[trial.Writes] = 2.8
	other := func(s trial.SubjectResult) trial.SubjectResult {
		s.Other = true
		return s
	}
	number := func(v float64) *float64 { return &v }
	r := &Report{
		Schema:  Schema,
		Time:    time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC),
		Machine: Machine{System: "linux/amd64", CPUs: 2, FileSystem: "ext4", Go: "go1.26.8"},
		Versions: map[string]string{
			"memoryd": "v1.0.0", "etcd": "3.7.3",
		},
		Slices: 7, SliceSeconds: 0.5, Seed: 1,
		Notes: []string{"Redis is NOT COMPARED: it is not installed: there is no redis-server."},
		Checks: []Check{
			{Work: "View over a bare RPC, p50, C=8", Bound: AtMost, Limit: 1.35, Unit: Times, Measured: number(1.31), Spread: number(1.02)},
			{Work: "View over etcd, rate, C=8", Bound: AtLeast, Limit: 1.2, Unit: Times, Measured: number(1.17), Spread: number(1.24)},
			{Work: "Create, bytes written, C=64", Bound: AtMost, Limit: 15360, Unit: Bytes, Measured: number(16000)},
			{Work: "Start at 10^6 files", Bound: AtMost, Limit: 0.05, Unit: Seconds},
			{Work: "10^5 namespaces over one", Bound: Same, Unit: Times, Measured: number(0.97), Spread: number(1.05)},
		},
		Cases: []trial.Result{
			{Name: "view", Callers: 8, Subjects: []trial.SubjectResult{
				memoryd,
				subject("memoryd again", slice(1030, 0.001, 0.00008), slice(1150, 0.0009, 0.000071)),
				other(subject("etcd", slice(500, 0.0021, 0.0001), slice(550, 0.002, 0.0001))),
				other(subject("Redis & <co>", slice(1020, 0.001, 0.00002), slice(1190, 0.001, 0.00002))),
				subject("memoryd, one namespace", slice(1500, 0.0007, 0.00008), slice(1600, 0.0006, 0.00007)),
			}},
			{Name: "idle", Subjects: []trial.SubjectResult{
				subject("10^6 files", trial.Figures{trial.Start: 0.04, trial.AnonBytes: 30 << 20}),
			}},
		},
	}
	for i := range r.Checks {
		r.Checks[i].Judge()
	}
	return r
}

// golden compares with a file of testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s is another; run go test -update if it should be (-want +got):\n%s", file, diff)
	}
}

func TestText(t *testing.T) {
	var b strings.Builder
	if err := sample().Text(&b); err != nil {
		t.Fatal(err)
	}
	golden(t, "report.txt", b.String())
}

func TestJSON(t *testing.T) {
	file := filepath.Join(t.TempDir(), "report.json")
	want := sample()
	if err := want.WriteJSON(file); err != nil {
		t.Fatal(err)
	}
	golden(t, "report.json", read(t, file))
	got, err := Read(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("it is read as another (-want +got):\n%s", diff)
	}
}

func TestRead_Errors(t *testing.T) {
	for _, test := range []struct{ content, want string }{
		{`{"schema": "memoryd-bench/0"}`, `its schema is "memoryd-bench/0", and this program knows "memoryd-bench/1"`},
		{`{`, "unexpected end of JSON input"},
	} {
		file := filepath.Join(t.TempDir(), "report.json")
		write(t, file, test.content)
		if _, err := Read(file); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %v, want %s", test.content, err, test.want)
		}
	}
}

func TestMarkdown(t *testing.T) {
	file := filepath.Join(t.TempDir(), "performance.md")
	for _, old := range []string{"", "\nan earlier table\n"} {
		write(t, file, "# Before\n\n"+BeginMarker+old+EndMarker+"\n\nAfter.\n")
		if err := sample().WriteMarkdown(file); err != nil {
			t.Fatal(err)
		}
		golden(t, "report.md", read(t, file))
	}
	write(t, file, "# Before\n")
	if err := sample().WriteMarkdown(file); err == nil || !strings.Contains(err.Error(), BeginMarker) {
		t.Errorf("got %v, want which markers are not there", err)
	}
	if got := read(t, file); got != "# Before\n" {
		t.Errorf("a file without markers was changed: %s", got)
	}
}

func TestSVG(t *testing.T) {
	file := filepath.Join(t.TempDir(), "report.svg")
	if err := sample().WriteSVG(file); err != nil {
		t.Fatal(err)
	}
	got := read(t, file)
	golden(t, "report.svg", got)
	for d := xml.NewDecoder(strings.NewReader(got)); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("it is no XML: %v", err)
		}
	}
}

func TestJudge(t *testing.T) {
	number := func(v float64) *float64 { return &v }
	for _, test := range []struct {
		check Check
		want  string
	}{
		{Check{Bound: AtLeast, Limit: 1}, "not measured"},
		{Check{Bound: AtLeast, Limit: 1, Measured: number(1)}, "yes"},
		{Check{Bound: AtLeast, Limit: 1, Measured: number(0.99)}, "NO"},
		{Check{Bound: AtLeast, Limit: 1.2, Measured: number(1.17), Spread: number(1.24)}, "cannot tell"},
		{Check{Bound: AtLeast, Limit: 1.2, Measured: number(1.23), Spread: number(1.24)}, "cannot tell"},
		{Check{Bound: AtLeast, Limit: 1.2, Measured: number(1.3), Spread: number(1.05)}, "yes"},
		{Check{Bound: AtLeast, Limit: 1.2, Measured: number(1.1), Spread: number(1.05)}, "NO"},
		{Check{Bound: AtMost, Limit: 1, Measured: number(1)}, "yes"},
		{Check{Bound: AtMost, Limit: 1, Measured: number(1.01)}, "NO"},
		{Check{Bound: AtMost, Limit: 1.4, Measured: number(1.86), Spread: number(1.47)}, "cannot tell"},
		{Check{Bound: AtMost, Limit: 1.4, Measured: number(1.3), Spread: number(1.02)}, "yes"},
		{Check{Bound: AtMost, Limit: 1.4, Measured: number(1.86), Spread: number(1.2)}, "NO"},
		{Check{Bound: Same, Measured: number(1.01), Spread: number(1.02)}, "yes"},
		{Check{Bound: Same, Measured: number(0.97), Spread: number(1.02)}, "NO"},
		{Check{Bound: Same, Measured: number(1)}, "NO"}, // There is no control.
	} {
		test.check.Judge()
		if got := test.check.verdict(); got != test.want || test.check.Met != (got == "yes") {
			t.Errorf("%+v: got %s, want %s", test.check, got, test.want)
		}
	}
}

func TestSignificant(t *testing.T) {
	for _, test := range []struct {
		v    float64
		want string
	}{
		{0, "0"},
		{1.234, "1.23"},
		{0.01234, "0.0123"},
		{-12.34, "-12.3"},
		{123.6, "124"},
		{123456, "123456"},
		{0.999, "0.999"},
		{9.999, "10.0"},
		{0.0000001234, "0.000000123"},
		{999.9, "1000"},
	} {
		if got := significant(test.v); got != test.want {
			t.Errorf("%v: got %s, want %s", test.v, got, test.want)
		}
	}
}

func read(t *testing.T, file string) string {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func write(t *testing.T, file, content string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}
