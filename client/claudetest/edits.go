package claudetest

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// ClearedText stands in the place of a tool result that clear_tool_uses_20250919 cleared, also where the result was
// shorter. The API's own text is not documented; an agent must not depend on it.
const ClearedText = "[The result of this tool use was cleared to save context.]"

// WarningText is the Request.Warning. The API's own text is not documented; an agent must not depend on it.
const WarningText = "The conversation is close to the limit at which old tool results are cleared. " +
	"Save what you still need of them to memory now."

// The types of context edits; see https://platform.claude.com/docs/en/build-with-claude/context-editing and
// https://platform.claude.com/docs/en/build-with-claude/compaction.
const (
	editClearToolUses = "clear_tool_uses_20250919"
	editClearThinking = "clear_thinking_20251015"
	editCompact       = "compact_20260112"
)

// The documented defaults and bounds of the edits.
const (
	defaultClearTrigger   = 100_000
	defaultKeepToolUses   = 3
	defaultKeepThinking   = 1
	defaultCompactTrigger = 150_000
	minCompactTrigger     = 50_000
)

// The units that edits count in.
const (
	unitInputTokens   = "input_tokens"
	unitToolUses      = "tool_uses"
	unitThinkingTurns = "thinking_turns"
)

// edits is the context_management member of a request.
type edits struct {
	clear   []clearEdit
	compact *compactEdit
}

// A clearEdit replaces or leaves out blocks. It returns the messages after it, which share with those before it what
// stayed the same, and what it did; ok is false if it did nothing.
type clearEdit interface {
	apply(count counter, tokens int, messages []Message) (edited []Message, applied AppliedEdit, ok bool)
}

// compactEdit is compact_20260112.
type compactEdit struct {
	trigger      int // input tokens
	pause        bool
	instructions string
}

func (r *reader) edits(o object) *edits {
	var e edits
	for i, raw := range o.list("edits") {
		edit := r.object(fmt.Sprintf("%s.%d", o.at("edits"), i), raw)
		switch kind := edit.text("type"); kind {
		case editClearToolUses:
			e.clear = append(e.clear, r.clearToolUses(edit))
		case editClearThinking:
			if i > 0 {
				r.fail(edit.place, "`%s` must be the first of the edits", editClearThinking)
			}
			e.clear = append(e.clear, r.clearThinking(edit))
		case editCompact:
			e.compact = &compactEdit{pause: edit.flag("pause_after_compaction"), instructions: edit.text("instructions")}
			_, e.compact.trigger = r.amount(edit, "trigger", minCompactTrigger, defaultCompactTrigger, unitInputTokens)
		default:
			r.fail(edit.place, "Input tag '%s' found using 'type' does not match any of the expected tags: "+
				"'%s', '%s', '%s'", kind, editClearToolUses, editClearThinking, editCompact)
		}
	}
	return &e
}

// amount reads {"type": unit, "value": number}. A missing one has the default, in the first of the units.
func (r *reader) amount(o object, key string, least, otherwise int, units ...string) (unit string, value int) {
	amount, ok := o.object(key)
	if !ok {
		return units[0], otherwise
	}
	unit = amount.text("type")
	if !slices.Contains(units, unit) {
		r.fail(amount.at("type"), "Input should be '%s'", strings.Join(units, "' or '"))
	}
	amount.require("value")
	return unit, amount.number("value", least, otherwise)
}

// clearToolUses is clear_tool_uses_20250919.
type clearToolUses struct {
	unit         string // of the trigger
	trigger      int
	keep         int
	clearAtLeast int // input tokens; 0 asks for nothing
	exclude      []string
	allInputs    bool
	inputs       []string // of the tools whose inputs are cleared
}

func (r *reader) clearToolUses(o object) clearToolUses {
	var e clearToolUses
	e.unit, e.trigger = r.amount(o, "trigger", 1, defaultClearTrigger, unitInputTokens, unitToolUses)
	_, e.keep = r.amount(o, "keep", 0, defaultKeepToolUses, unitToolUses)
	_, e.clearAtLeast = r.amount(o, "clear_at_least", 0, 0, unitInputTokens)
	e.exclude = o.texts("exclude_tools")
	if json.Unmarshal(o.members["clear_tool_inputs"], &e.allInputs) != nil {
		e.inputs = o.texts("clear_tool_inputs")
	}
	return e
}

