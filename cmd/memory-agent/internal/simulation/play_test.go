package simulation

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-7f2870e1/memoryd/client/claudetest"
)

// smallRun is a run of four steps whose results have 100, 200, 300 and 400 tokens. The last one needs what the step
// with the given number found. Nothing else in it has any tokens.
func smallRun(needed int) *player {
	r := &Research{}
	for i, tokens := range []int{100, 200, 300, 400} {
		r.Steps = append(r.Steps, Step{
			Tool: toolSearch, Argument: string(rune('A' + i)), Tokens: tokens,
			Facts: []Fact{{"height", string(rune('A'+i)) + " Tower", "40 metres", i + 1}},
		})
	}
	r.Steps[3].Need = &r.Steps[needed-1].Facts[0]
	r.Brief = brief(r.Steps)
	p := newPlayer(r)
	p.model.notedPercent = 100
	p.count = func(text string) int {
		tokens, _ := tokensOf(text)
		return tokens
	}
	return p
}

func TestPlay(t *testing.T) {
	for _, test := range []struct {
		name    string
		needed  int
		model   func(m *model)
		setting Setting
		want    Counts
	}{
		{
			name: "without clearing", needed: 1,
			want: Counts{
				Requests: 5, InputTokens: 0 + 100 + 300 + 600 + 1000, PeakTokens: 1000,
				CachedCost: 1250 + 100, // each token written once; 100, 300 and 600 read
			},
		},
		{
			name: "without clearing, with memory", needed: 1, setting: Setting{Memory: true},
			want: Counts{
				Requests: 6, InputTokens: 2000, PeakTokens: 1000, // the memory is looked into first
				CachedCost: 1350,
			},
		},
		{
			// 3rd request: 300 are more than 250, so the 1st result goes. 4th: 600, the 2nd goes; the 1st is needed. 5th:
			// it is there again, as the last of 700. 6th: of 1,100 the last result stays.
			name: "needed again", needed: 1, setting: Setting{Trigger: 250, Keep: 1},
			want: Counts{
				Requests: 6, InputTokens: 0 + 100 + 200 + 300 + 100 + 400, PeakTokens: 400, Clearings: 4,
				NeededAgain: 1, SearchedAgain: 1,
				CachedCost: 1375, // all of 1,100 is written: the task, which would be read, has no tokens
			},
		},
		{
			// With two kept, the 3rd result is still there.
			name: "kept", needed: 3, setting: Setting{Trigger: 250, Keep: 2},
			want: Counts{
				Requests: 5, InputTokens: 0 + 100 + 300 + 500 + 700, PeakTokens: 700, Clearings: 2,
				CachedCost: 125 + 250 + 10 + 625 + 875, // 100 are read by the 3rd request
			},
		},
		{
			// The warning comes with 200 tokens, so with the 4th request; the 1st result is gone then.
			name: "warned too late", needed: 1, setting: Setting{Memory: true, Trigger: 250, Keep: 1},
			want: Counts{
				Requests: 7, InputTokens: 0 + 0 + 100 + 200 + 300 + 100 + 400, PeakTokens: 400, Clearings: 4,
				NeededAgain: 1, SearchedAgain: 1, CachedCost: 1375,
			},
		},
		{
			// The 2nd result is there when the warning comes.
			name: "noted", needed: 2, setting: Setting{Memory: true, Trigger: 250, Keep: 1},
			want: Counts{
				Requests: 6, InputTokens: 0 + 0 + 100 + 200 + 300 + 400, PeakTokens: 400, Clearings: 3,
				NeededAgain: 1, InMemory: 1, CachedCost: 1250,
			},
		},
		{
			name: "not found worth a note", needed: 2, model: func(m *model) { m.notedPercent = 0 },
			setting: Setting{Memory: true, Trigger: 250, Keep: 1},
			want: Counts{
				Requests: 7, InputTokens: 0 + 0 + 100 + 200 + 300 + 200 + 400, PeakTokens: 400, Clearings: 4,
				NeededAgain: 1, SearchedAgain: 1, CachedCost: 1500,
			},
		},
		{
			// One more request, with the same results in it as the one before, whose 300 it reads from the cache.
			name: "notes are viewed", needed: 2, model: func(m *model) { m.rereads = true },
			setting: Setting{Memory: true, Trigger: 250, Keep: 1},
			want: Counts{
				Requests: 7, InputTokens: 0 + 0 + 100 + 200 + 300 + 300 + 400, PeakTokens: 400, Clearings: 3,
				NeededAgain: 1, InMemory: 1, CachedCost: 1250 + 30,
			},
		},
		{
			name: "notes are viewed in vain", needed: 1, model: func(m *model) { m.rereads = true },
			setting: Setting{Memory: true, Trigger: 250, Keep: 1},
			want: Counts{
				Requests: 8, InputTokens: 0 + 0 + 100 + 200 + 300 + 300 + 100 + 400, PeakTokens: 400, Clearings: 4,
				NeededAgain: 1, SearchedAgain: 1, CachedCost: 1375 + 30,
			},
		},
		{
			// 4th request: 600 are more than 450. After that the client sends it all again: 700, 1,100.
			name: "cleared anew", needed: 1, setting: Setting{Trigger: 450, Keep: 1},
			want: Counts{
				Requests: 6, InputTokens: 0 + 100 + 300 + 300 + 100 + 400, PeakTokens: 400, Clearings: 3,
				NeededAgain: 1, SearchedAgain: 1,
				CachedCost: 125 + 10 + 250 + 375 + 125 + 500,
			},
		},
		{
			// 5th request: the client sends 300 and 100, which are not more than 450. 6th: 300, 100 and 400 are.
			name: "held", needed: 1, setting: Setting{Trigger: 450, Keep: 1, Hold: true},
			want: Counts{
				Requests: 6, InputTokens: 0 + 100 + 300 + 300 + 400 + 400, PeakTokens: 400, Clearings: 2,
				NeededAgain: 1, SearchedAgain: 1,
				CachedCost: 125 + 10 + 250 + 375 + 30 + 125 + 500,
			},
		},
		{
			// The answers of the memory tool have no tokens, but with two kept they push out results.
			name: "memory cleared like others", needed: 3,
			setting: Setting{Memory: true, Trigger: 250, Keep: 2, ClearMemory: true},
			want: Counts{
				// 4th request: 300; the look into the memory goes. 5th: 600; of the results, the note's and the 3rd stay.
				// 6th: 1,000; the note's and the 4th stay.
				Requests: 6, InputTokens: 0 + 0 + 100 + 300 + 300 + 400, PeakTokens: 400, Clearings: 3,
				CachedCost: 125 + 375 + 375 + 500,
			},
		},
		{
			name: "held, with memory", needed: 2, setting: Setting{Memory: true, Trigger: 250, Keep: 1, Hold: true},
			want: Counts{
				Requests: 6, InputTokens: 0 + 0 + 100 + 200 + 300 + 400, PeakTokens: 400, Clearings: 3,
				NeededAgain: 1, InMemory: 1, CachedCost: 1250,
			},
		},
		{
			// 3rd request: the 1st result has 100 tokens, too little. 4th: 300 can go.
			name: "too little to clear", needed: 3, setting: Setting{Trigger: 250, Keep: 1, ClearAtLeast: 250},
			want: Counts{
				Requests: 5, InputTokens: 0 + 100 + 300 + 300 + 400, PeakTokens: 400, Clearings: 2,
				CachedCost: 125 + 10 + 250 + 375 + 500,
			},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := smallRun(test.needed)
			if test.model != nil {
				test.model(&p.model)
			}
			got, err := p.play(t.Context(), test.setting)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("counts differ (-want +got)\n%s", diff)
			}
		})
	}
}

