package claudetest_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/anthropics/anthropic-sdk-go/v2"
	"github.com/anthropics/anthropic-sdk-go/v2/option"

	"github.com/seed-7f2870e1/memoryd/client/claudetest"
)

// echoTool answers with its input's text.
type echoTool struct{}

func (echoTool) Name() string        { return "echo" }
func (echoTool) Description() string { return "Says it again." }

func (echoTool) InputSchema() anthropic.BetaToolInputSchemaParam {
	return anthropic.BetaToolInputSchemaParam{Properties: map[string]any{"text": map[string]any{"type": "string"}}}
}

func (echoTool) Execute(_ context.Context, input json.RawMessage) ([]anthropic.BetaToolResultBlockParamContentUnion, error) {
	var in struct{ Text string }
	if err := json.Unmarshal(input, &in); err != nil {
		return nil, err
	}
	if in.Text == "" {
		return nil, fmt.Errorf("there is no text in %s", input)
	}
	return []anthropic.BetaToolResultBlockParamContentUnion{{OfText: &anthropic.BetaTextBlockParam{Text: in.Text}}}, nil
}

func echo(text string) claudetest.Block {
	return claudetest.Call("echo", map[string]string{"text": text})
}

func runnerParams(disableThread bool) anthropic.BetaToolRunnerParams {
	p := anthropic.BetaToolRunnerParams{BetaMessageNewParams: params(userText("Go on")), DisableThread: disableThread}
	p.System = []anthropic.BetaTextBlockParam{{Text: "Be brief."}}
	return p
}

// runner is either of the SDK's runners.
type runner interface {
	LastMessage() *anthropic.BetaMessage
	CompactBeforeNextTurn(anthropic.BetaCompactionConfigUnionParam)
	AddTools(...anthropic.BetaTool)
	RemoveToolsByNames(...string)
	Err() error
}

// forEachRunner runs a test with both runners, on a thread and without.
func forEachRunner(t *testing.T, test func(t *testing.T, run runWith)) {
	for _, disableThread := range []bool{false, true} {
		for _, streaming := range []bool{false, true} {
			name := "plain"
			if streaming {
				name = "streaming"
			}
			if !disableThread {
				name += ", thread"
			}
			t.Run(name, func(t *testing.T) {
				test(t, runWith{disableThread, streaming})
			})
		}
	}
}

type runWith struct{ disableThread, streaming bool }

// run runs a runner to its end, calling each after every message, and returns the last message.
func (w runWith) run(t *testing.T, api *claudetest.API, change func(*anthropic.BetaToolRunnerParams), each func(runner, *anthropic.BetaMessage), opts ...option.RequestOption) (*anthropic.BetaMessage, error) {
	t.Helper()
	client := api.Client()
	p := runnerParams(w.disableThread)
	if change != nil {
		change(&p)
	}
	tools := []anthropic.BetaTool{echoTool{}}
	if !w.streaming {
		r := client.Beta.Messages.NewToolRunner(tools, p, opts...)
		for m, err := range r.All(t.Context()) {
			if err != nil {
				return nil, err
			}
			if each != nil {
				each(r, m)
			}
		}
		return r.LastMessage(), nil
	}
	r := client.Beta.Messages.NewToolRunnerStreaming(tools, p, opts...)
	for events := range r.AllStreaming(t.Context()) {
		for _, err := range events {
			if err != nil {
				return nil, err
			}
		}
		if each != nil {
			each(r, r.LastMessage())
		}
	}
	return r.LastMessage(), r.Err()
}

