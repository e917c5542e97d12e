package claudetest_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/anthropics/anthropic-sdk-go/v2"
	"github.com/google/go-cmp/cmp"

	"github.com/seed-7f2870e1/memoryd/client/claudetest"
)

// A conversation of five calls, of which "memory" is the second. Each call has an input of 7 bytes, {"n":1}, and a
// result of 100 bytes, so it is 4+7+100 tokens for look and 6+7+100 for memory, a token for every byte.
func fiveCalls() anthropic.BetaMessageNewParams {
	p := params(userText("Go on"))
	p.Tools = []anthropic.BetaToolUnionParam{toolParam("look"), {OfMemoryTool20250818: &anthropic.BetaMemoryTool20250818Param{}}}
	p.Betas = []anthropic.AnthropicBeta{anthropic.AnthropicBetaContextManagement2025_06_27}
	for i, name := range []string{"look", "memory", "look", "look", "look"} {
		id := fmt.Sprintf("toolu_%c", 'a'+i)
		input := map[string]int{"n": i + 1}
		p.Messages = append(p.Messages,
			anthropic.BetaMessageParam{OfAssistant: &anthropic.BetaAssistantMessageParam{Content: []anthropic.BetaContentBlockParamUnion{anthropic.NewBetaToolUseBlock(id, input, name)}}},
			anthropic.NewBetaUserMessage(anthropic.NewBetaToolResultBlock(id, strings.Repeat(string(rune('a'+i)), 100), false)))
	}
	return p
}

var fiveCallsTokens = func() int {
	tools := `{"input_schema":{"properties":{},"type":"object"},"name":"look"}` + `{"name":"memory","type":"memory_20250818"}`
	return len(tools) + len("Go on") + 4*(4+7+100) + (6 + 7 + 100)
}()

// saved is by how much a result of 100 bytes becomes smaller, savedInput an input of 7 bytes.
const (
	saved      = 100 - len(claudetest.ClearedText)
	savedInput = 7 - len("{}")
)

func clearToolUses(trigger, keep int64) anthropic.BetaClearToolUses20250919EditParam {
	return anthropic.BetaClearToolUses20250919EditParam{
		Trigger: anthropic.BetaClearToolUses20250919EditTriggerUnionParam{OfInputTokens: &anthropic.BetaInputTokensTriggerParam{Value: trigger}},
		Keep:    anthropic.BetaToolUsesKeepParam{Type: "tool_uses", Value: keep}, // without the type a 0 would not be sent
	}
}

