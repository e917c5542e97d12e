package anthropictool_test

import (
	"encoding/json"
	"testing"

	"github.com/anthropics/anthropic-sdk-go/v2"
	"github.com/google/go-cmp/cmp"

	"github.com/seed-7f2870e1/memoryd/client"
	"github.com/seed-7f2870e1/memoryd/client/anthropictool"
	"github.com/seed-7f2870e1/memoryd/client/claudetest"
	"github.com/seed-7f2870e1/memoryd/server/servertest"
)

// definition is the memory tool as it goes on the wire.
const definition = `{"name":"memory","type":"memory_20250818"}`

// The model is offered the built-in tool and nothing else, whatever the runner.
func TestWire_Runners(t *testing.T) {
	memory := servertest.New(t).Client.Handler(namespace)
	forEachAgent(t, func(t *testing.T, start func(*claudetest.API, *client.Handler) agent) {
		api := claudetest.New(t, claudetest.Script(use(view("/memories")), claudetest.Say("Done.")))
		mustRun(t, start(api, memory))

		requests := api.Requests()
		if len(requests) != 2 {
			t.Fatalf("%d requests, want 2", len(requests))
		}
		if got, want := member(t, requests[0], "tools"), `[`+definition+`]`; got != want {
			t.Errorf("first request: tools %s, want %s", got, want)
		}
		want := `[` + definition + `]`
		if member(t, requests[1], "thread") != "" {
			want = "" // the thread has them
		}
		if got := member(t, requests[1], "tools"); got != want {
			t.Errorf("second request: tools %s, want %s", got, want)
		}
		for _, beta := range requests[0].Betas {
			if beta != claudetest.BetaThreads {
				t.Errorf("beta header %s, which the memory tool does not need", beta)
			}
		}
	})
}

// What the doc comments warn of: a tool without its definition, and one that is given to AddTools, is a custom one.
func TestWire_WithoutTheDefinition(t *testing.T) {
	memory := servertest.New(t).Client.Handler(namespace)
	custom := func(t *testing.T, tool []byte) {
		t.Helper()
		var got struct {
			Name, Description string
			Type              *string
			InputSchema       struct {
				Type       string
				Properties map[string]json.RawMessage
				Required   []string
			} `json:"input_schema"`
		}
		if err := json.Unmarshal(tool, &got); err != nil {
			t.Fatalf("%s: %v", tool, err)
		}
		if got.Name != "memory" || got.Description == "" || got.Type != nil || got.InputSchema.Type != "object" ||
			len(got.InputSchema.Properties) != 10 || cmp.Diff(got.InputSchema.Required, []string{"command"}) != "" {
			t.Errorf("got %s, want a custom tool", tool)
		}
	}
	t.Run("New alone", func(t *testing.T) {
		api := claudetest.New(t, claudetest.Script(claudetest.Say("Done.")))
		claude := api.Client()
		mustRun(t, claude.Beta.Messages.NewToolRunner([]anthropic.BetaTool{anthropictool.New(memory)}, runnerParams(false)))
		var tools []json.RawMessage
		if err := json.Unmarshal([]byte(member(t, api.Requests()[0], "tools")), &tools); err != nil || len(tools) != 1 {
			t.Fatalf("%d tools, %v", len(tools), err)
		}
		custom(t, tools[0])
	})
	t.Run("AddTools", func(t *testing.T) {
		api := claudetest.New(t, claudetest.Script(claudetest.Say("Done.")))
		claude := api.Client()
		runner := claude.Beta.Messages.NewToolRunner(nil, runnerParams(true))
		runner.Params.Betas = []anthropic.AnthropicBeta{anthropic.AnthropicBetaInlineTools2026_09_15}
		runner.AddTools(anthropictool.New(memory))
		mustRun(t, runner)
		var messages []struct {
			Role    string
			Content []struct {
				Tool struct{ Definition json.RawMessage }
			}
		}
		if err := json.Unmarshal([]byte(member(t, api.Requests()[0], "messages")), &messages); err != nil {
			t.Fatal(err)
		}
		last := messages[len(messages)-1]
		if last.Role != "system" {
			t.Fatalf("the last message is %+v", last)
		}
		custom(t, last.Content[0].Tool.Definition)
	})
}

