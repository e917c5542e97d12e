package agentkit

import (
	"encoding/json"
	"reflect"
	"slices"
	"testing"

	"github.com/anthropics/anthropic-sdk-go/v2"
	"github.com/google/go-cmp/cmp"

	"github.com/seed-7f2870e1/memoryd/client/claudetest"
)

// The edits as they are on the wire.
func TestContextManagement(t *testing.T) {
	for _, tt := range []struct {
		name       string
		strategies []Strategy
		want       string
		betas      []string
	}{
		{name: "nothing", want: `{}`},
		{
			name: "defaults of the API", strategies: []Strategy{ClearToolUses{}},
			want:  `{"edits":[{"exclude_tools":["memory"],"type":"clear_tool_uses_20250919"}]}`,
			betas: []string{"context-management-2025-06-27"},
		},
		{
			name: "input tokens",
			strategies: []Strategy{ClearToolUses{
				AtInputTokens: anthropic.Int(30_000), Keep: anthropic.Int(3), ClearAtLeast: anthropic.Int(5_000),
				ExcludeTools: []string{"web_search"}, ClearInputs: true,
			}},
			want: `{"edits":[{"clear_tool_inputs":true,"exclude_tools":["web_search","memory"],` +
				`"clear_at_least":{"value":5000,"type":"input_tokens"},"keep":{"value":3,"type":"tool_uses"},` +
				`"trigger":{"value":30000,"type":"input_tokens"},"type":"clear_tool_uses_20250919"}]}`,
			betas: []string{"context-management-2025-06-27"},
		},
		{
			name: "tool uses, and zeros",
			strategies: []Strategy{ClearToolUses{
				AtToolUses: anthropic.Int(1), Keep: anthropic.Int(0), ClearAtLeast: anthropic.Int(0),
				ExcludeTools: []string{"memory", "a"}, ClearInputsOf: []string{"b", "c"},
			}},
			want: `{"edits":[{"clear_tool_inputs":["b","c"],"exclude_tools":["memory","a"],` +
				`"clear_at_least":{"value":0,"type":"input_tokens"},"keep":{"value":0,"type":"tool_uses"},` +
				`"trigger":{"value":1,"type":"tool_uses"},"type":"clear_tool_uses_20250919"}]}`,
			betas: []string{"context-management-2025-06-27"},
		},
		{
			name: "memory too", strategies: []Strategy{ClearToolUses{ClearMemory: true}},
			want:  `{"edits":[{"type":"clear_tool_uses_20250919"}]}`,
			betas: []string{"context-management-2025-06-27"},
		},
		{
			name: "compaction, defaults of the API", strategies: []Strategy{Compact{}},
			want:  `{"edits":[{"type":"compact_20260112"}]}`,
			betas: []string{"compact-2026-01-12"},
		},
		{
			name: "compaction",
			strategies: []Strategy{Compact{
				AtInputTokens: anthropic.Int(50_000), Instructions: "Keep the names.", PauseAfter: true,
			}},
			want: `{"edits":[{"instructions":"Keep the names.","pause_after_compaction":true,` +
				`"trigger":{"value":50000,"type":"input_tokens"},"type":"compact_20260112"}]}`,
			betas: []string{"compact-2026-01-12"},
		},
		{
			name:       "both",
			strategies: []Strategy{ClearToolUses{ClearMemory: true}, Compact{}},
			want:       `{"edits":[{"type":"clear_tool_uses_20250919"},{"type":"compact_20260112"}]}`,
			betas:      []string{"context-management-2025-06-27", "compact-2026-01-12"},
		},
		{
			name:       "on demand beside clearing",
			strategies: []Strategy{CompactOnDemand{AtInputTokens: 1}, ClearToolUses{ClearMemory: true}},
			want:       `{"edits":[{"type":"clear_tool_uses_20250919"}]}`,
			betas:      []string{"compact-2026-09-04", "context-management-2025-06-27"},
		},
		{
			name:       "both, the wrong way round",
			strategies: []Strategy{Compact{}, ClearToolUses{ClearMemory: true}},
			want:       `{"edits":[{"type":"clear_tool_uses_20250919"},{"type":"compact_20260112"}]}`,
			betas:      []string{"compact-2026-01-12", "context-management-2025-06-27"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			config, err := ContextManagement(tt.strategies...)
			if err != nil {
				t.Fatal(err)
			}
			checkJSON(t, config, tt.want)

			api := claudetest.New(t, claudetest.Script(claudetest.Say("Hello.")))
			params, err := ManageContext(ask("Hello?"), tt.strategies...)
			if err != nil {
				t.Fatal(err)
			}
			client := api.Client()
			if _, err := client.Beta.Messages.New(t.Context(), params); err != nil {
				t.Fatal(err)
			}
			sent := api.Requests()[0]
			if diff := cmp.Diff(tt.betas, sent.Betas); diff != "" {
				t.Errorf("betas (-want +got):\n%s", diff)
			}
			var body struct {
				ContextManagement json.RawMessage `json:"context_management"`
			}
			if err := json.Unmarshal(sent.Body, &body); err != nil {
				t.Fatal(err)
			}
			want := tt.want
			if want == `{}` {
				want = ""
			}
			if got := string(body.ContextManagement); got != want {
				t.Errorf("got %s on the wire, want %s", got, want)
			}
		})
	}
}

