package simulation

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-7f2870e1/memoryd/cmd/memory-agent/internal/transcript"
)

// smallOptions are of a run that is played quickly.
func smallOptions() Options {
	o := DefaultOptions()
	o.Turns, o.Triggers, o.Keeps = 12, []int{10_000, 20_000}, []int{1, 3}
	return o
}

func TestGenerateReport(t *testing.T) {
	report, err := Generate(t.Context(), smallOptions())
	if err != nil {
		t.Fatal(err)
	}
	var got []Setting
	for _, row := range report.Rows {
		got = append(got, row.Setting)
	}
	want := []Setting{
		{},
		{Trigger: 10_000, Keep: 1},
		{Trigger: 10_000, Keep: 3},
		{Trigger: 20_000, Keep: 1},
		{Trigger: 20_000, Keep: 3},
		{Memory: true},
		{Memory: true, Trigger: 10_000, Keep: 1},
		{Memory: true, Trigger: 10_000, Keep: 3},
		{Memory: true, Trigger: 20_000, Keep: 1},
		{Memory: true, Trigger: 20_000, Keep: 3},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("settings differ (-want +got)\n%s", diff)
	}
	if report.Recorded != nil || report.Generated.Turns != 12 || report.Generated.ResultTokens == 0 {
		t.Errorf("got %+v, want a generated run", report)
	}

	// The variations are of the setting that is nearest to 30,000 and 3, and the first of them is the one of the table.
	table, first := report.Rows[9], report.Variations[0]
	if diff := cmp.Diff(table, first.Row); diff != "" {
		t.Errorf("the first variation is not the row of the table (-want +got)\n%s", diff)
	}
	changed := 0
	for _, v := range report.Variations[1:] {
		if v.Counts != first.Counts {
			changed++
		}
	}
	if changed == 0 {
		t.Error("no variation changes anything")
	}
}

func TestGenerate_Same(t *testing.T) {
	var texts [2]string
	for i := range texts {
		report, err := Generate(t.Context(), smallOptions())
		if err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(report)
		if err != nil {
			t.Fatal(err)
		}
		texts[i] = string(text)
	}
	if diff := cmp.Diff(texts[0], texts[1]); diff != "" {
		t.Errorf("the same options came out differently (-first +second)\n%s", diff)
	}
}

func TestReplayReport(t *testing.T) {
	recorded, err := transcript.Read(strings.NewReader(searches))
	if err != nil {
		t.Fatal(err)
	}
	o := DefaultOptions()
	o.Triggers, o.Keeps = []int{3000}, []int{1, 2}
	report, err := Replay(t.Context(), recorded, o)
	if err != nil {
		t.Fatal(err)
	}
	if report.Generated != nil || report.Recorded.Model != "claude-test" || len(report.Rows) != 3 {
		t.Fatalf("got %+v", report)
	}
	// 10,300 tokens without clearing; 7,240 and 9,025, and the placeholders, with it.
	for i, want := range []float64{0, saved(10_300, 7240+3*placeholder), saved(10_300, 9025+placeholder)} {
		if got := report.Rows[i].Saved; got != want {
			t.Errorf("row %d: got %.1f %% saved, want %.1f %%", i, got, want)
		}
	}
}

func TestReplay_OnlySummaries(t *testing.T) {
	recorded, err := transcript.Read(strings.NewReader(header + line(0, `{"type":"compaction"}`, task)))
	if err != nil {
		t.Fatal(err)
	}
	if _, err = Replay(t.Context(), recorded, DefaultOptions()); err == nil {
		t.Error("a run without any turn was played")
	}
}

// TestReplay_Refused: what the API does not take is an error that says where.
func TestReplay_Refused(t *testing.T) {
	text := header + line(1000, search("a", 1)+","+search("b", 2), task) + line(1100, said, found("a"))
	recorded, err := transcript.Read(strings.NewReader(strings.Replace(text, `"content":[`+search("a", 1)+","+search("b", 2)+`]`,
		`"content":[`+search("a", 1)+`]`, 1)))
	if err != nil {
		t.Fatal(err)
	}
	recorded.Calls[1].Messages[0].Role = "assistant" // a result in the wrong place
	_, err = Replay(t.Context(), recorded, smallOptions())
	if err == nil || !strings.HasPrefix(err.Error(), "play recorded run: request 2: ") {
		t.Errorf("got error %v, want one of request 2", err)
	}
}

