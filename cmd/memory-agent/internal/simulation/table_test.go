package simulation

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

func TestWriteTable(t *testing.T) {
	none := Row{Counts: Counts{Requests: 5, InputTokens: 2000, PeakTokens: 21_000, CachedCost: 1350}}
	cleared := Row{
		Setting: Setting{Memory: true, Trigger: 20_000, Keep: 3},
		Counts: Counts{
			Requests: 1006, InputTokens: 1_234_567, PeakTokens: 400, Clearings: 4, NeededAgain: 3, InMemory: 2,
			SearchedAgain: 1, CachedCost: 1375,
		},
		Saved: 45, CachedSaved: -1.9,
	}
	for _, test := range []struct {
		name   string
		report Report
		want   string
	}{
		{
			"generated",
			Report{
				Generated: &GeneratedRun{Seed: 7, Turns: 100, ResultTokens: 385_870}, Rows: []Row{none, cleared},
				Variations: []Variation{{"as in the table", cleared}},
			},
			`Generated web research: 100 turns, seed 7, results of 385,870 tokens in all.

  MEMORY  TRIGGER  KEEP  REQUESTS     TOKENS    PEAK   SAVED  CLEARINGS  NEEDED  NOTED  AGAIN   COST   SAVED
      no     none               5      2,000  21,000   0.0 %          0       0      0      0  1,350   0.0 %
     yes   20,000     3     1,006  1,234,567     400  45.0 %          4       3      2      1  1,375  -1.9 %

TOKENS     what the model is shown in all requests together; PEAK in the largest
SAVED      less than in the first row
CLEARINGS  requests in which results are missing that were there before
NEEDED     how often something of a cleared result was needed: NOTED in memory
           before, or else looked up AGAIN, in a request of its own
COST       of these tokens with prompt caching, in tokens at the full price

What would change it, at a trigger of 20,000, keeping 3, with memory:

                   REQUESTS     TOKENS   SAVED  CLEARINGS  NEEDED  NOTED  AGAIN   COST   SAVED
  as in the table     1,006  1,234,567  45.0 %          4       3      2      1  1,375  -1.9 %

How it was counted. `,
		},
		{
			"recorded",
			Report{
				Recorded: &RecordedRun{Model: "claude\x1b[2J"},
				Rows: []Row{
					{Counts: Counts{Requests: 5, InputTokens: 2000, PeakTokens: 21_000, CachedCost: 1350, Exhausted: 4}},
					cleared,
				},
			},
			`Recorded run: 5 requests to "claude\x1b[2J".
Without clearing, request 4 is the first of more than 200,000 tokens: with a
context window of that size the run would end there.

  TRIGGER  KEEP  REQUESTS     TOKENS    PEAK   SAVED  CLEARINGS  AGAIN   COST   SAVED
     none               5      2,000  21,000   0.0 %          0      0  1,350   0.0 %
   20,000     3     1,006  1,234,567     400  45.0 %          4      1  1,375  -1.9 %

TOKENS     what the model is shown in all requests together; PEAK in the largest
SAVED      less than without clearing
CLEARINGS  requests in which results are missing that were there before
AGAIN      calls that had been made before in the same way, and whose earlier
           result is cleared: so it was, or seemed, needed again
COST       of these tokens with prompt caching, in tokens at the full price

How it was counted. `,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := written(t, test.report)
			if i := strings.Index(got, "How it was counted. "); i > 0 {
				got = got[:i+len("How it was counted. ")]
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("the table differs (-want +got)\n%s", diff)
			}
		})
	}
}

