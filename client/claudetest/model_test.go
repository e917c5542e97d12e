package claudetest_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/anthropics/anthropic-sdk-go/v2"

	"github.com/seed-7f2870e1/memoryd/client/claudetest"
)

// What only a mistake in a test can cause is reported to the test, and to the agent as an error of the API.
func TestMistakesAreReported(t *testing.T) {
	model := func(t claudetest.Turn, err error) claudetest.Model {
		return claudetest.ModelFunc(func(context.Context, *claudetest.Request) (claudetest.Turn, error) { return t, err })
	}
	panics := claudetest.ModelFunc(func(context.Context, *claudetest.Request) (claudetest.Turn, error) { panic("oh") })
	for _, tc := range []struct {
		name  string
		model claudetest.Model
		want  string
	}{
		{"script too short", claudetest.Script(), "the script has 0 turns, and this request asks for one more"},
		{"error", model(claudetest.Turn{}, errors.New("no idea")), "no idea"},
		{"panic", panics, "the model panicked: oh"},
		{"empty turn", model(claudetest.Turn{}, nil), "a turn that is empty"},
		{"unknown tool", claudetest.Script(claudetest.Use(claudetest.Call("look", nil))), `calls the tool "look", which the request does not offer`},
		{"known tool made up", claudetest.Script(claudetest.Use(claudetest.CallUnknown("known", nil))), `makes up the tool "known" with CallUnknown, but the request offers it`},
		{"broken block", claudetest.Script(claudetest.Use(claudetest.Block{Type: "text", Raw: json.RawMessage("{")})), "a block whose Raw is not valid JSON: {"},
		{"half a pair in an input", claudetest.Script(claudetest.Use(claudetest.Call("known", json.RawMessage(`{"a":"\ud800"}`)))), `the tool "known" with an input that is not in UTF-8 or has half an escaped surrogate pair`},
		{"half a pair in a block", claudetest.Script(claudetest.Use(claudetest.Raw(`{"type":"text","text":"\ud800"}`))), "a block whose Raw is not in UTF-8 or has half an escaped surrogate pair"},
		{"input not in UTF-8", claudetest.Script(claudetest.Use(claudetest.Call("known", json.RawMessage("{\"a\":\"\xff\"}")))), "with an input that is not in UTF-8"},
		{"broken input", claudetest.Script(claudetest.Use(claudetest.Call("known", json.RawMessage(`{"a":`)))), "an input that is not valid JSON"},
		{"summary", claudetest.Script(claudetest.Turn{Content: []claudetest.Block{claudetest.Summary("s")}}), "a summary, which the request does not ask for"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			rec := &recorder{}
			api := claudetest.New(rec, tc.model)
			client := api.Client()
			p := params(userText("Hello"))
			p.Tools = []anthropic.BetaToolUnionParam{toolParam("known")}
			_, err := client.Beta.Messages.New(t.Context(), p)
			var apiErr *anthropic.Error
			if !errors.As(err, &apiErr) || apiErr.StatusCode != http.StatusInternalServerError || !strings.Contains(apiErr.RawJSON(), "claudetest: ") {
				t.Errorf("answered with %v", err)
			}
			errs := rec.end()
			if len(errs) != 1 || !strings.HasPrefix(errs[0], "claudetest: req_1: ") || !strings.Contains(errs[0], tc.want) {
				t.Errorf("reported %q", errs)
			}
		})
	}
}

// What the API would not take back is reported of a stream too.
func TestMistakesAreReported_Stream(t *testing.T) {
	for name, input := range map[string]string{"half a pair": `{"a":"\ud800"}`, "not UTF-8": "{\"a\":\"\xff\"}"} {
		t.Run(name, func(t *testing.T) {
			rec := &recorder{}
			api := claudetest.New(rec, claudetest.Script(claudetest.Use(claudetest.Call("known", json.RawMessage(input)))))
			p := params(userText("Hello"))
			p.Tools = []anthropic.BetaToolUnionParam{toolParam("known")}
			if _, err := stream(t, api.Client(), p); err == nil {
				t.Error("answered")
			}
			if errs := rec.end(); len(errs) != 1 || !strings.Contains(errs[0], "which the API refuses when it is sent back") {
				t.Errorf("reported %q", errs)
			}
		})
	}
}

// A tool that the model makes up, and one that is gone, can be in a conversation: the runner answers for them.
func TestCallUnknown(t *testing.T) {
	forEachRunner(t, func(t *testing.T, w runWith) {
		var answers []claudetest.ToolResult
		api := claudetest.New(t, claudetest.ModelFunc(func(_ context.Context, req *claudetest.Request) (claudetest.Turn, error) {
			answers = req.ToolResults()
			if len(answers) == 0 {
				return claudetest.Use(claudetest.CallUnknown("nope", map[string]any{})), nil
			}
			return claudetest.Say("Sorry."), nil
		}))
		if _, err := w.run(t, api, nil, nil); err != nil {
			t.Fatal(err)
		}
		if len(answers) != 1 || !answers[0].IsError || answers[0].Text != "Error: Tool 'nope' not found" {
			t.Errorf("the runner answered %+v", answers)
		}
	})
}

// What only a mistake in the counter can cause is reported too.
func TestCounterPanics(t *testing.T) {
	for _, path := range []string{"/v1/messages", "/v1/messages/count_tokens"} {
		rec := &recorder{}
		api := claudetest.New(rec, claudetest.Script(), claudetest.WithTokenCounter(func(string) int { panic("boo") }))
		r := post(t, api, path, hello)
		if got, want := r.errorMessage(t), "claudetest: the token counter panicked: boo"; r.status != 500 || got != want {
			t.Errorf("%s: %d %s", path, r.status, r.body)
		}
		if errs := rec.end(); len(errs) != 1 || errs[0] != "claudetest: req_1: the token counter panicked: boo" {
			t.Errorf("reported %q", errs)
		}
	}
}