func TestContextManagement_Errors(t *testing.T) {
	for _, tt := range []struct {
		strategy Strategy
		want     string
	}{
		{ClearToolUses{AtInputTokens: anthropic.Int(0)}, "clear tool uses: AtInputTokens must be at least 1, got 0"},
		{ClearToolUses{AtToolUses: anthropic.Int(-1)}, "AtToolUses must be at least 1, got -1"},
		{ClearToolUses{Keep: anthropic.Int(-1)}, "Keep must be at least 0, got -1"},
		{ClearToolUses{ClearAtLeast: anthropic.Int(-1)}, "ClearAtLeast must be at least 0, got -1"},
		{ClearToolUses{AtInputTokens: anthropic.Int(1), AtToolUses: anthropic.Int(1)}, "two triggers"},
		{ClearToolUses{ClearInputs: true, ClearInputsOf: []string{"a"}}, "there can be one of them"},
		{ClearToolUses{ExcludeTools: []string{"a", ""}}, "ExcludeTools has an empty name"},
		{ClearToolUses{ClearInputsOf: []string{""}}, "ClearInputsOf has an empty name"},
		{ClearToolUses{ClearMemory: true, ExcludeTools: []string{"a", "memory"}}, "ClearMemory clears what ExcludeTools excludes"},
		{nil, "strategy 1 is nil"},
		{(*Compact)(nil), "strategy 1 is nil"},
		{Compact{AtInputTokens: anthropic.Int(49_999)}, "compact: AtInputTokens must be at least 50000, got 49999"},
		{CompactOnDemand{AtInputTokens: -1}, "compact on demand: AtInputTokens must be at least 0, got -1"},
	} {
		_, err := ContextManagement(tt.strategy)
		checkErrorHas(t, err, tt.want)
		_, err = ManageContext(ask(""), tt.strategy)
		checkErrorHas(t, err, "manage context: ")
		checkErrorHas(t, err, tt.want)
	}
}