// TestWriteTable_Explains: what there is to say of a run is said, and nothing else.
func TestWriteTable_Explains(t *testing.T) {
	recorded := func(about RecordedRun, hold bool) Report {
		return Report{Recorded: &about, Rows: []Row{
			{Counts: Counts{PeakTokens: 2}}, {Setting: Setting{Trigger: 1, Hold: hold}},
		}}
	}
	generated := Report{Generated: &GeneratedRun{}, Rows: []Row{{Counts: Counts{PeakTokens: 2}}}}
	for _, test := range []struct {
		name     string
		report   Report
		sentence string
		says     bool
	}{
		{"estimate", generated, "estimated at 4 bytes each", true},
		{"estimate, recorded", recorded(RecordedRun{}, false), "estimated at 4 bytes each", false},
		{"published", generated, "consumption by 84%.", true},
		{"published, recorded", recorded(RecordedRun{}, false), "consumption by 84%.", false},
		{"views", recorded(RecordedRun{MemoryViews: 2}, false), "It looked into its memory 2 times.", true},
		{"one view", recorded(RecordedRun{MemoryViews: 1}, false), "It looked into its memory 1 time.", true},
		{"misfits", recorded(RecordedRun{Misfits: 3}, false), "Of 3 requests the size does not agree", true},
		{"no misfits", recorded(RecordedRun{}, false), "agree", false},
		{"summaries", recorded(RecordedRun{Compactions: 1}, false), "Left out: 1 request that did nothing but summarize", true},
		{"no summaries", recorded(RecordedRun{}, false), "Left out", false},
		{"held", recorded(RecordedRun{}, true), "(--hold)", true},
		{"not held", recorded(RecordedRun{}, false), "(--hold)", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			text := written(t, test.report)
			if strings.Contains(strings.Join(strings.Fields(text), " "), test.sentence) != test.says {
				t.Errorf("says %q: %t, want %t\n%s", test.sentence, !test.says, test.says, text)
			}
			for line := range strings.Lines(text) {
				if utf8.RuneCountInString(line) > 81 && !strings.Contains(line, "  ") {
					t.Errorf("the line is longer than 80 characters: %s", line)
				}
			}
		})
	}
}

// Where no trigger was reached, all rows are the same: instead it is said which could be.
func TestWriteTable_Unreached(t *testing.T) {
	rows := func(peak int) []Row {
		none := Row{Counts: Counts{Requests: 5, PeakTokens: peak}}
		high, low := none, none
		high.Trigger, low.Trigger = 30_000, 20_000
		return []Row{none, high, low}
	}
	const head = "Recorded run: 5 requests to \"m\".\n\nThe largest prompt had "
	for _, test := range []struct {
		peak int
		want string
	}{
		{20_000, head + "20,000 tokens: no trigger was reached.\nTry --trigger 5000,10000\n"},
		{7_981, head + "7,981 tokens: no trigger was reached.\nTry --trigger 1900,3900\n"},
		{1, head + "1 token: no trigger was reached.\nTry --trigger 1,1\n"},
	} {
		if got := written(t, Report{Recorded: &RecordedRun{Model: "m"}, Rows: rows(test.peak)}); got != test.want {
			t.Errorf("got %q, want %q", got, test.want)
		}
	}
	reached := written(t, Report{Recorded: &RecordedRun{}, Rows: rows(20_001)})
	if strings.Contains(reached, "no trigger") || !strings.Contains(reached, "TRIGGER") {
		t.Errorf("got no table:\n%s", reached)
	}
}

func TestWriteTable_Fails(t *testing.T) {
	full := errors.New("disk full")
	report := Report{Generated: &GeneratedRun{}, Rows: []Row{{}}}
	if err := report.WriteTable(brokenWriter{full}); !errors.Is(err, full) {
		t.Errorf("got error %v, want %v", err, full)
	}
}

type brokenWriter struct{ err error }

func (w brokenWriter) Write([]byte) (int, error) { return 0, w.err }

func written(t *testing.T, r Report) string {
	t.Helper()
	var b bytes.Buffer
	if err := r.WriteTable(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestThousands(t *testing.T) {
	for n, want := range map[int]string{0: "0", 999: "999", 1000: "1,000", 123_456: "123,456", 20_327_159: "20,327,159"} {
		if got := thousands(n); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