func TestOptions_Check(t *testing.T) {
	for _, test := range []struct {
		change func(o *Options)
		want   string
	}{
		{func(*Options) {}, ""},
		{func(o *Options) { o.Turns = 0 }, "turns 0: want 1 to 1000"},
		{func(o *Options) { o.Turns = 1001 }, "turns 1001: want 1 to 1000"},
		{func(o *Options) { o.Triggers = nil }, "trigger []: want 1 or more tokens, or several such numbers"},
		{func(o *Options) { o.Triggers = []int{5, 0} }, "trigger [5 0]: want 1 or more tokens, or several such numbers"},
		{func(o *Options) { o.Keeps = nil }, "keep []: want 1 or more results, or several such numbers; with 0 the model sees none"},
		{func(o *Options) { o.Keeps = []int{0} }, "keep [0]: want 1 or more results, or several such numbers; with 0 the model sees none"},
		{func(o *Options) { o.ClearAtLeast = -1 }, "clear at least -1: want 0 or more tokens"},
	} {
		o := DefaultOptions()
		test.change(&o)
		got := ""
		if err := o.Check(); err != nil {
			got = err.Error()
		}
		if got != test.want {
			t.Errorf("got error %q, want %q", got, test.want)
		}
		if test.want == "" {
			continue
		}
		if _, err := Generate(t.Context(), o); err == nil {
			t.Errorf("Generate took options of which Check says: %s", test.want)
		}
		if _, err := Replay(t.Context(), nil, o); err == nil {
			t.Errorf("Replay took options of which Check says: %s", test.want)
		}
	}
}

// fakeRun is a run.
type fakeRun struct {
	fn func(ctx context.Context, s Setting) (Counts, error)
}

func (f *fakeRun) play(ctx context.Context, s Setting) (Counts, error) { return f.fn(ctx, s) }

// TestRunAll: each job is played once, and its counts are its own.
func TestRunAll(t *testing.T) {
	var mu sync.Mutex
	played := 0
	newRun := func(peak int) *fakeRun {
		return &fakeRun{func(_ context.Context, s Setting) (Counts, error) {
			mu.Lock()
			defer mu.Unlock()
			played++
			return Counts{Requests: s.Keep, PeakTokens: peak}, nil
		}}
	}
	one, other := newRun(1), newRun(2)
	var jobs []job
	for i := range 50 {
		jobs = append(jobs, job{one, Setting{Keep: i}}, job{other, Setting{Keep: i}}, job{one, Setting{Keep: 7}})
	}
	counts, err := runAll(t.Context(), jobs)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 50 {
		for _, test := range []struct {
			run  *fakeRun
			want Counts
		}{{one, Counts{Requests: i, PeakTokens: 1}}, {other, Counts{Requests: i, PeakTokens: 2}}} {
			if got := counts[job{test.run, Setting{Keep: i}}]; got != test.want {
				t.Errorf("got %+v, want %+v", got, test.want)
			}
		}
	}
	if len(counts) != 100 || played != 100 {
		t.Errorf("got counts of %d jobs, %d of them played, want 100", len(counts), played)
	}
}

// TestRunAll_Fails: the first failure ends the others, and is the error.
func TestRunAll_Fails(t *testing.T) {
	broken := errors.New("broken")
	waiting := &fakeRun{func(ctx context.Context, _ Setting) (Counts, error) {
		<-ctx.Done()
		return Counts{}, ctx.Err()
	}}
	failing := &fakeRun{func(context.Context, Setting) (Counts, error) { return Counts{}, broken }}
	waits := jobsOf(waiting, []Setting{{Keep: 1}, {Keep: 2}, {Keep: 3}})
	if _, err := runAll(t.Context(), append(jobsOf(failing, []Setting{{}}), waits...)); !errors.Is(err, broken) {
		t.Errorf("got error %v, want %v", err, broken)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := runAll(ctx, waits); !errors.Is(err, context.Canceled) {
		t.Errorf("got error %v, want %v", err, context.Canceled)
	}
}

func TestRows(t *testing.T) {
	r := &fakeRun{}
	settings := []Setting{{}, {Keep: 1}}
	got := rows(r, settings, map[job]Counts{
		{r, settings[0]}: {InputTokens: 2000, CachedCost: 1350},
		{r, settings[1]}: {InputTokens: 1100, CachedCost: 1375},
	})
	want := []Row{
		{Setting: settings[0], Counts: Counts{InputTokens: 2000, CachedCost: 1350}},
		{Setting: settings[1], Counts: Counts{InputTokens: 1100, CachedCost: 1375}, Saved: 45, CachedSaved: -1.9},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("rows differ (-want +got)\n%s", diff)
	}
}

func TestSaved(t *testing.T) {
	for _, test := range []struct {
		was, is int
		want    float64
	}{{2000, 1100, 45}, {1350, 1375, -1.9}, {3, 1, 66.7}, {10, 10, 0}, {0, 0, 0}} {
		if got := saved(test.was, test.is); got != test.want {
			t.Errorf("from %d to %d: got %v, want %v", test.was, test.is, got, test.want)
		}
	}
}

func TestNearest(t *testing.T) {
	for _, test := range []struct {
		numbers []int
		to      int
		want    int
	}{{[]int{1}, 5, 1}, {[]int{1, 4, 9}, 5, 4}, {[]int{4, 6}, 5, 4}, {[]int{9, 5, 1}, 5, 5}} {
		if got := nearest(test.numbers, test.to); got != test.want {
			t.Errorf("nearest of %v to %d: got %d, want %d", test.numbers, test.to, got, test.want)
		}
	}
}