func TestClearToolUses(t *testing.T) {
	total := int64(fiveCallsTokens)
	type edit = anthropic.BetaClearToolUses20250919EditParam
	toolUses := func(n int64) anthropic.BetaClearToolUses20250919EditTriggerUnionParam {
		return anthropic.BetaClearToolUses20250919EditTriggerUnionParam{OfToolUses: &anthropic.BetaToolUsesTriggerParam{Value: n}}
	}
	with := func(e edit, change func(*edit)) edit {
		change(&e)
		return e
	}
	for _, tc := range []struct {
		name    string
		edit    edit
		cleared string // letters of the calls whose results are cleared
		inputs  string // letters of the calls whose inputs are cleared
	}{
		{name: "defaults: the trigger is at 100,000 tokens", edit: edit{}},
		{name: "three are kept by default", edit: edit{Trigger: clearToolUses(1, 0).Trigger}, cleared: "ab"},
		{name: "one is kept", edit: clearToolUses(1, 1), cleared: "abcd"},
		{name: "none is kept", edit: clearToolUses(1, 0), cleared: "abcde"},
		{name: "more are kept than there are", edit: clearToolUses(1, 6)},
		{name: "as many are kept as there are", edit: clearToolUses(1, 5)},
		{name: "the trigger is reached", edit: clearToolUses(total, 0)},
		{name: "the trigger is exceeded", edit: clearToolUses(total-1, 4), cleared: "a"},
		{name: "tool uses, reached", edit: with(clearToolUses(1, 3), func(e *edit) { e.Trigger = toolUses(5) })},
		{name: "tool uses, exceeded", edit: with(clearToolUses(1, 3), func(e *edit) { e.Trigger = toolUses(4) }), cleared: "ab"},
		{name: "excluded tools are not among the kept", edit: with(clearToolUses(1, 3), func(e *edit) { e.ExcludeTools = []string{"memory"} }), cleared: "a"},
		{name: "excluded tools count for the trigger", edit: with(clearToolUses(1, 3), func(e *edit) { e.Trigger, e.ExcludeTools = toolUses(4), []string{"memory"} }), cleared: "a"},
		{name: "all tools are excluded", edit: with(clearToolUses(1, 0), func(e *edit) { e.ExcludeTools = []string{"memory", "look"} })},
		{name: "just enough can be cleared", edit: with(clearToolUses(1, 3), func(e *edit) { e.ClearAtLeast.Value = int64(2 * saved) }), cleared: "ab"},
		{name: "not enough can be cleared", edit: with(clearToolUses(1, 3), func(e *edit) { e.ClearAtLeast.Value = int64(2*saved + 1) })},
		{name: "inputs", edit: with(clearToolUses(1, 3), func(e *edit) { e.ClearToolInputs.OfBool = anthropic.Bool(true) }), cleared: "ab", inputs: "ab"},
		{name: "no inputs", edit: with(clearToolUses(1, 3), func(e *edit) { e.ClearToolInputs.OfBool = anthropic.Bool(false) }), cleared: "ab"},
		{name: "inputs of a tool", edit: with(clearToolUses(1, 2), func(e *edit) { e.ClearToolInputs.OfStringArray = []string{"look"} }), cleared: "abc", inputs: "ac"},
		{name: "inputs help to clear enough", edit: with(clearToolUses(1, 3), func(e *edit) {
			e.ClearToolInputs.OfBool = anthropic.Bool(true)
			e.ClearAtLeast.Value = int64(2*saved + 2*savedInput)
		}), cleared: "ab", inputs: "ab"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			model := &say{}
			api := claudetest.New(t, claudetest.ModelFunc(func(_ context.Context, req *claudetest.Request) (claudetest.Turn, error) {
				return model.turn(req), nil
			}), claudetest.WithTokenCounter(countBytes), claudetest.WithWarnAt(0))
			client := api.Client()
			p := fiveCalls()
			p.ContextManagement.Edits = []anthropic.BetaContextManagementConfigEditUnionParam{{OfClearToolUses20250919: &tc.edit}}
			m, err := client.Beta.Messages.New(t.Context(), p)
			if err != nil {
				t.Fatal(err)
			}
			streamed, err := stream(t, client, p)
			if err != nil {
				t.Fatal(err)
			}

			// What the model saw.
			req := model.requests[0]
			cleared, inputs := "", ""
			for _, call := range req.Calls() {
				letter := strings.TrimPrefix(call.ID, "toolu_")
				switch result := call.Result; {
				case result.Cleared:
					cleared += letter
					if result.Text != claudetest.ClearedText {
						t.Errorf("a cleared result is %+v", result)
					}
				case len(result.Text) != 100:
					t.Errorf("a result that is not cleared is %+v", result)
				}
				switch {
				case call.InputCleared:
					inputs += letter
					if string(call.Input) != "{}" {
						t.Errorf("a cleared input is %s", call.Input)
					}
				case len(call.Input) != 7:
					t.Errorf("an input that is not cleared is %s", call.Input)
				}
			}
			if cleared != tc.cleared || inputs != tc.inputs {
				t.Errorf("cleared results %q and inputs %q, want %q and %q", cleared, inputs, tc.cleared, tc.inputs)
			}
			if results := req.ToolResults(); len(results) != 1 || results[0].Cleared != strings.Contains(tc.cleared, "e") {
				t.Errorf("the last result is %+v", results)
			}

			// What the client is told.
			less := len(tc.cleared)*saved + len(tc.inputs)*savedInput
			want := []claudetest.AppliedEdit{}
			if tc.cleared != "" {
				want = append(want, claudetest.AppliedEdit{Type: "clear_tool_uses_20250919", ClearedToolUses: len(tc.cleared), ClearedInputTokens: less})
			}
			for _, m := range []*anthropic.BetaMessage{m, &streamed} {
				got := []claudetest.AppliedEdit{}
				for _, e := range m.ContextManagement.AppliedEdits {
					got = append(got, claudetest.AppliedEdit{Type: e.Type, ClearedToolUses: int(e.ClearedToolUses), ClearedInputTokens: int(e.ClearedInputTokens)})
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Error(diff)
				}
				if m.Usage.InputTokens != total-int64(less) {
					t.Errorf("%d input tokens, want %d", m.Usage.InputTokens, total-int64(less))
				}
			}
			if diff := cmp.Diff(want, req.AppliedEdits); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(want, api.Requests()[0].AppliedEdits); diff != "" {
				t.Error(diff)
			}
			if req.InputTokens != int(total)-less || req.OriginalInputTokens != int(total) {
				t.Errorf("the prompt is %d of %d tokens", req.InputTokens, req.OriginalInputTokens)
			}

			count, err := client.Beta.Messages.CountTokens(t.Context(), countParams(p))
			if err != nil {
				t.Fatal(err)
			}
			if count.InputTokens != total-int64(less) || count.ContextManagement.OriginalInputTokens != total {
				t.Errorf("counted %s", count.RawJSON())
			}
		})
	}
}