func TestWire_MessageParams(t *testing.T) {
	api := claudetest.New(t, claudetest.Script(claudetest.Say("Done.")))
	claude := api.Client()
	_, err := claude.Messages.New(t.Context(), anthropictool.MessageParams(anthropic.MessageNewParams{
		Model: anthropic.ModelClaudeSonnet5_5, MaxTokens: 1024,
		Messages: []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock("Go on."))},
	}))
	if err != nil {
		t.Fatal(err)
	}
	request := api.Requests()[0]
	if got, want := member(t, request, "tools"), `[`+definition+`]`; got != want || len(request.Betas) != 0 {
		t.Errorf("tools %s, beta headers %q, want %s and none", got, request.Betas, want)
	}
}

func TestParams(t *testing.T) {
	search := anthropic.BetaToolUnionParam{OfTool: &anthropic.BetaToolParam{Name: "search"}}
	const searchJSON = `{"name":"search"}`
	own := anthropic.BetaToolUnionParam{OfTool: &anthropic.BetaToolParam{Name: "memory"}}
	const ownJSON = `{"name":"memory"}`
	cached := anthropic.BetaMemoryTool20250818Param{CacheControl: anthropic.NewBetaCacheControlEphemeralParam()}
	const cachedJSON = `{"cache_control":{"type":"ephemeral"},"name":"memory","type":"memory_20250818"}`
	for _, tt := range []struct {
		name       string
		tools      []anthropic.BetaToolUnionParam
		definition []anthropic.BetaMemoryTool20250818Param
		want       string
	}{
		{"no tools", nil, nil, `[` + definition + `]`},
		{"other tools", []anthropic.BetaToolUnionParam{search}, nil, `[` + searchJSON + `,` + definition + `]`},
		{
			"definition",
			[]anthropic.BetaToolUnionParam{search},
			[]anthropic.BetaMemoryTool20250818Param{cached},
			`[` + searchJSON + `,` + cachedJSON + `]`,
		},
		{
			"there already",
			[]anthropic.BetaToolUnionParam{{OfMemoryTool20250818: &cached}, search},
			nil,
			`[` + cachedJSON + `,` + searchJSON + `]`,
		},
		{"another tool of the name", []anthropic.BetaToolUnionParam{own}, nil, `[` + ownJSON + `]`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			spare := append(make([]anthropic.BetaToolUnionParam, 0, 10), tt.tools...)
			got := anthropictool.Params(anthropic.BetaMessageNewParams{Tools: spare}, tt.definition...)
			checkTools(t, got.Tools, tt.want)
			thread := anthropictool.ThreadParams(anthropic.BetaMessageThreadCreateParams{Tools: spare}, tt.definition...)
			checkTools(t, thread.Tools, tt.want)
			checkTools(t, spare[:cap(spare)][len(spare)], `null`) // it is not written to
			checkTools(t, anthropictool.Params(got).Tools, tt.want)
		})
	}

	message := anthropictool.MessageParams(anthropic.MessageNewParams{Tools: []anthropic.ToolUnionParam{
		{OfTool: &anthropic.ToolParam{Name: "search"}},
	}}, anthropic.MemoryTool20250818Param{CacheControl: anthropic.NewCacheControlEphemeralParam()})
	checkTools(t, message.Tools, `[`+searchJSON+`,`+cachedJSON+`]`)
	checkTools(t, anthropictool.MessageParams(message).Tools, `[`+searchJSON+`,`+cachedJSON+`]`)
}

func checkTools(t *testing.T, tools any, want string) {
	t.Helper()
	got, err := json.Marshal(tools)
	if err != nil || string(got) != want {
		t.Errorf("got %s, %v, want %s", got, err, want)
	}
}