func (e clearToolUses) apply(count counter, tokens int, messages []Message) ([]Message, AppliedEdit, bool) {
	uses := slices.DeleteFunc(toolUses(messages), func(u toolUse) bool { return !u.answered })
	size := tokens
	if e.unit == unitToolUses {
		size = len(uses)
	}
	name := func(u toolUse) string { return u.call.in(messages).Name }
	uses = slices.DeleteFunc(uses, func(u toolUse) bool { return slices.Contains(e.exclude, name(u)) })
	if size <= e.trigger || len(uses) <= e.keep {
		return nil, AppliedEdit{}, false
	}
	uses = uses[:len(uses)-e.keep]

	edited := newEditor(messages)
	cleared := 0
	for _, u := range uses {
		result := edited.block(u.result)
		before := count.block(*result)
		result.Content, result.Cleared = []Block{Text(ClearedText)}, true
		cleared += before - count.block(*result)
		if e.allInputs || slices.Contains(e.inputs, name(u)) {
			call := edited.block(u.call)
			before := count.block(*call)
			call.Input, call.Cleared = json.RawMessage("{}"), true
			cleared += before - count.block(*call)
		}
	}
	if e.clearAtLeast > 0 && cleared < e.clearAtLeast {
		return nil, AppliedEdit{}, false
	}
	return edited.messages, AppliedEdit{
		Type: editClearToolUses, ClearedToolUses: len(uses), ClearedInputTokens: max(cleared, 0),
	}, true
}

// clearThinking is clear_thinking_20251015.
type clearThinking struct{ keep int }

func (r *reader) clearThinking(o object) clearThinking {
	keep := o.members["keep"]
	var word string
	if json.Unmarshal(keep, &word) == nil && word == "all" {
		return clearThinking{keep: maxMessages}
	}
	if member, ok := o.object("keep"); ok && member.text("type") == "all" {
		return clearThinking{keep: maxMessages}
	}
	_, n := r.amount(o, "keep", 1, defaultKeepThinking, unitThinkingTurns)
	return clearThinking{keep: n}
}

func (e clearThinking) apply(count counter, _ int, messages []Message) ([]Message, AppliedEdit, bool) {
	isThinking := func(b Block) bool { return b.Type == typeThinking || b.Type == typeRedactedThinking }
	edited := newEditor(messages)
	applied := AppliedEdit{Type: editClearThinking}
	kept := 0
	for i, m := range slices.Backward(messages) {
		if m.Role != roleAssistant || !slices.ContainsFunc(m.Content, isThinking) {
			continue
		}
		if kept < e.keep {
			kept++
			continue
		}
		applied.ClearedThinkingTurns++
		content := slices.DeleteFunc(slices.Clone(m.Content), isThinking)
		applied.ClearedInputTokens += count.blocks(m.Content) - count.blocks(content)
		edited.messages[i].Content = content
	}
	return edited.messages, applied, applied.ClearedThinkingTurns > 0
}

// An editor changes blocks of a copy of messages.
type editor struct {
	messages []Message
	copied   map[int]bool // messages whose content is a copy
}

func newEditor(messages []Message) editor {
	return editor{messages: slices.Clone(messages), copied: map[int]bool{}}
}

// block returns a block that may be changed.
func (e editor) block(at place) *Block {
	m := &e.messages[at.message]
	if !e.copied[at.message] {
		m.Content = slices.Clone(m.Content)
		e.copied[at.message] = true
	}
	return &m.Content[at.block]
}

// checkEdits complains of edits that the rest of the request forbids.
func (c *call) checkEdits(r *reader) {
	if c.edits == nil {
		return
	}
	for _, e := range c.edits.clear {
		if _, ok := e.(clearThinking); ok && !c.thinking {
			r.fail("", "`%s` strategy requires `thinking` to be enabled or adaptive", editClearThinking)
		}
	}
}

// warns tells whether the model is to be warned of a prompt of so many tokens that results are going to be cleared.
func (e *edits) warns(tokens int, at float64) bool {
	if e == nil || at <= 0 {
		return false
	}
	return slices.ContainsFunc(e.clear, func(edit clearEdit) bool {
		uses, ok := edit.(clearToolUses)
		return ok && uses.unit == unitInputTokens && float64(tokens) >= at*float64(uses.trigger)
	})
}

// wire returns the edit as it is in an answer.
func (e AppliedEdit) wire() map[string]any {
	wire := map[string]any{"type": e.Type, "cleared_input_tokens": e.ClearedInputTokens}
	switch e.Type {
	case editClearToolUses:
		wire["cleared_tool_uses"] = e.ClearedToolUses
	case editClearThinking:
		wire["cleared_thinking_turns"] = e.ClearedThinkingTurns
	}
	return wire
}