// Edits are made anew for every request of the history that the client keeps, on a thread too.
func TestEditsOverARun(t *testing.T) {
	forEachRunner(t, func(t *testing.T, w runWith) {
		var seen []string
		api := claudetest.New(t, claudetest.ModelFunc(func(_ context.Context, req *claudetest.Request) (claudetest.Turn, error) {
			results := ""
			for _, m := range req.Messages {
				for _, b := range m.Content {
					if b.Type == "tool_result" {
						if b.Cleared {
							results += "-"
							continue
						}
						results += b.Content[0].Text[:1]
					}
				}
			}
			seen = append(seen, results)
			if len(seen) == 5 {
				return claudetest.Say("Done"), nil
			}
			return claudetest.Use(echo(strings.Repeat(fmt.Sprint(len(seen)), 1000))), nil
		}), claudetest.WithTokenCounter(countBytes))
		edit := clearToolUses(2500, 1)
		_, err := w.run(t, api, func(p *anthropic.BetaToolRunnerParams) {
			p.Betas = []anthropic.AnthropicBeta{anthropic.AnthropicBetaContextManagement2025_06_27}
			p.ContextManagement.Edits = []anthropic.BetaContextManagementConfigEditUnionParam{{OfClearToolUses20250919: &edit}}
		}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if want := []string{"", "1", "-2", "--3", "---4"}; !slices.Equal(seen, want) {
			t.Errorf("the model saw %q, want %q", seen, want)
		}
	})
}

// Whatever the edits do to a request, results that have several blocks count whole, and those of calls without a
// result are left alone.
func TestClearToolUsesOddResults(t *testing.T) {
	model := &say{}
	api := claudetest.New(t, claudetest.ModelFunc(func(_ context.Context, req *claudetest.Request) (claudetest.Turn, error) {
		return model.turn(req), nil
	}), claudetest.WithTokenCounter(countBytes))
	image := `{"type":"image","source":{"type":"base64","media_type":"image/png","data":"` + strings.Repeat("A", 4000) + `"}}`
	body := requestBody(join(uHello, aCallAB,
		`{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_a","content":[{"type":"text","text":"picture"},`+image+`]},{"type":"tool_result","tool_use_id":"toolu_b"}]}`),
		fmt.Sprintf(edits, `{"type":"clear_tool_uses_20250919","trigger":{"type":"input_tokens","value":1},"keep":{"type":"tool_uses","value":0}}`))
	r := post(t, api, "/v1/messages", body)
	const image1 = 1334 // an image counts the same whatever its size
	less := len("picture") + image1 - len(claudetest.ClearedText) - len(claudetest.ClearedText)
	want := fmt.Sprintf(`"context_management":{"applied_edits":[{"cleared_input_tokens":%d,"cleared_tool_uses":2,"type":"clear_tool_uses_20250919"}]}`, less)
	if !strings.Contains(string(r.body), want) {
		t.Errorf("got %s, want %s", r.body, want)
	}
}

func TestWarning(t *testing.T) {
	total := int64(fiveCallsTokens)
	memory := fiveCalls().Tools
	other := []anthropic.BetaToolUnionParam{toolParam("look"), toolParam("memory")}
	for _, tc := range []struct {
		name  string
		tools []anthropic.BetaToolUnionParam
		edit  anthropic.BetaClearToolUses20250919EditParam
		opts  []claudetest.Option
		want  bool
	}{
		{"far", memory, clearToolUses(total*2, 1), nil, false},
		{"at 80 %", memory, clearToolUses(total*10/8, 1), nil, true},
		{"just below 80 %", memory, clearToolUses(total*10/8+2, 1), nil, false},
		{"beyond the trigger", memory, clearToolUses(total/2, 1), nil, true},
		{"a custom tool with the name", other, clearToolUses(total/2, 1), nil, false},
		{"turned off", memory, clearToolUses(total/2, 1), []claudetest.Option{claudetest.WithWarnAt(0)}, false},
		{"at half", memory, clearToolUses(total*2, 1), []claudetest.Option{claudetest.WithWarnAt(0.5)}, true},
		{"tool uses", memory, anthropic.BetaClearToolUses20250919EditParam{Trigger: anthropic.BetaClearToolUses20250919EditTriggerUnionParam{OfToolUses: &anthropic.BetaToolUsesTriggerParam{Value: 1}}}, nil, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			model := &say{}
			api := claudetest.New(t, claudetest.ModelFunc(func(_ context.Context, req *claudetest.Request) (claudetest.Turn, error) {
				return model.turn(req), nil
			}), append(tc.opts, claudetest.WithTokenCounter(countBytes))...)
			client := api.Client()
			p := fiveCalls()
			p.Tools = tc.tools
			p.ContextManagement.Edits = []anthropic.BetaContextManagementConfigEditUnionParam{{OfClearToolUses20250919: &tc.edit}}
			m, err := client.Beta.Messages.New(t.Context(), p)
			if err != nil {
				t.Fatal(err)
			}
			req := model.requests[0]
			last := req.Messages[len(req.Messages)-1].Content
			warned := last[len(last)-1].Text == claudetest.WarningText
			if (req.Warning != "") != tc.want || warned != tc.want || tc.want && req.Warning != claudetest.WarningText {
				t.Errorf("warning %q, last block %+v", req.Warning, last[len(last)-1])
			}
			if req.LastText() != "" || len(req.ToolResults()) != 1 {
				t.Errorf("the last text is %q, the results %+v", req.LastText(), req.ToolResults())
			}
			tokens := int64(req.OriginalInputTokens)
			for _, e := range req.AppliedEdits {
				tokens -= int64(e.ClearedInputTokens)
			}
			if tc.want {
				tokens += int64(len(claudetest.WarningText))
			}
			if m.Usage.InputTokens != tokens {
				t.Errorf("%d input tokens, want %d", m.Usage.InputTokens, tokens)
			}
		})
	}
}

