package agentkit

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/anthropics/anthropic-sdk-go/v2"

	"github.com/seed-7f2870e1/memoryd/client/anthropictool"
	"github.com/seed-7f2870e1/memoryd/client/claudetest"
)

func TestOutcomeOf(t *testing.T) {
	noRoute := errors.New("no route")
	for _, tt := range []struct {
		name    string
		message string // empty: nil
		err     error
		done    string
		want    string // the error
		stopped bool
	}{
		{name: "end_turn", message: `{"stop_reason":"end_turn","content":[{"type":"text","text":"All done."}]}`, done: "All done."},
		{name: "stop_sequence", message: `{"stop_reason":"stop_sequence","content":[{"type":"text","text":"All"}]}`, done: "All"},
		{
			name: "first paragraph of the last text",
			message: `{"stop_reason":"end_turn","content":[{"type":"text","text":"Hm."},` +
				`{"type":"text","text":"\n- a\n- b \n\nThe rest."},{"type":"text","text":" \n"},{"type":"thinking","thinking":"x"}]}`,
			done: "- a\n- b ",
		},
		{name: "empty", message: `{"stop_reason":"end_turn","content":[]}`},
		{
			name: "refusal", message: `{"stop_reason":"refusal","content":[{"type":"text","text":"I"}]}`,
			want: "the model stopped: it refused to go on", stopped: true,
		},
		{
			name: "max_tokens", message: `{"stop_reason":"max_tokens","content":[{"type":"text","text":"I"}]}`,
			want: "the model stopped: its answer was cut off at max_tokens, and the tool calls in it were not made", stopped: true,
		},
		{
			name: "context window", message: `{"stop_reason":"model_context_window_exceeded","content":[{"type":"text","text":"I"}]}`,
			want: "the model stopped: the conversation is too long for it", stopped: true,
		},
		{
			name: "tool_use", message: `{"stop_reason":"tool_use","content":[{"type":"text","text":"I look."}]}`,
			want: "the model stopped: it has had all its turns", stopped: true,
		},
		{
			name: "pause_turn", message: `{"stop_reason":"pause_turn","content":[{"type":"text","text":"I"}]}`,
			want: "the model stopped: it has had all its turns", stopped: true,
		},
		{
			name: "compaction", message: `{"stop_reason":"compaction","content":[{"type":"compaction","content":"I"}]}`,
			want: "the model stopped: the conversation was summarized, and it has had no turn since", stopped: true,
		},
		{
			name: "unknown", message: `{"stop_reason":"boredom","content":[{"type":"text","text":"I"}]}`,
			want: `the model stopped: the reason is "boredom"`, stopped: true,
		},
		{name: "zero message", message: `{}`, want: `the model stopped: the reason is ""`, stopped: true},
		{name: "no message", want: "there is no message of the model"},
		{name: "no message and an error", err: noRoute, want: "no route"},
		{
			name: "a message and an error", message: `{"stop_reason":"end_turn","content":[{"type":"text","text":"All done."}]}`,
			err: noRoute, want: "no route",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var last *anthropic.BetaMessage
			if tt.message != "" {
				last = new(anthropic.BetaMessage)
				if err := json.Unmarshal([]byte(tt.message), last); err != nil {
					t.Fatal(err)
				}
			}
			got := OutcomeOf(last, tt.err)
			text := ""
			if got.Err != nil {
				text = got.Err.Error()
			}
			if got.Done != tt.done || got.Next != "" || text != tt.want || errors.Is(got.Err, ErrStopped) != tt.stopped {
				t.Errorf("got %+v, want done %q, error %q, stopped %t", got, tt.done, tt.want, tt.stopped)
			}
			if tt.err != nil && !errors.Is(got.Err, tt.err) {
				t.Errorf("got error %v, want that of the runner", got.Err)
			}
		})
	}
}

// What a runner with too few turns leaves is recorded as work that ended before its time.
func TestOutcomeOf_RunnerOutOfTurns(t *testing.T) {
	m := newMemory(t)
	s := m.resume(t, "one")
	api := claudetest.New(t, claudetest.ModelFunc(func(context.Context, *claudetest.Request) (claudetest.Turn, error) {
		return search(1), nil
	}))
	claude := api.Client()
	runner := anthropictool.NewToolRunner(&claude.Beta.Messages, s.Handler(), []anthropic.BetaTool{searchTool{}},
		anthropic.BetaToolRunnerParams{BetaMessageNewParams: ask("Find out all about tea."), MaxIterations: 2})
	m.close(t, s, OutcomeOf(runner.RunToCompletion(t.Context())))
	m.checkFile(t, ProgressPath, "## Session one\n\nDone: not said. No memory file has changed since it began.\n\n"+
		"Ended by an error: the model stopped: it has had all its turns\n")
}
