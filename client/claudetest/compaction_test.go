package claudetest_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/anthropics/anthropic-sdk-go/v2"

	"github.com/seed-7f2870e1/memoryd/client/claudetest"
)

// shown says in short what a model is shown.
func shown(req *claudetest.Request) string {
	var all []string
	for _, m := range req.Messages {
		for _, b := range m.Content {
			what := b.Text
			switch b.Type {
			case "tool_use":
				what = "call"
			case "tool_result":
				what = "result"
			case "compaction":
				what = "(" + b.Text + ")"
			}
			all = append(all, m.Role+" "+what)
		}
	}
	return strings.Join(all, ", ")
}

// thousands counts a thousand tokens for every byte of a text of 50 bytes or more, and none for others.
func thousands(text string) int {
	if len(text) < 50 {
		return 0
	}
	return 1000 * len(text)
}

var long = strings.Repeat("x", 60) // 60,000 tokens

func compactParams(pause bool) anthropic.BetaMessageNewParams {
	p := params(userText(long))
	p.Betas = []anthropic.AnthropicBeta{anthropic.AnthropicBetaCompact2026_01_12}
	edit := &anthropic.BetaCompact20260112EditParam{
		Trigger:      anthropic.BetaInputTokensTriggerParam{Value: 60_000},
		Instructions: anthropic.String("Keep names."),
	}
	if pause {
		edit.PauseAfterCompaction = anthropic.Bool(true)
	}
	p.ContextManagement.Edits = []anthropic.BetaContextManagementConfigEditUnionParam{{OfCompact20260112: edit}}
	return p
}

// The edit compact_20260112: a summary comes first in the answer, and stands for what was before it from then on.
func TestCompactEdit(t *testing.T) {
	for _, streaming := range []bool{false, true} {
		for _, pause := range []bool{false, true} {
			t.Run(fmt.Sprintf("streaming %t, pause %t", streaming, pause), func(t *testing.T) {
				var saw []string
				api := claudetest.New(t, claudetest.ModelFunc(func(_ context.Context, req *claudetest.Request) (claudetest.Turn, error) {
					saw = append(saw, shown(req))
					if req.Compacting {
						if req.Instructions != "Keep names." || req.InputTokens != 60_000 {
							t.Errorf("asked to summarize with %q, %d tokens", req.Instructions, req.InputTokens)
						}
						return claudetest.Say("Some x."), nil
					}
					return claudetest.Say("All right."), nil
				}), claudetest.WithTokenCounter(thousands))
				client := api.Client()
				send := func(p anthropic.BetaMessageNewParams) *anthropic.BetaMessage {
					t.Helper()
					if streaming {
						m, err := stream(t, client, p)
						if err != nil {
							t.Fatal(err)
						}
						return &m
					}
					m, err := client.Beta.Messages.New(t.Context(), p)
					if err != nil {
						t.Fatal(err)
					}
					return m
				}

				p := compactParams(pause)
				m := send(p)
				if m.Content[0].Type != "compaction" || m.Content[0].Content.OfString != "Some x." || m.Content[0].Signature != "" {
					t.Errorf("got %s", m.RawJSON())
				}
				if cost := m.Usage.Iterations[0]; cost.Type != "compaction" || cost.InputTokens != 60_000 || cost.OutputTokens != 1 {
					t.Errorf("the summary cost %s", cost.RawJSON())
				}
				if m.Usage.InputTokens != 0 {
					t.Errorf("%d input tokens after the summary", m.Usage.InputTokens)
				}
				if pause {
					if len(m.Content) != 1 || m.StopReason != "compaction" || len(m.Usage.Iterations) != 1 {
						t.Errorf("got %s", m.RawJSON())
					}
				} else if len(m.Content) != 2 || m.Content[1].Text != "All right." || m.StopReason != "end_turn" || len(m.Usage.Iterations) != 2 {
					t.Errorf("got %s", m.RawJSON())
				}

				p.Messages = append(p.Messages, m.ToParam(), userText("And?"))
				send(p)
				want := []string{"user " + long, "assistant (Some x.)", "assistant (Some x.), assistant All right., user And?"}
				if pause {
					want = []string{"user " + long, "assistant (Some x.), user And?"}
				}
				if !slices.Equal(saw, want) {
					t.Errorf("the model saw %q\nwant %q", saw, want)
				}
			})
		}
	}
}

