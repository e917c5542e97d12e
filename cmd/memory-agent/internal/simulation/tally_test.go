package simulation

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-7f2870e1/memoryd/client/claudetest"
)

// prompt makes a request of so many tokens: a task, and then a call and a result for each letter, "-" for a result that
// is there and "x" for one that is cleared.
func prompt(tokens int, results string) *claudetest.Request {
	text := claudetest.Text("text")
	req := &claudetest.Request{InputTokens: tokens}
	req.Messages = []claudetest.Message{{Role: "user", Content: []claudetest.Block{text}}}
	for _, r := range results {
		result := claudetest.Block{Type: "tool_result", Content: []claudetest.Block{text}, Cleared: r == 'x'}
		req.Messages = append(req.Messages,
			claudetest.Message{Role: "assistant", Content: []claudetest.Block{text, claudetest.Call("search", 1)}},
			claudetest.Message{Role: "user", Content: []claudetest.Block{result}})
	}
	return req
}

func counted(requests ...*claudetest.Request) Counts {
	t := tally{count: claudetest.EstimateTokens}
	for _, r := range requests {
		t.add(r)
	}
	return t.counts()
}

func TestTally(t *testing.T) {
	for _, test := range []struct {
		name     string
		requests []*claudetest.Request
		want     Counts
	}{
		{
			name:     "nothing is cleared",
			requests: []*claudetest.Request{prompt(100, ""), prompt(300, "-"), prompt(700, "--")},
			want: Counts{
				Requests: 3, InputTokens: 100 + 300 + 700, PeakTokens: 700,
				// Written: 100, 200 and 400 at 1.25. Read: 0, 100 and 300 at 0.1.
				CachedCost: 875 + 40,
			},
		},
		{
			name: "once",
			requests: []*claudetest.Request{
				prompt(100, ""), prompt(300, "-"), prompt(700, "--"), prompt(800, "x--"), prompt(1000, "x---"),
			},
			want: Counts{
				Requests: 5, InputTokens: 100 + 300 + 700 + 800 + 1000, PeakTokens: 1000, Clearings: 1,
				// Written: 100, 200, 400, then all but the task: 700, then 200. Read: 0, 100, 300, 100 and 800.
				CachedCost: 2000 + 130,
			},
		},
		{
			name:     "each time",
			requests: []*claudetest.Request{prompt(100, ""), prompt(300, "-"), prompt(300, "x-"), prompt(300, "xx-")},
			want: Counts{
				Requests: 4, InputTokens: 1000, PeakTokens: 300, Clearings: 2,
				// Written: 100, then 200 three times. Read: the task, three times.
				CachedCost: 875 + 30,
			},
		},
		{
			name:     "two at once are one clearing",
			requests: []*claudetest.Request{prompt(100, "--"), prompt(100, "xx-"), prompt(100, "xx--")},
			want: Counts{
				Requests: 3, InputTokens: 300, PeakTokens: 100, Clearings: 1,
				// Written: 100, 100, nothing. Read: nothing, nothing (there was no request with the task alone), 100.
				CachedCost: 250 + 10,
			},
		},
		{
			name: "too far back in the cache",
			// Three blocks for each result: the last request has 21 more than the one before.
			requests: []*claudetest.Request{prompt(100, ""), prompt(200, "-"), prompt(1000, "--------")},
			want: Counts{
				Requests: 3, InputTokens: 1300, PeakTokens: 1000,
				// Written: 100, 100, 900. Read: nothing, and then the task, which has a breakpoint of its own.
				CachedCost: 1375 + 20,
			},
		},
		{
			name:     "larger than the context window",
			requests: []*claudetest.Request{prompt(200_000, ""), prompt(200_001, "-"), prompt(200_010, "--")},
			want: Counts{
				Requests: 3, InputTokens: 600_011, PeakTokens: 200_010, Exhausted: 2,
				CachedCost: 250_012 + 40_000 + 1, // 200,010 written, 400,001 read; rounded: 250,012.5 + 40,000.1
			},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, counted(test.requests...)); diff != "" {
				t.Errorf("counts differ (-want +got)\n%s", diff)
			}
		})
	}
}

// TestTally_Warning: a warning is part of one prompt and not of the next.
func TestTally_Warning(t *testing.T) {
	warned := prompt(302, "-")
	warned.Warning = "12345678" // 2 tokens
	last := &warned.Messages[2]
	last.Content = append(last.Content, claudetest.Text(warned.Warning))
	got := counted(prompt(100, ""), warned, prompt(400, "--"))
	want := Counts{
		Requests: 3, InputTokens: 802, PeakTokens: 302 + 98,
		// Written: 100, 202, 100. Read: 0, 100, 300. Together 502.5 + 40, rounded.
		CachedCost: 543,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("counts differ (-want +got)\n%s", diff)
	}
}

// TestTally_Held: a result that the client cleared counts like one that the API cleared.
func TestTally_Held(t *testing.T) {
	held := prompt(100, "--")
	held.Messages[2].Content[0].Content = []claudetest.Block{claudetest.Text(claudetest.ClearedText)}
	if got := counted(prompt(100, ""), held).Clearings; got != 1 {
		t.Errorf("got %d clearings, want 1", got)
	}
}