func TestPlay_Fails(t *testing.T) {
	play := func(t *testing.T, p *player, s Setting, want string) {
		t.Helper()
		_, err := p.play(t.Context(), s)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got error %v, want %q in it", err, want)
		}
	}
	t.Run("nothing is kept", func(t *testing.T) {
		play(t, smallRun(1), Setting{Trigger: 1}, "step 4 needs what was just looked up, but it is not shown")
	})
	t.Run("need of no step", func(t *testing.T) {
		p := smallRun(1)
		p.research.Brief = strings.Replace(p.research.Brief, fromMark+"1", fromMark+"9", 1)
		play(t, p, Setting{Trigger: 250, Keep: 1}, "step 4 needs something from step 9, which is not planned")
	})
	t.Run("unknown call", func(t *testing.T) {
		p := smallRun(1)
		p.research.Brief = strings.Replace(p.research.Brief, "search B", "search Z", 1)
		play(t, p, Setting{}, `request 2: call search: there is nothing for "Z"`)
	})
	t.Run("a setting that the API refuses", func(t *testing.T) {
		play(t, smallRun(1), Setting{Trigger: -1}, "AtInputTokens must be at least 1, got -1")
	})
	t.Run("cancelled", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := smallRun(1).play(ctx, Setting{}); !errors.Is(err, context.Canceled) {
			t.Errorf("got error %v, want %v", err, context.Canceled)
		}
	})
}

func TestTools(t *testing.T) {
	tools := newTools(&Research{})
	for _, test := range []struct{ name, input, want, wantErr string }{
		{name: toolMemory, input: `{"command":"view","path":"/memories"}`, want: "Here're the files and directories up to 2 levels deep in /memories, excluding hidden items and node_modules:\n0B\t/memories"},
		{name: toolMemory, input: `{"command":"create","path":"/memories/notes.md","file_text":"one\n"}`, want: "File created successfully at: /memories/notes.md"},
		{name: toolMemory, input: `{"command":"insert","path":"/memories/notes.md","insert_line":0,"insert_text":"two\n"}`, want: "The file /memories/notes.md has been edited."},
		{name: toolMemory, input: `{"command":"view","path":"/memories/notes.md"}`, want: "Here's the content of /memories/notes.md with line numbers:\n     1\ttwo\n     2\tone\n     3\t"},
		{name: toolMemory, input: `{"command":"delete"}`, wantErr: `unknown command "delete"`},
		{name: toolMemory, input: `7`, wantErr: "read input: json: cannot unmarshal number into Go value of type simulation.memoryCall"},
		{name: toolFetch, input: `{"for":"x"}`, wantErr: `there is nothing for "x"`},
		{name: toolFetch, input: `7`, wantErr: "read input: json: cannot unmarshal number into Go value of type map[string]string"},
	} {
		got, err := tools.call(test.name, []byte(test.input))
		if got != test.want || (err != nil || test.wantErr != "") && (err == nil || err.Error() != test.wantErr) {
			t.Errorf("%s %s: got %q, error %v", test.name, test.input, got, err)
		}
	}
}

func TestTokens(t *testing.T) {
	for text, want := range map[string]int{
		sizedText(1234):             1234,
		sizedText(0) + "\nKnown: x": 0,
		"12345":                     2,
		"tokens:many":               3,
		claudetest.ClearedText:      claudetest.EstimateTokens(claudetest.ClearedText),
	} {
		if got := countTokens(text); got != want {
			t.Errorf("%q: got %d tokens, want %d", text, got, want)
		}
	}
}
