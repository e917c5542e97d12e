package simulation

import (
	"github.com/anthropics/anthropic-sdk-go/v2"
	"github.com/anthropics/anthropic-sdk-go/v2/packages/param"

	"github.com/seed-7f2870e1/memoryd/client/agentkit"
	"github.com/seed-7f2870e1/memoryd/client/claudetest"
)

// Setting is one way to run the agent.
type Setting struct {
	// Memory is whether the agent has a memory.
	Memory bool `json:"memory"`
	// Trigger is the size of the prompt, in tokens, above which results are cleared; 0 clears none.
	Trigger int `json:"trigger"`
	// Keep is how many of the latest results stay. The model needs one at least.
	Keep int `json:"keep"`
	// ClearAtLeast is how many tokens a clearing must gain, or else it is not made.
	ClearAtLeast int `json:"clear_at_least"`
	// ClearMemory clears what the memory tool answered like other results.
	ClearMemory bool `json:"clear_memory"`
	// Hold makes the client leave out of later requests what the API has cleared. Without it the client sends all of
	// the conversation again, and the API works out anew what to clear.
	Hold bool `json:"hold"`
}

// edit adds the context editing of the setting to a request.
func (s Setting) edit(params anthropic.BetaMessageNewParams) (anthropic.BetaMessageNewParams, error) {
	if s.Trigger == 0 {
		return params, nil
	}
	return agentkit.ManageContext(params, agentkit.ClearToolUses{
		AtInputTokens: anthropic.Int(int64(s.Trigger)),
		Keep:          anthropic.Int(int64(s.Keep)),
		ClearAtLeast:  atLeast(s.ClearAtLeast),
		ClearMemory:   s.ClearMemory,
	})
}

func atLeast(tokens int) param.Opt[int64] {
	if tokens == 0 {
		return param.Opt[int64]{}
	}
	return anthropic.Int(int64(tokens))
}

// hold replaces, in the history that a client sends, the results that the API has cleared for an answer. It tells
// whether there were any that it had not replaced before.
func (s Setting) hold(history []anthropic.BetaMessageParam, answer *anthropic.BetaMessage) (changed bool) {
	var cleared int64
	for _, edit := range answer.ContextManagement.AppliedEdits {
		cleared += edit.ClearedToolUses
	}
	tools := map[string]string{} // that were called, by the ids of the calls
	for _, message := range history {
		var content []anthropic.BetaContentBlockParamUnion
		switch {
		case message.OfAssistant != nil:
			content = message.OfAssistant.Content
		case message.OfUser != nil:
			content = message.OfUser.Content
		}
		for _, b := range content {
			if call := b.OfToolUse; call != nil {
				tools[call.ID] = call.Name
			}
			result := b.OfToolResult
			if result == nil || cleared == 0 || tools[result.ToolUseID] == toolMemory && !s.ClearMemory {
				continue
			}
			cleared--
			if result.Content[0].OfText.Text != claudetest.ClearedText {
				result.Content[0].OfText.Text = claudetest.ClearedText
				changed = true
			}
		}
	}
	return changed
}
