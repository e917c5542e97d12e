package claudetest

import (
	"encoding/json"
	"strings"
)

// The types of blocks that the API looks into. All others are carried along.
const (
	typeText             = "text"
	typeImage            = "image"
	typeThinking         = "thinking"
	typeRedactedThinking = "redacted_thinking"
	typeToolUse          = "tool_use"
	typeToolResult       = "tool_result"
	typeToolAddition     = "tool_addition"
	typeToolRemoval      = "tool_removal"
	typeCompaction       = "compaction"
	typeFallback         = "fallback"
)

// The roles of messages.
const (
	roleUser      = "user"
	roleAssistant = "assistant"
	roleSystem    = "system"
)

// Request is what the model sees of a request: a thread is written out, what a compaction block stands for is gone,
// context edits are made.
type Request struct {
	// Model is the model that was asked for. Any name will do.
	Model string
	// System is the text of the system prompt, its blocks one under the other.
	System string
	// Tools are the tools on offer, after the changes that system messages in the conversation make to them.
	Tools []Tool
	// Messages is the conversation as the model sees it.
	Messages []Message
	// InputTokens is the size of this prompt: system, tools and messages; see WithTokenCounter.
	InputTokens int
	// OriginalInputTokens is the same before context edits.
	OriginalInputTokens int
	// AppliedEdits are the context edits that were made. Never nil where the request asked for any.
	AppliedEdits []AppliedEdit
	// Warning tells the model that results of tools are going to be cleared. It is there if the request has the memory
	// tool, and clearing with a trigger of input tokens that is near or reached; see WithWarnAt. It stands at the end
	// of Messages too.
	Warning string
	// Compacting tells that the model is asked to summarize the conversation, with Instructions if the request has
	// any. Its answer is a turn with a Summary, or with texts, which are the summary then. An answer without either is
	// DefaultSummary.
	Compacting   bool
	Instructions string
	// Betas are the values of the anthropic-beta headers, in their order.
	Betas []string
	// Stream tells that the answer is streamed.
	Stream bool
	// Raw is the body of the request as it was sent.
	Raw json.RawMessage
}

// Tool is the definition of a tool.
type Tool struct {
	// Name is how the model calls it.
	Name string
	// Type is "memory_20250818" and the like; "custom" or empty for a tool that has a schema.
	Type string
	// Raw is the whole definition.
	Raw json.RawMessage
}

// Message is a message of the conversation.
type Message struct {
	// Role is "user", "assistant" or "system".
	Role    string
	Content []Block
}

// Block is a block of content. Which fields it has depends on its type.
type Block struct {
	// Type is "text", "tool_use", "tool_result" or whatever else the API has.
	Type string
	// Text is what is said: by a text or thinking block, or in the summary of a compaction block.
	Text string
	// Signature is that of a thinking or compaction block.
	Signature string
	// ID, Name and Input are those of a tool_use block.
	ID, Name string
	Input    json.RawMessage
	// ToolUseID, IsError and Content are those of a tool_result block.
	ToolUseID string
	IsError   bool
	Content   []Block
	// Cleared tells that a context edit replaced the content of a tool_result block by ClearedText, or the input of a
	// tool_use block by {}.
	Cleared bool
	// Raw is the JSON of a block that came with the request, without edits; see also the function Raw.
	Raw json.RawMessage

	unknown     bool              // a call of a tool that is not on offer
	toolChanges []json.RawMessage // of a compaction block that goes out
}

// ToolResult is a tool_result block in short.
type ToolResult struct {
	ToolUseID string
	IsError   bool
	// Text is its text blocks, one under the other.
	Text string
	// Cleared tells that the text was cleared by a context edit.
	Cleared bool
}

// AppliedEdit is a context edit that was made to a request.
type AppliedEdit struct {
	// Type is "clear_tool_uses_20250919" or "clear_thinking_20251015".
	Type string
	// ClearedToolUses is the number of tool uses whose results were cleared, by the former.
	ClearedToolUses int
	// ClearedThinkingTurns is the number of turns whose thinking was cleared, by the latter.
	ClearedThinkingTurns int
	// ClearedInputTokens is by how much the prompt became smaller; 0 where ClearedText is more than what it stands for.
	ClearedInputTokens int
}

// ToolResults returns the tool results since the last message of the model, whatever else the user or a system message
// says after them; see also Calls.
func (r *Request) ToolResults() []ToolResult {
	since := len(r.Messages)
	for since > 0 && r.Messages[since-1].Role != roleAssistant {
		since--
	}
	var results []ToolResult
	for _, m := range r.Messages[since:] {
		for _, b := range m.Content {
			if b.Type == typeToolResult {
				results = append(results, b.toolResult())
			}
		}
	}
	return results
}

// LastText returns the text of the last user message, its blocks one under the other, without the Warning. It is empty
// if there is only something else, like results of tools.
func (r *Request) LastText() string {
	for i := len(r.Messages) - 1; i >= 0; i-- {
		if r.Messages[i].Role != roleUser {
			continue
		}
		content := r.Messages[i].Content
		if r.Warning != "" && i == len(r.Messages)-1 {
			content = content[:len(content)-1]
			if len(content) == 0 {
				continue
			}
		}
		return joinTexts(content)
	}
	return ""
}

// HasTool tells whether a tool is on offer.
func (r *Request) HasTool(name string) bool { return hasTool(r.Tools, name) }

// joinTexts returns the texts of blocks, one under the other.
func joinTexts(blocks []Block) string {
	var texts []string
	for _, b := range blocks {
		if b.Type == typeText {
			texts = append(texts, b.Text)
		}
	}
	return strings.Join(texts, "\n")
}