// Below its trigger the edit does nothing.
func TestCompactEditTrigger(t *testing.T) {
	api := claudetest.New(t, claudetest.Script(claudetest.Say("All right.")), claudetest.WithTokenCounter(thousands))
	client := api.Client()
	p := compactParams(false)
	p.Messages[0] = userText(long[1:])
	m, err := client.Beta.Messages.New(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	if m.Content[0].Type != "text" || len(m.Usage.Iterations) != 0 {
		t.Errorf("got %s", m.RawJSON())
	}
}

// What the model may answer when it is asked for a summary.
func TestSummaries(t *testing.T) {
	for _, tc := range []struct {
		name  string
		turns []claudetest.Turn
		want  string // the summary; empty if it failed
		saw   string // at last
	}{
		{"summary", []claudetest.Turn{claudetest.Turn{}.With(claudetest.Summary("Mine")), claudetest.Say("Done")}, "Mine", "assistant (Mine)"},
		{"none in the script", []claudetest.Turn{claudetest.Say("Done")}, claudetest.DefaultSummary, "assistant (" + claudetest.DefaultSummary + ")"},
		{"failed", []claudetest.Turn{claudetest.Turn{}.With(claudetest.Summary("")), claudetest.Say("Done")}, "", "user " + long},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var saw string
			script := claudetest.Script(tc.turns...)
			api := claudetest.New(t, claudetest.ModelFunc(func(ctx context.Context, req *claudetest.Request) (claudetest.Turn, error) {
				saw = shown(req)
				return script.Respond(ctx, req)
			}), claudetest.WithTokenCounter(thousands))
			client := api.Client()
			m, err := client.Beta.Messages.New(t.Context(), compactParams(false))
			if err != nil {
				t.Fatal(err)
			}
			if m.Content[0].Content.OfString != tc.want || m.Content[1].Text != "Done" || script.Remaining() != 0 {
				t.Errorf("got %s", m.RawJSON())
			}
			if tc.want == "" && !strings.Contains(m.RawJSON(), `"type":"compaction","content":null`) {
				t.Errorf("got %s", m.RawJSON())
			}
			if saw != tc.saw {
				t.Errorf("the model saw %q, want %q", saw, tc.saw)
			}
		})
	}
}