func TestToolRunner(t *testing.T) {
	forEachRunner(t, func(t *testing.T, w runWith) {
		var seen [][]claudetest.ToolResult
		turns := []claudetest.Turn{
			claudetest.Use(echo("Zürich \"<&>\"\n日本"), claudetest.Call("echo", json.RawMessage(`{ "text" : "\u00fc\ud83d\ude00" }`)), claudetest.Call("echo", struct{}{})),
			claudetest.Say("Once more").With(echo(strings.Repeat("long ", 12_000))),
			claudetest.Say("Done"),
		}
		api := claudetest.New(t, claudetest.ModelFunc(func(_ context.Context, req *claudetest.Request) (claudetest.Turn, error) {
			seen = append(seen, req.ToolResults())
			if req.System != "Be brief." || !req.HasTool("echo") {
				t.Errorf("the model saw %+v", req)
			}
			return turns[len(seen)-1], nil
		}))
		last, err := w.run(t, api, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		if last.Content[0].Text != "Done" || last.StopReason != "end_turn" {
			t.Errorf("the end is %s", last.RawJSON())
		}
		want := [][]claudetest.ToolResult{
			nil,
			{
				{ToolUseID: "toolu_1", Text: "Zürich \"<&>\"\n日本"},
				{ToolUseID: "toolu_2", Text: "ü😀"},
				{ToolUseID: "toolu_3", IsError: true, Text: "Error: there is no text in {}"},
			},
			{{ToolUseID: "toolu_4", Text: strings.Repeat("long ", 12_000)}},
		}
		if len(seen) != 3 || !slices.Equal(seen[1], want[1]) || !slices.Equal(seen[2], want[2]) {
			t.Errorf("the model saw %+v", seen)
		}
		if threaded := strings.Contains(string(api.Requests()[1].Body), `"thread"`); threaded == w.disableThread {
			t.Errorf("sent %s", api.Requests()[1].Body)
		}
	})
}

// Turns that a runner does not run the tools of.
func TestToolRunnerStops(t *testing.T) {
	forEachRunner(t, func(t *testing.T, w runWith) {
		for _, reason := range []string{claudetest.StopRefusal, claudetest.StopMaxTokens} {
			api := claudetest.New(t, claudetest.Script(claudetest.Use(echo("x")).Stop(reason)))
			last, err := w.run(t, api, nil, nil)
			if err != nil {
				t.Fatal(err)
			}
			if string(last.StopReason) != reason {
				t.Errorf("stopped with %s", last.StopReason)
			}
		}
	})
}

// A paused turn is sent back as it is, its calls without results.
func TestToolRunnerPause(t *testing.T) {
	forEachRunner(t, func(t *testing.T, w runWith) {
		api := claudetest.New(t, claudetest.Script(
			claudetest.Say("Looking").With(echo("not run")).Stop(claudetest.StopPauseTurn),
			claudetest.Use(echo("run")),
			claudetest.Say("Done"),
		))
		last, err := w.run(t, api, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		if last.Content[0].Text != "Done" {
			t.Errorf("the end is %s", last.RawJSON())
		}
	})
}

// The text of a paused turn may end in white space when it is sent back, any other may not.
func TestToolRunnerPausedText(t *testing.T) {
	for name, text := range map[string]claudetest.Block{
		"text": claudetest.Text("Looking: \n"),
		"raw":  claudetest.Raw(`{"type":"text","text":"Looking: \n","citations":null}`),
	} {
		t.Run(name, func(t *testing.T) {
			forEachRunner(t, func(t *testing.T, w runWith) {
				api := claudetest.New(t, claudetest.Script(
					claudetest.Use(echo("not run"), text).Stop(claudetest.StopPauseTurn),
					claudetest.Say("Done"),
				))
				last, err := w.run(t, api, nil, nil)
				if err != nil {
					t.Fatal(err)
				}
				if last.Content[0].Text != "Done" {
					t.Errorf("the end is %s", last.RawJSON())
				}
				r := post(t, api, "/v1/messages", requestBody(join(uHello, `{"role":"assistant","content":"Looking:  "}`)))
				if want := "messages: final assistant content cannot end with trailing whitespace"; r.errorMessage(t) != want {
					t.Errorf("another text: %d %s", r.status, r.body)
				}
			})
		})
	}
}

func TestToolRunnerChangesTools(t *testing.T) {
	forEachRunner(t, func(t *testing.T, w runWith) {
		var offered [][]string
		turns := []claudetest.Turn{
			claudetest.Use(echo("one")), claudetest.Use(claudetest.Call("other", map[string]string{"text": "two"})),
			claudetest.Use(claudetest.Call("other", map[string]string{"text": "three"})), claudetest.Say("Done"),
		}
		api := claudetest.New(t, claudetest.ModelFunc(func(_ context.Context, req *claudetest.Request) (claudetest.Turn, error) {
			var names []string
			for _, tool := range req.Tools {
				names = append(names, tool.Name)
			}
			if results := req.ToolResults(); (len(results) == 1) != (len(offered) > 0) {
				t.Errorf("request %d has the results %+v", len(offered), results)
			}
			offered = append(offered, names)
			return turns[len(offered)-1], nil
		}))
		_, err := w.run(t, api, func(p *anthropic.BetaToolRunnerParams) {
			p.Betas = []anthropic.AnthropicBeta{anthropic.AnthropicBetaInlineTools2026_09_15}
		}, func(r runner, _ *anthropic.BetaMessage) {
			switch len(offered) {
			case 1:
				r.AddTools(otherTool{})
			case 2:
				r.RemoveToolsByNames("echo")
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		want := [][]string{{"echo"}, {"echo", "other"}, {"other"}, {"other"}}
		if !slices.EqualFunc(offered, want, slices.Equal[[]string]) {
			t.Errorf("offered %q", offered)
		}
	})
}

type otherTool struct{ echoTool }

func (otherTool) Name() string { return "other" }