func TestManageContext_WhatCannotGoTogether(t *testing.T) {
	_, err := ManageContext(ask(""), Compact{}, CompactOnDemand{})
	checkErrorHas(t, err, "Compact and CompactOnDemand cannot be used together")
	_, err = ContextManagement(Compact{}, CompactOnDemand{})
	checkErrorHas(t, err, "Compact and CompactOnDemand cannot be used together")

	for _, strategies := range [][]Strategy{
		{Compact{PauseAfter: true}, Compact{}},
		{ClearToolUses{}, Compact{}, &ClearToolUses{}},
		{CompactOnDemand{}, CompactOnDemand{}},
	} {
		_, err = ManageContext(ask(""), strategies...)
		checkErrorHas(t, err, "is of the same type as one before it")
		_, err = ContextManagement(strategies...)
		checkErrorHas(t, err, "is of the same type as one before it")
	}

	params, err := ManageContext(ask(""), Compact{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = ManageContext(params, CompactOnDemand{})
	checkErrorHas(t, err, "Compact and CompactOnDemand cannot be used together")

	params = ask("")
	params.Compaction = CompactOnDemand{}.Config()
	_, err = ManageContext(params, ClearToolUses{})
	checkErrorHas(t, err, "a request with the parameter compaction cannot have context edits")
	if _, err = ManageContext(params, CompactOnDemand{}); err != nil {
		t.Errorf("got %v, want no error", err)
	}
}

// Clearing comes before compaction, whichever of them is there already, and in whichever order.
func TestManageContext_Order(t *testing.T) {
	thinking := anthropic.BetaContextManagementConfigEditUnionParam{OfClearThinking20251015: &anthropic.BetaClearThinking20251015EditParam{}}
	clearing := anthropic.BetaContextManagementConfigEditUnionParam{OfClearToolUses20250919: &anthropic.BetaClearToolUses20250919EditParam{}}
	compaction := anthropic.BetaContextManagementConfigEditUnionParam{OfCompact20260112: &anthropic.BetaCompact20260112EditParam{}}
	type edits = []anthropic.BetaContextManagementConfigEditUnionParam
	for name, tt := range map[string]struct {
		there    edits
		strategy Strategy
	}{
		"clearing to compaction":       {edits{thinking, compaction}, ClearToolUses{ClearMemory: true}},
		"compaction to clearing":       {edits{thinking, clearing}, Compact{}},
		"clearing, the wrong order":    {edits{thinking, compaction, clearing}, ClearToolUses{ClearMemory: true}},
		"compaction, the wrong order":  {edits{thinking, compaction, clearing}, Compact{}},
		"clearing, the right order":    {edits{thinking, clearing, compaction}, ClearToolUses{ClearMemory: true}},
		"compaction, the right order":  {edits{thinking, clearing, compaction}, Compact{}},
		"on demand, nothing to change": {edits{thinking, clearing}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			params := ask("Hello?")
			params.ContextManagement.Edits = slices.Clone(tt.there)
			strategies := []Strategy{tt.strategy}
			want := `{"edits":[{"type":"clear_thinking_20251015"},{"type":"clear_tool_uses_20250919"},{"type":"compact_20260112"}]}`
			if tt.strategy == nil {
				strategies = []Strategy{CompactOnDemand{}}
				want = `{"edits":[{"type":"clear_thinking_20251015"},{"type":"clear_tool_uses_20250919"}]}`
			}
			managed, err := ManageContext(params, strategies...)
			if err != nil {
				t.Fatal(err)
			}
			checkJSON(t, managed.ContextManagement, want)
			if !reflect.DeepEqual(params.ContextManagement.Edits, tt.there) {
				t.Error("the edits of the caller have changed")
			}
		})
	}
}

// What the caller has stays as it was, with room in its slices or without.
func TestManageContext_KeepsTheCallersSlices(t *testing.T) {
	params := ask("Hello?")
	params.Betas = append(make([]anthropic.AnthropicBeta, 0, 8), "mine", BetaContextManagement)
	params.ContextManagement.Edits = append(
		make([]anthropic.BetaContextManagementConfigEditUnionParam, 0, 8),
		anthropic.BetaContextManagementConfigEditUnionParam{
			OfClearThinking20251015: &anthropic.BetaClearThinking20251015EditParam{},
		},
		anthropic.BetaContextManagementConfigEditUnionParam{
			OfClearToolUses20250919: &anthropic.BetaClearToolUses20250919EditParam{ExcludeTools: []string{"mine"}},
		},
	)
	exclude := append(make([]string, 0, 8), "web")
	managed, err := ManageContext(params, Compact{}, ClearToolUses{ExcludeTools: exclude})
	if err != nil {
		t.Fatal(err)
	}
	checkJSON(t, managed.ContextManagement, `{"edits":[{"type":"clear_thinking_20251015"},`+
		`{"exclude_tools":["web","memory"],"type":"clear_tool_uses_20250919"},{"type":"compact_20260112"}]}`)
	wantBetas := []anthropic.AnthropicBeta{"mine", BetaContextManagement, BetaCompact}
	if diff := cmp.Diff(wantBetas, managed.Betas); diff != "" {
		t.Errorf("betas (-want +got):\n%s", diff)
	}

	checkJSON(t, params.ContextManagement,
		`{"edits":[{"type":"clear_thinking_20251015"},{"exclude_tools":["mine"],"type":"clear_tool_uses_20250919"}]}`)
	if got := params.Betas[:3:3]; !slices.Equal(got, []anthropic.AnthropicBeta{"mine", BetaContextManagement, ""}) {
		t.Errorf("got betas %q of the caller, want them as they were", got)
	}
	if got := params.ContextManagement.Edits[:3:3][2].GetType(); got != nil {
		t.Errorf("got a third edit of the caller, %s", *got)
	}
	if got := exclude[:2]; got[1] != "" {
		t.Errorf("got tools %q of the caller, want them as they were", got)
	}

	again, err := ManageContext(managed, ClearToolUses{ExcludeTools: exclude}, Compact{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(managed.Betas, again.Betas); diff != "" || len(again.ContextManagement.Edits) != 3 {
		t.Errorf("got %d edits, betas (-want +got):\n%s", len(again.ContextManagement.Edits), diff)
	}
}

func TestCompactOnDemand_Due(t *testing.T) {
	usage := anthropic.BetaUsage{InputTokens: 10, CacheReadInputTokens: 70, CacheCreationInputTokens: 20, OutputTokens: 500}
	for at, want := range map[int64]bool{0: false, 1: true, 100: true, 101: false} {
		if got := (CompactOnDemand{AtInputTokens: at}).Due(usage); got != want {
			t.Errorf("at %d: got %t, want %t", at, got, want)
		}
	}
}

func TestCompactOnDemand_Config(t *testing.T) {
	checkJSON(t, CompactOnDemand{}.Config(), `{"type":"summarize"}`)
	checkJSON(t, CompactOnDemand{Instructions: "Keep names."}.Config(),
		`{"instructions":"Keep names.","type":"summarize"}`)
}

// ask is a request of a user.
func ask(text string) anthropic.BetaMessageNewParams {
	return anthropic.BetaMessageNewParams{
		Model:     anthropic.ModelClaudeSonnet5_5,
		MaxTokens: 1024,
		Messages:  []anthropic.BetaMessageParam{anthropic.NewBetaUserMessage(anthropic.NewBetaTextBlock(text))},
	}
}

func checkJSON(t *testing.T, v json.Marshaler, want string) {
	t.Helper()
	got, err := v.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("JSON (-want +got):\n%s", diff)
	}
}
