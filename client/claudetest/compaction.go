package claudetest

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"slices"
)

// DefaultSummary is the summary of a model that gives none.
const DefaultSummary = "Summary of the conversation so far."

// signature returns the signature of the summary of a compaction request.
func signature(summary string) string {
	sum := sha256.Sum256([]byte("claudetest\x00" + summary))
	return base64.StdEncoding.EncodeToString(sum[:])
}

// visible returns what the model sees of a conversation: the last summary and what follows it, or all of it. A
// compaction block without a summary, of a compaction that failed, hides nothing.
func visible(messages []Message) []Message {
	for i, m := range slices.Backward(messages) {
		for j, b := range slices.Backward(m.Content) {
			if b.Type == typeCompaction && b.Text != "" {
				return append([]Message{{m.Role, m.Content[j:]}}, messages[i+1:]...)
			}
		}
	}
	return messages
}

// checkCompaction complains of compaction blocks, and of a compaction parameter, that the API does not take. A block
// with a signature is from a compaction request, one without from the edit compact_20260112.
func (c *call) checkCompaction(r *reader, paused func(Block) bool) {
	summaries := 0
	for i, m := range c.messages {
		for j, b := range m.Content {
			if b.Type != typeCompaction || b.Signature == "" {
				continue
			}
			place := blockPlace(i, j)
			if b.Text != "" {
				summaries++
			}
			switch {
			case summaries > 1:
				r.failCode("compaction_block_ambiguous", place, "there is more than one `compaction` block with content")
			case i > 0 || j > 0:
				r.failCode("compaction_block_misplaced", place, "the `compaction` block must be the first of the conversation")
			case !isSignature(b.Signature):
				r.failCode("compaction_signature_invalid", place, "the `signature` does not verify")
			case b.Signature != signature(b.Text):
				r.failCode("compaction_content_mismatch", place, "`content` is not the text that was signed")
			case c.edits != nil && c.edits.compact != nil:
				r.fail(place, "a signed `compaction` block cannot be combined with the edit `%s`", editCompact)
			}
		}
	}
	if c.compaction == nil {
		return
	}
	const at = "compaction"
	switch last := c.messages[len(c.messages)-1]; {
	case c.edits != nil:
		r.fail(at, "Cannot be combined with `context_management`")
	case c.choice == choiceAny || c.choice == choiceTool:
		r.fail(at, "Cannot be combined with a `tool_choice` that forces tool use")
	case c.shapesOutput:
		r.fail(at, "Cannot be combined with `stop_sequences` or an output format")
	case slices.ContainsFunc(last.Content, func(b Block) bool { return b.Type == typeToolUse && paused(b) }):
		r.failCode("compaction_incomplete_turn", "messages", "the last turn is not finished")
	}
}

func isSignature(s string) bool {
	sum, err := base64.StdEncoding.DecodeString(s)
	return err == nil && len(sum) == sha256.Size
}

// A summarizing is how a conversation is to be summarized.
type summarizing struct {
	instructions string
	pause        bool // nothing follows the summary
	signed       bool
}

// summarizing returns how the conversation is to be summarized before the model answers; nil if it is not.
func (p *prompt) summarizing() *summarizing {
	c := p.call
	switch {
	case c.compaction != nil:
		return &summarizing{c.compaction.instructions, true, true}
	case c.edits != nil && c.edits.compact != nil && p.input >= c.edits.compact.trigger:
		return &summarizing{c.edits.compact.instructions, c.edits.compact.pause, false}
	default:
		return nil
	}
}

// A summary is a compaction block and what it cost.
type summary struct {
	block Block
	cost  iteration
}

// summary makes the summary of what the model answered.
func (a *API) summary(p *prompt, how *summarizing, t Turn) *summary {
	b := Block{Type: typeCompaction, Text: DefaultSummary, toolChanges: rawToolChanges(p.messages)}
	if i := slices.IndexFunc(t.Content, Block.isSummary); i >= 0 {
		b.Text = t.Content[i].Text
	} else if text := joinTexts(t.Content); text != "" {
		b.Text = text
	}
	if how.signed && b.Text != "" {
		b.Signature = signature(b.Text)
	}
	cost := tokens{InputTokens: p.input, OutputTokens: a.options.count.output([]Block{b})}
	return &summary{b, iteration{Type: "compaction", tokens: cost}}
}

func (b Block) isSummary() bool { return b.Type == typeCompaction }

// summaryMessage makes the message that is a summary and nothing else. What it cost is in the iterations only.
func (a *API) summaryMessage(p *prompt, s *summary) *message {
	m := a.newMessage(p)
	m.content = []Block{s.block}
	m.stopReason = StopCompaction
	m.usage.Iterations = []iteration{s.cost}
	return m
}

// follow puts a summary, if there is one, before the message that was made after it.
func (m *message) follow(s *summary) {
	if s == nil {
		return
	}
	m.content = append([]Block{s.block}, m.content...)
	m.usage.Iterations = []iteration{s.cost, {Type: "message", Model: m.model, tokens: m.usage.tokens}}
}

// after returns the prompt that is left when the summary stands for the conversation. A summary that failed stands for
// nothing.
func (p *prompt) after(count counter, s *summary) *prompt {
	if s.block.Text == "" {
		return p
	}
	rest := &prompt{call: p.call, tools: p.tools, applied: p.applied}
	rest.messages = []Message{{roleAssistant, []Block{s.block}}}
	rest.input = count.prompt(p.call.system, p.tools, rest.messages)
	rest.original = rest.input
	return rest
}

// summaryRequest returns the prompt for the model that is to summarize it.
func (p *prompt) summaryRequest(how *summarizing) *Request {
	req := p.request()
	req.Compacting, req.Instructions = true, how.instructions
	return req
}

// rawToolChanges returns the blocks that change tools; not nil.
func rawToolChanges(messages []Message) []json.RawMessage {
	changes := []json.RawMessage{}
	for _, m := range messages {
		for _, b := range m.Content {
			switch b.Type {
			case typeToolAddition, typeToolRemoval:
				changes = append(changes, b.Raw)
			case typeCompaction:
				changes = append(changes, (&reader{}).object("", b.Raw).list("tool_changes")...)
			}
		}
	}
	return changes
}
