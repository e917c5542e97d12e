package claudetest

import "encoding/json"

// ToolCall is a call of a client tool and what came of it.
type ToolCall struct {
	ID, Name string
	// Input is {} where InputCleared.
	Input json.RawMessage
	// InputCleared tells that a context edit cleared the input.
	InputCleared bool
	// Answered tells whether there is a result. There is none for the calls of a turn that was paused, or that another
	// model took over.
	Answered bool
	// Result is the result, which may be cleared while the call still stands: see ToolResult.Cleared. It is zero where
	// there is none.
	Result ToolResult
}

// Calls returns the calls of client tools in the whole prompt, each with its result, in the order in which the model
// made them. Calls that a summary stands for are not among them.
func (r *Request) Calls() []ToolCall {
	var calls []ToolCall
	for _, u := range toolUses(r.Messages) {
		b := u.call.in(r.Messages)
		call := ToolCall{ID: b.ID, Name: b.Name, Input: b.Input, InputCleared: b.Cleared, Answered: u.answered}
		if u.answered {
			call.Result = u.result.in(r.Messages).toolResult()
		}
		calls = append(calls, call)
	}
	return calls
}

// toolResult returns a tool_result block in short.
func (b Block) toolResult() ToolResult {
	return ToolResult{b.ToolUseID, b.IsError, joinTexts(b.Content), b.Cleared}
}

// A place is where a block is: a message and its block.
type place struct{ message, block int }

func (p place) in(messages []Message) Block { return messages[p.message].Content[p.block] }

// A toolUse is where a tool call and its result are.
type toolUse struct {
	call     place
	answered bool
	result   place // if it is answered
}

// toolUses returns the tool calls of a conversation, oldest first.
func toolUses(messages []Message) []toolUse {
	var uses []toolUse
	byID := map[string]int{}
	for i, m := range messages {
		for j, b := range m.Content {
			switch b.Type {
			case typeToolUse:
				byID[b.ID] = len(uses)
				uses = append(uses, toolUse{call: place{i, j}})
			case typeToolResult:
				if k, ok := byID[b.ToolUseID]; ok {
					uses[k].answered, uses[k].result = true, place{i, j}
				}
			}
		}
	}
	return uses
}