// The runners' own compaction, with the compaction parameter.
func TestRunnerCompacts(t *testing.T) {
	forEachRunner(t, func(t *testing.T, w runWith) {
		var saw []string
		calls := 0
		api := claudetest.New(t, claudetest.ModelFunc(func(_ context.Context, req *claudetest.Request) (claudetest.Turn, error) {
			saw = append(saw, shown(req))
			if req.Compacting {
				return claudetest.Turn{}.With(claudetest.Summary(fmt.Sprintf("%d calls", calls))), nil
			}
			calls++
			if calls == 5 {
				return claudetest.Say("Done"), nil
			}
			return claudetest.Use(echo("x")), nil
		}))
		compacted := 0
		last, err := w.run(t, api, func(p *anthropic.BetaToolRunnerParams) {
			p.Betas = []anthropic.AnthropicBeta{anthropic.AnthropicBetaCompact2026_09_04}
		}, func(r runner, m *anthropic.BetaMessage) {
			if m.StopReason == "compaction" {
				compacted++
				if m.Usage.InputTokens != 0 || m.Usage.OutputTokens != 0 || m.Usage.Iterations[0].InputTokens == 0 {
					t.Errorf("usage %s", m.Usage.RawJSON())
				}
				if m.Content[0].Signature == "" || !strings.Contains(m.RawJSON(), `"tool_changes":[]`) {
					t.Errorf("got %s", m.RawJSON())
				}
			} else if calls == 2 || calls == 4 {
				r.CompactBeforeNextTurn(anthropic.BetaCompactionConfigUnionParam{})
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		if last.Content[0].Text != "Done" || compacted != 2 {
			t.Errorf("%d summaries, the end is %s", compacted, last.RawJSON())
		}
		want := []string{
			"user Go on",
			"user Go on, assistant call, user result",
			"user Go on, assistant call, user result, assistant call, user result",
			"assistant (2 calls)",
			"assistant (2 calls), assistant call, user result",
			"assistant (2 calls), assistant call, user result, assistant call, user result",
			"assistant (4 calls)",
		}
		if !slices.Equal(saw, want) {
			t.Errorf("the model saw %q\nwant %q", saw, want)
		}
	})
}

// Tools that were added and removed stay so when a summary stands for the messages that did it.
func TestRunnerCompactsToolChanges(t *testing.T) {
	forEachRunner(t, func(t *testing.T, w runWith) {
		var offered []string
		calls := 0
		api := claudetest.New(t, claudetest.ModelFunc(func(_ context.Context, req *claudetest.Request) (claudetest.Turn, error) {
			names := ""
			for _, tool := range req.Tools {
				names += tool.Name + " "
			}
			offered = append(offered, names)
			if req.Compacting {
				return claudetest.Turn{}, nil
			}
			calls++
			switch calls {
			case 1:
				return claudetest.Use(echo("x")), nil
			case 2, 3:
				return claudetest.Use(claudetest.Call("other", map[string]string{"text": "x"})), nil
			}
			return claudetest.Say("Done"), nil
		}))
		_, err := w.run(t, api, func(p *anthropic.BetaToolRunnerParams) {
			p.Betas = []anthropic.AnthropicBeta{anthropic.AnthropicBetaCompact2026_09_04, anthropic.AnthropicBetaInlineTools2026_09_15}
		}, func(r runner, m *anthropic.BetaMessage) {
			switch {
			case m.StopReason == "compaction":
			case calls == 1:
				r.AddTools(otherTool{})
				r.RemoveToolsByNames("echo")
			case calls == 2:
				r.CompactBeforeNextTurn(anthropic.BetaCompactionConfigUnionParam{})
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		if want := []string{"echo ", "other ", "other ", "other ", "other "}; !slices.Equal(offered, want) {
			t.Errorf("offered %q, want %q", offered, want)
		}
	})
}

// The blocks of compaction requests, sent back wrongly.
func TestCompactionBlocks(t *testing.T) {
	api := claudetest.New(t, claudetest.ModelFunc(func(context.Context, *claudetest.Request) (claudetest.Turn, error) {
		return claudetest.Say("Short."), nil
	}))
	r := post(t, api, "/v1/messages", requestBody(uHello, `"compaction":{"type":"summarize","instructions":" "}`))
	var m struct{ Content []json.RawMessage }
	if err := json.Unmarshal(r.body, &m); err != nil || len(m.Content) != 1 {
		t.Fatalf("%d %s", r.status, r.body)
	}
	block := string(m.Content[0])
	assistant := func(block string) string { return `{"role":"assistant","content":[` + block + `]}` }
	compacted := assistant(block)
	for _, tc := range []struct {
		name, body string
		status     int
		text       string
	}{
		{"first", requestBody(join(compacted, uHello)), 200, `"id":"msg_`},
		{"alone", requestBody(compacted), 200, `"id":"msg_`},
		{"compacted again", requestBody(join(compacted, uHello), `"compaction":{"type":"summarize"}`), 200, `"stop_reason":"compaction"`},
		{"misplaced", requestBody(join(uHello, compacted)), 400, `"compaction_block_misplaced"`},
		{"twice", requestBody(join(compacted, compacted)), 400, `"compaction_block_ambiguous"`},
		{"other content", requestBody(assistant(strings.Replace(block, "Short.", "Other.", 1))), 400, `"compaction_content_mismatch"`},
		{"other signature", requestBody(assistant(`{"type":"compaction","content":"x","signature":"c2ln"}`)), 400, `"compaction_signature_invalid"`},
		{"with the edit", requestBody(join(compacted, uHello), fmt.Sprintf(edits, `{"type":"compact_20260112"}`)), 400, "cannot be combined with the edit `compact_20260112`"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if r := post(t, api, "/v1/messages", tc.body); r.status != tc.status || !strings.Contains(string(r.body), tc.text) {
				t.Errorf("%d %s", r.status, r.body)
			}
		})
	}
	// count_tokens takes the parameter and ignores it.
	if r := post(t, api, "/v1/messages/count_tokens", requestBody(uHello, `"compaction":{"type":"summarize"}`, fmt.Sprintf(edits, ""))); r.status != 200 {
		t.Errorf("%d %s", r.status, r.body)
	}
}

// A turn that was paused with calls in it cannot be summarized.
func TestCompactionOfPausedTurn(t *testing.T) {
	api := claudetest.New(t, claudetest.Script(claudetest.Use(claudetest.Call("look", nil)).Stop(claudetest.StopPauseTurn)))
	r := post(t, api, "/v1/messages", requestBody(uHello))
	var m struct{ Content json.RawMessage }
	if err := json.Unmarshal(r.body, &m); err != nil {
		t.Fatal(err)
	}
	paused := strings.Replace(`{"role":"assistant","content":`+string(m.Content)+`}`, `"input":null`, `"input":{}`, 1)
	r = post(t, api, "/v1/messages", requestBody(join(uHello, paused), `"compaction":{"type":"summarize"}`))
	if r.status != 400 || !strings.Contains(string(r.body), `"compaction_incomplete_turn"`) {
		t.Errorf("%d %s", r.status, r.body)
	}
}

// The failure of a request for a summary is the failure of the request.
func TestSummaryFails(t *testing.T) {
	api := claudetest.New(t, claudetest.ModelFunc(func(_ context.Context, req *claudetest.Request) (claudetest.Turn, error) {
		if req.Compacting {
			return claudetest.Fail(claudetest.Overloaded()), nil
		}
		return claudetest.Say("All right."), nil
	}), claudetest.WithTokenCounter(thousands))
	client := api.Client()
	if _, err := client.Beta.Messages.New(t.Context(), compactParams(false)); err == nil || !strings.Contains(err.Error(), "529") {
		t.Errorf("got %v", err)
	}
}