func TestScriptNotPlayedToItsEnd(t *testing.T) {
	rec := &recorder{}
	script := claudetest.Script(claudetest.Say("One"), claudetest.Say("Two"), claudetest.Say("Three"))
	api := claudetest.New(rec, script)
	client := api.Client()
	if _, err := client.Beta.Messages.New(t.Context(), params(userText("Hello"))); err != nil {
		t.Fatal(err)
	}
	if script.Remaining() != 2 {
		t.Errorf("%d remain", script.Remaining())
	}
	if errs := rec.end(); len(errs) != 1 || errs[0] != "claudetest: 2 turns of the script were never asked for" {
		t.Errorf("reported %q", errs)
	}
}

// A request that is not valid does not use up a turn.
func TestInvalidRequestTakesNoTurn(t *testing.T) {
	api := claudetest.New(t, claudetest.Script(claudetest.Say("One")))
	if r := post(t, api, "/v1/messages", `{}`); r.status != 400 {
		t.Errorf("status %d", r.status)
	}
	if r := post(t, api, "/v1/messages", hello); r.status != 200 {
		t.Errorf("status %d", r.status)
	}
}

func TestTurns(t *testing.T) {
	base := claudetest.Say("a")
	one, two := base.With(claudetest.Text("b")), base.With(claudetest.Text("c"))
	if len(base.Content) != 1 || one.Content[1].Text != "b" || two.Content[1].Text != "c" {
		t.Errorf("%+v %+v %+v", base, one, two)
	}
	if stopped := base.Stop(claudetest.StopRefusal).Cut(3); base.StopReason != "" || stopped.StopReason != "refusal" || stopped.CutAfter != 3 || base.CutAfter != 0 {
		t.Errorf("%+v %+v", base, stopped)
	}
	for name, fn := range map[string]func(){
		"input":        func() { claudetest.Call("x", func() {}) },
		"raw":          func() { claudetest.Raw("{") },
		"raw, no type": func() { claudetest.Raw("{}") },
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			fn()
		})
	}
}

// Stop reasons, and blocks of all kinds, whole and streamed.
func TestContent(t *testing.T) {
	server := `{"type":"server_tool_use","id":"srvtoolu_1","name":"web_search","input":{"query":"x"}}`
	turn := claudetest.Turn{Content: []claudetest.Block{
		claudetest.Thinking("Let me see: ünder €"),
		claudetest.Raw(server),
		claudetest.Text("Here you are"),
		claudetest.CallWithID("toolu_mine", "look", map[string]int{"n": 1}),
	}}
	for _, tc := range []struct {
		name string
		turn claudetest.Turn
		want anthropic.BetaStopReason
	}{
		{"tool_use", turn, "tool_use"},
		{"refusal", turn.Stop(claudetest.StopRefusal), "refusal"},
		{"max_tokens", turn.Stop(claudetest.StopMaxTokens), "max_tokens"},
		{"pause_turn", turn.Stop(claudetest.StopPauseTurn), "pause_turn"},
		{"stop_sequence", claudetest.Turn{Content: turn.Content, StopReason: claudetest.StopSequence, StopSequence: "END"}, "stop_sequence"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			api := claudetest.New(t, claudetest.Script(tc.turn, tc.turn))
			client := api.Client()
			p := params(userText("Hello"))
			p.Tools = []anthropic.BetaToolUnionParam{toolParam("look")}
			whole, err := client.Beta.Messages.New(t.Context(), p)
			if err != nil {
				t.Fatal(err)
			}
			streamed, err := stream(t, client, p)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range []*anthropic.BetaMessage{whole, &streamed} {
				if m.StopReason != tc.want || m.StopSequence != tc.turn.StopSequence || len(m.Content) != 4 {
					t.Fatalf("got %s", m.RawJSON())
				}
				c := m.Content
				if c[0].Thinking != "Let me see: ünder €" || c[0].Signature == "" || c[1].Name != "web_search" || c[2].Text != "Here you are" || c[3].ID != "toolu_mine" || string(c[3].Input) != `{"n":1}` {
					t.Errorf("got %s", m.RawJSON())
				}
				// All of it can be sent back, where the call has a result or needs none.
				p := params(userText("Hello"), m.ToParam())
				p.Tools = []anthropic.BetaToolUnionParam{toolParam("look")}
				if tc.want != "pause_turn" {
					p.Messages = append(p.Messages, anthropic.NewBetaUserMessage(anthropic.NewBetaToolResultBlock("toolu_mine", "seen", false)))
				}
				if _, err := client.Beta.Messages.CountTokens(t.Context(), countParams(p)); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

func countParams(p anthropic.BetaMessageNewParams) anthropic.BetaMessageCountTokensParams {
	c := anthropic.BetaMessageCountTokensParams{
		Model: p.Model, Messages: p.Messages, ContextManagement: p.ContextManagement, Compaction: p.Compaction, Betas: p.Betas,
	}
	for _, tool := range p.Tools {
		c.Tools = append(c.Tools, anthropic.BetaMessageCountTokensParamsToolUnion{OfTool: tool.OfTool, OfMemoryTool20250818: tool.OfMemoryTool20250818})
	}
	return c
}
