package claudetest_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/anthropics/anthropic-sdk-go/v2"
	"github.com/google/go-cmp/cmp"

	"github.com/seed-7f2870e1/memoryd/client/claudetest"
)

// Every call is paired with its result, whatever the order of the results, and what else there is makes no difference.
func TestCalls(t *testing.T) {
	call := func(id, input string) anthropic.BetaContentBlockParamUnion {
		return anthropic.NewBetaToolUseBlock(id, json.RawMessage(input), "look")
	}
	says := func(blocks ...anthropic.BetaContentBlockParamUnion) anthropic.BetaMessageParam {
		return anthropic.BetaMessageParam{OfAssistant: &anthropic.BetaAssistantMessageParam{Content: blocks}}
	}
	result := anthropic.NewBetaToolResultBlock
	twoTexts := anthropic.BetaContentBlockParamUnion{OfToolResult: &anthropic.BetaToolResultBlockParam{
		ToolUseID: "toolu_d", Content: []anthropic.BetaToolResultBlockParamContentUnion{
			{OfText: &anthropic.BetaTextBlockParam{Text: "one"}}, {OfText: &anthropic.BetaTextBlockParam{Text: "two"}},
		},
	}}
	server := anthropic.BetaContentBlockParamUnion{OfServerToolUse: &anthropic.BetaServerToolUseBlockParam{
		ID: "srvtoolu_1", Name: "web_search", Input: map[string]string{"query": "x"},
	}}
	fallback := anthropic.BetaContentBlockParamUnion{OfFallback: &anthropic.BetaFallbackBlockParam{}}

	long := strings.Repeat("a", 100) // or there would be nothing to gain by clearing
	model := &say{}
	api := claudetest.New(t, claudetest.ModelFunc(func(_ context.Context, req *claudetest.Request) (claudetest.Turn, error) {
		return model.turn(req), nil
	}), claudetest.WithTokenCounter(countBytes))
	client := api.Client()
	p := params(
		userText("Hello"),
		says(anthropic.NewBetaTextBlock("Looking"), server, call("toolu_a", `{"n":1}`), call("toolu_b", `{"n":2}`)),
		anthropic.NewBetaUserMessage(result("toolu_b", long, true), result("toolu_a", long, false), anthropic.NewBetaTextBlock("Go on")),
		says(call("toolu_c", `{"n":3}`), fallback, call("toolu_d", `{"n":4}`)),
		anthropic.NewBetaUserMessage(twoTexts),
	)
	p.Tools = []anthropic.BetaToolUnionParam{toolParam("look")}
	send := func() []claudetest.ToolCall {
		t.Helper()
		if _, err := client.Beta.Messages.New(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		return model.requests[len(model.requests)-1].Calls()
	}
	called := func(id, input string, result claudetest.ToolResult) claudetest.ToolCall {
		result.ToolUseID = id
		return claudetest.ToolCall{ID: id, Name: "look", Input: json.RawMessage(input), Answered: true, Result: result}
	}
	want := []claudetest.ToolCall{
		called("toolu_a", `{"n":1}`, claudetest.ToolResult{Text: long}),
		called("toolu_b", `{"n":2}`, claudetest.ToolResult{Text: long, IsError: true}),
		{ID: "toolu_c", Name: "look", Input: json.RawMessage(`{"n":3}`)},
		called("toolu_d", `{"n":4}`, claudetest.ToolResult{Text: "one\ntwo"}),
	}
	if diff := cmp.Diff(want, send()); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}

	// A context edit clears results, and inputs if it is told to. The call without a result is not one of the uses.
	p.Betas = []anthropic.AnthropicBeta{anthropic.AnthropicBetaContextManagement2025_06_27}
	edit := clearToolUses(1, 1)
	p.ContextManagement.Edits = []anthropic.BetaContextManagementConfigEditUnionParam{{OfClearToolUses20250919: &edit}}
	for i := range want[:2] {
		want[i].Result.Text, want[i].Result.Cleared = claudetest.ClearedText, true
	}
	if diff := cmp.Diff(want, send()); diff != "" {
		t.Errorf("calls with cleared results (-want +got):\n%s", diff)
	}
	edit.ClearToolInputs.OfBool = anthropic.Bool(true)
	for i := range want[:2] {
		want[i].Input, want[i].InputCleared = json.RawMessage("{}"), true
	}
	if diff := cmp.Diff(want, send()); diff != "" {
		t.Errorf("calls with cleared inputs (-want +got):\n%s", diff)
	}

	// A summary stands for the calls before it.
	p.Betas = []anthropic.AnthropicBeta{anthropic.AnthropicBetaCompact2026_01_12}
	p.ContextManagement.Edits = nil
	p.Messages = append(p.Messages,
		says(anthropic.BetaContentBlockParamUnion{OfCompaction: &anthropic.BetaCompactionBlockParam{Content: anthropic.String("Looked.")}}, call("toolu_e", "{}")),
		anthropic.NewBetaUserMessage(result("toolu_e", "seen", false)))
	if diff := cmp.Diff([]claudetest.ToolCall{called("toolu_e", "{}", claudetest.ToolResult{Text: "seen"})}, send()); diff != "" {
		t.Errorf("calls after a summary (-want +got):\n%s", diff)
	}
}

func TestCalls_None(t *testing.T) {
	for _, req := range []*claudetest.Request{{}, {Messages: []claudetest.Message{{Role: "user", Content: []claudetest.Block{claudetest.Text("Hello")}}}}} {
		if calls := req.Calls(); len(calls) > 0 {
			t.Errorf("got %+v", calls)
		}
	}
}