// A warning after a turn of the assistant's is a message of its own.
func TestWarningAfterAssistant(t *testing.T) {
	model := &say{}
	api := claudetest.New(t, claudetest.ModelFunc(func(_ context.Context, req *claudetest.Request) (claudetest.Turn, error) {
		return model.turn(req), nil
	}))
	edit := fmt.Sprintf(edits, `{"type":"clear_tool_uses_20250919","trigger":{"type":"input_tokens","value":1}}`)
	if r := post(t, api, "/v1/messages", requestBody(join(uHello, aHello), edit)); r.status != 200 {
		t.Fatalf("%s", r.body)
	}
	req := model.requests[0]
	if n := len(req.Messages); n != 3 || req.Messages[2].Role != "user" || req.Messages[2].Content[0].Text != claudetest.WarningText {
		t.Errorf("the model saw %+v", req.Messages)
	}
	if req.LastText() != "Hello" {
		t.Errorf("the last text is %q", req.LastText())
	}
}

// The last results are those since the model spoke, whatever follows them.
func TestLastToolResults(t *testing.T) {
	system := `{"role":"system","content":"Hurry."}`
	warn := fmt.Sprintf(edits, `{"type":"clear_tool_uses_20250919","trigger":{"type":"input_tokens","value":1}}`)
	for name, tc := range map[string]struct{ body, want string }{
		"results":                 {requestBody(join(uHello, aCallA, uA)), "toolu_a"},
		"two messages":            {requestBody(join(uHello, aCallAB, uB, uA)), "toolu_b toolu_a"},
		"text after them":         {requestBody(join(uHello, aCallA, uA, uHello)), "toolu_a"},
		"system message":          {requestBody(join(uHello, aCallA, uA, system)), "toolu_a"},
		"system message, warning": {requestBody(join(uHello, aCallA, uA, system), warn), "toolu_a"},
		"none since":              {requestBody(join(uHello, aCallA, uA, aHello, uHello)), ""},
		"none":                    {requestBody(join(uHello)), ""},
		"the model spoke last":    {requestBody(join(uHello, aCallA, uA, aHello), warn), ""},
	} {
		t.Run(name, func(t *testing.T) {
			model := &say{}
			api := claudetest.New(t, claudetest.ModelFunc(func(_ context.Context, req *claudetest.Request) (claudetest.Turn, error) {
				return model.turn(req), nil
			}))
			if r := post(t, api, "/v1/messages", tc.body); r.status != 200 {
				t.Fatalf("%s", r.body)
			}
			var ids []string
			for _, result := range model.requests[0].ToolResults() {
				ids = append(ids, result.ToolUseID)
			}
			if got := strings.Join(ids, " "); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

func TestClearThinking(t *testing.T) {
	thinking := func(text string) string {
		return `{"role":"assistant","content":[{"type":"thinking","thinking":"` + text + `","signature":"x"},{"type":"redacted_thinking","data":"x"},{"type":"text","text":"Well"}]}`
	}
	messages := join(uHello, thinking("one"), uHello, aHello, uHello, thinking("two"), uHello, thinking("three"), uHello)
	const redacted = len(`{"type":"redacted_thinking","data":"x"}`)
	for _, tc := range []struct{ keep, left, applied string }{
		{``, "three", fmt.Sprintf(`{"cleared_input_tokens":%d,"cleared_thinking_turns":2,"type":"clear_thinking_20251015"}`, len("onetwo")+2*redacted)},
		{`,"keep":{"type":"thinking_turns","value":2}`, "two three", fmt.Sprintf(`{"cleared_input_tokens":%d,"cleared_thinking_turns":1,"type":"clear_thinking_20251015"}`, len("one")+redacted)},
		{`,"keep":{"type":"thinking_turns","value":3}`, "one two three", ``},
		{`,"keep":"all"`, "one two three", ``},
		{`,"keep":{"type":"all"}`, "one two three", ``},
	} {
		model := &say{}
		api := claudetest.New(t, claudetest.ModelFunc(func(_ context.Context, req *claudetest.Request) (claudetest.Turn, error) {
			return model.turn(req), nil
		}), claudetest.WithTokenCounter(countBytes))
		r := post(t, api, "/v1/messages", requestBody(messages, `"thinking":{"type":"adaptive"}`, fmt.Sprintf(edits, `{"type":"clear_thinking_20251015"`+tc.keep+`}`)))
		if want := `"context_management":{"applied_edits":[` + tc.applied + `]}`; !strings.Contains(string(r.body), want) {
			t.Errorf("keep %s: got %s, want %s", tc.keep, r.body, want)
			continue
		}
		var left []string
		redactedLeft := 0
		for _, m := range model.requests[0].Messages {
			for _, b := range m.Content {
				switch b.Type {
				case "thinking":
					left = append(left, b.Text)
				case "redacted_thinking":
					redactedLeft++
				}
			}
		}
		if got := strings.Join(left, " "); got != tc.left || redactedLeft != len(left) {
			t.Errorf("keep %s: the model saw %q and %d more, want %q", tc.keep, got, redactedLeft, tc.left)
		}
	}
}

// Two edits in one request are made one after the other.
func TestTwoEdits(t *testing.T) {
	api := claudetest.New(t, claudetest.Script(claudetest.Say("Done")), claudetest.WithTokenCounter(countBytes), claudetest.WithWarnAt(0))
	call := func(id string) string {
		return `{"role":"assistant","content":[{"type":"thinking","thinking":"` + strings.Repeat("t", 500) + `","signature":"x"},{"type":"tool_use","id":"` + id + `","name":"look","input":{}}]}`
	}
	result := func(id string) string {
		return `{"role":"user","content":[{"type":"tool_result","tool_use_id":"` + id + `","content":"` + strings.Repeat("r", 500) + `"}]}`
	}
	messages := join(uHello, call("a"), result("a"), call("b"), result("b"))
	// 2,000 tokens and a little. Once thinking is cleared, 1,500 and a little are left, which exceeds the trigger.
	edit := func(trigger int) string {
		return fmt.Sprintf(edits, fmt.Sprintf(`{"type":"clear_thinking_20251015"},{"type":"clear_tool_uses_20250919","trigger":{"type":"input_tokens","value":%d},"keep":{"type":"tool_uses","value":1}}`, trigger))
	}
	r := post(t, api, "/v1/messages", requestBody(messages, `"thinking":{"type":"adaptive"}`, edit(1500)))
	var m struct {
		ContextManagement struct {
			AppliedEdits []map[string]any `json:"applied_edits"`
		} `json:"context_management"`
	}
	if err := json.Unmarshal(r.body, &m); err != nil {
		t.Fatal(err)
	}
	want := []map[string]any{
		{"type": "clear_thinking_20251015", "cleared_thinking_turns": 1.0, "cleared_input_tokens": 500.0},
		{"type": "clear_tool_uses_20250919", "cleared_tool_uses": 1.0, "cleared_input_tokens": float64(500 - len(claudetest.ClearedText))},
	}
	if diff := cmp.Diff(want, m.ContextManagement.AppliedEdits); diff != "" {
		t.Errorf("%s\n%s", diff, r.body)
	}
	// Tools of 90 bytes, "Hello", two calls of 506 bytes and two results of 500.
	r = post(t, api, "/v1/messages/count_tokens", requestBody(messages, `"thinking":{"type":"adaptive"}`, edit(1900)))
	if got, want := string(r.body), `{"context_management":{"original_input_tokens":2107},"input_tokens":1607}`; got != want {
		t.Errorf("counted %s, want %s", got, want)
	}
}

// Results that are shorter than what stands for them are cleared all the same, unless clear_at_least asks for more.
func TestShortResultsAreCleared(t *testing.T) {
	for _, tc := range []struct {
		name, atLeast string
		want          string // of cleared_tool_uses
	}{
		{"not set", ``, `"applied_edits":[{"cleared_input_tokens":0,"cleared_tool_uses":2,"type":"clear_tool_uses_20250919"}]`},
		{"0", `,"clear_at_least":{"type":"input_tokens","value":0}`, `"applied_edits":[{"cleared_input_tokens":0,"cleared_tool_uses":2,"type":"clear_tool_uses_20250919"}]`},
		{"1", `,"clear_at_least":{"type":"input_tokens","value":1}`, `"applied_edits":[]`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			api := claudetest.New(t, claudetest.Script(claudetest.Say("Done")))
			edit := `{"type":"clear_tool_uses_20250919","trigger":{"type":"tool_uses","value":1},"keep":{"type":"tool_uses","value":0}` + tc.atLeast + `}`
			r := post(t, api, "/v1/messages", requestBody(join(uHello, aCallA, uA, aCallB, uB), fmt.Sprintf(edits, edit)))
			if !strings.Contains(string(r.body), tc.want) {
				t.Errorf("%s, want %s", r.body, tc.want)
			}
		})
	}
}
