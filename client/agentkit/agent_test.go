package agentkit

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/anthropics/anthropic-sdk-go/v2"

	"github.com/seed-7f2870e1/memoryd/client/anthropictool"
	"github.com/seed-7f2870e1/memoryd/client/claudetest"
)

// searchTool finds something long, with one fact in it.
type searchTool struct{}

func (searchTool) Name() string        { return "search" }
func (searchTool) Description() string { return "Searches." }

func (searchTool) InputSchema() anthropic.BetaToolInputSchemaParam {
	return anthropic.BetaToolInputSchemaParam{Properties: map[string]any{"n": map[string]any{"type": "integer"}}}
}

func (searchTool) Execute(_ context.Context, input json.RawMessage) ([]anthropic.BetaToolResultBlockParamContentUnion, error) {
	var in struct{ N int }
	if err := json.Unmarshal(input, &in); err != nil {
		return nil, err
	}
	text := fmt.Sprintf("fact %d. ", in.N) + strings.Repeat("blah ", 800) // 1,000 tokens
	return []anthropic.BetaToolResultBlockParamContentUnion{{OfText: &anthropic.BetaTextBlockParam{Text: text}}}, nil
}

func search(n int) claudetest.Turn {
	return claudetest.Use(claudetest.Call("search", map[string]int{"n": n}))
}

// researcher is a model that searches ten times, and saves what it found when it is warned.
type researcher struct {
	searches, saved int
	warnings        int
	memoryCleared   bool
}

func (r *researcher) Respond(_ context.Context, req *claudetest.Request) (claudetest.Turn, error) {
	for _, call := range req.Calls() {
		if call.Name == "memory" && call.Result.Cleared {
			r.memoryCleared = true
		}
	}
	switch {
	case req.Compacting:
		return claudetest.Turn{Content: []claudetest.Block{claudetest.Summary("Searched.")}}, nil
	case req.Warning != "" && r.saved < r.searches:
		r.warnings++
		first := r.saved + 1
		r.saved = r.searches
		return claudetest.Use(claudetest.Call("memory", map[string]any{
			"command": "create", "path": fmt.Sprintf("/memories/facts-%02d.md", first),
			"file_text": fmt.Sprintf("facts %d to %d", first, r.saved),
		})), nil
	case r.searches < 10:
		r.searches++
		return search(r.searches), nil
	default:
		return claudetest.Say("That is all."), nil
	}
}

// session runs a session of a project with a tool runner, as an agent does.
func session(
	t *testing.T, m memory, name string, model claudetest.Model, disableThread bool, strategies ...Strategy,
) *claudetest.API {
	t.Helper()
	api := claudetest.New(t, model)
	s := m.resume(t, name)
	params := ask("Find out all about tea.")
	params.System = []anthropic.BetaTextBlockParam{{Text: PromptSessions}, {Text: s.Context}}
	params, err := ManageContext(params, strategies...)
	if err != nil {
		t.Fatal(err)
	}
	claude := api.Client()
	runner := anthropictool.NewToolRunner(&claude.Beta.Messages, s.Handler(),
		[]anthropic.BetaTool{searchTool{}},
		anthropic.BetaToolRunnerParams{BetaMessageNewParams: params, DisableThread: disableThread})
	var onDemand CompactOnDemand
	for _, strategy := range strategies {
		if compact, ok := strategy.(CompactOnDemand); ok {
			onDemand = compact
		}
	}
	for message, err := range runner.All(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		if message.StopReason == anthropic.BetaStopReasonToolUse && onDemand.Due(message.Usage) {
			runner.CompactBeforeNextTurn(onDemand.Config())
		}
	}
	m.close(t, s, OutcomeOf(runner.LastMessage(), nil))
	return api
}

// Before old results are cleared the model is warned and saves what it needs; its memory stays, and the next session
// has it.
func TestAgent_ClearToolUses(t *testing.T) {
	for _, disableThread := range []bool{true, false} {
		t.Run(fmt.Sprintf("thread %t", !disableThread), func(t *testing.T) {
			m := newMemory(t)
			initialize(t, m.project(), Plan{Goal: "All about tea."})
			model := &researcher{}
			api := session(t, m, "one", model, disableThread,
				ClearToolUses{AtInputTokens: anthropic.Int(4_000), Keep: anthropic.Int(1)})

			cleared, most := 0, 0
			for _, r := range api.Requests() {
				for _, e := range r.AppliedEdits {
					cleared = max(cleared, e.ClearedToolUses)
				}
				most = max(most, r.InputTokens)
			}
			if cleared < 5 || most > 5_000 || model.warnings == 0 || model.memoryCleared {
				t.Errorf("got %d results cleared, %d tokens at most, %d warnings, memory cleared %t",
					cleared, most, model.warnings, model.memoryCleared)
			}
			second := m.resume(t, "two").Context
			if !strings.Contains(second, "/memories/facts-01.md") || !strings.Contains(second, "Done: That is all.\n") {
				t.Errorf("got context\n%s\nwant what the first session has saved", second)
			}
		})
	}
}

// Both ways of compaction go together with clearing.
func TestAgent_Compaction(t *testing.T) {
	clearing := ClearToolUses{AtInputTokens: anthropic.Int(100_000)}
	for name, strategies := range map[string][]Strategy{
		"on demand": {clearing, CompactOnDemand{AtInputTokens: 3_000, Instructions: "Keep the facts."}},
		"none":      {clearing},
	} {
		t.Run(name, func(t *testing.T) {
			api := session(t, newMemory(t), "one", &researcher{}, true, strategies...)
			summaries, most := 0, 0
			for _, r := range api.Requests() {
				most = max(most, r.InputTokens)
				if strings.Contains(string(r.Body), `"compaction":{"instructions":"Keep the facts.","type":"summarize"}`) {
					summaries++
				}
			}
			if name == "none" && (summaries != 0 || most < 10_000) || name != "none" && (summaries < 2 || most > 5_000) {
				t.Errorf("got %d summaries, %d tokens at most", summaries, most)
			}
		})
	}
}

// The edit compacts within an ordinary request.
func TestAgent_Compact(t *testing.T) {
	api := claudetest.New(t, claudetest.ModelFunc(func(_ context.Context, req *claudetest.Request) (claudetest.Turn, error) {
		if req.Compacting {
			if req.Instructions != "Keep the facts." {
				t.Errorf("got instructions %q", req.Instructions)
			}
			return claudetest.Turn{Content: []claudetest.Block{claudetest.Summary("All about tea.")}}, nil
		}
		return claudetest.Say("Done."), nil
	}))
	params, err := ManageContext(ask(strings.Repeat("tea ", 50_000)),
		ClearToolUses{}, Compact{AtInputTokens: anthropic.Int(MinCompactTrigger), Instructions: "Keep the facts."})
	if err != nil {
		t.Fatal(err)
	}
	claude := api.Client()
	message, err := claude.Beta.Messages.New(t.Context(), params)
	if err != nil {
		t.Fatal(err)
	}
	if len(message.Content) != 2 || message.Content[0].AsCompaction().Content != "All about tea." {
		t.Errorf("got %s, want a summary and the answer", message.RawJSON())
	}
}
