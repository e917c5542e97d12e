package claudetest

import (
	"encoding/json"
	"fmt"
	"slices"
)

// The stop reasons of a message; see
// https://platform.claude.com/docs/en/build-with-claude/handling-stop-reasons.
const (
	StopEndTurn       = "end_turn"
	StopMaxTokens     = "max_tokens"
	StopSequence      = "stop_sequence"
	StopToolUse       = "tool_use"
	StopPauseTurn     = "pause_turn"
	StopCompaction    = "compaction"
	StopRefusal       = "refusal"
	StopContextWindow = "model_context_window_exceeded"
)

// Turn is one answer of the model.
type Turn struct {
	// Content is the content of the message. Tool calls without an id get one.
	Content []Block
	// StopReason is why the model stopped; empty is tool_use if there is a call of a client tool, else end_turn.
	StopReason string
	// StopSequence is the sequence that stopped it where StopReason is stop_sequence.
	StopSequence string
	// Failure is what the request is answered with instead of a message. In a stream it can come late: see CutAfter.
	Failure *Failure
	// CutAfter breaks the answer off. After so many events of a stream the connection is closed, or, with a Failure,
	// the error is sent as an event. A request that asked for no stream gets the error, or, without a Failure, a
	// connection that is closed with no answer. 0 never breaks off. A message that was broken off is not kept by its
	// thread.
	CutAfter int
}

// Say is a turn of text, a block for each.
func Say(texts ...string) Turn {
	var t Turn
	for _, text := range texts {
		t.Content = append(t.Content, Text(text))
	}
	return t
}

// Use is a turn of tool calls; see Call.
func Use(calls ...Block) Turn { return Turn{Content: calls} }

// Fail is a turn that fails.
func Fail(failure Failure) Turn { return Turn{Failure: &failure} }

// Stop returns a copy of the turn with a stop reason.
func (t Turn) Stop(reason string) Turn {
	t.StopReason = reason
	return t
}

// With returns a copy of the turn with more content.
func (t Turn) With(blocks ...Block) Turn {
	t.Content = append(slices.Clip(t.Content), blocks...)
	return t
}

// Cut returns a copy of the turn that breaks off after so many events; see Turn.CutAfter.
func (t Turn) Cut(events int) Turn {
	t.CutAfter = events
	return t
}

func (t Turn) hasSummary() bool {
	return slices.ContainsFunc(t.Content, Block.isSummary)
}

// Text is a block of text.
func Text(text string) Block { return Block{Type: typeText, Text: text} }

// Call is a call of a client tool. Its id, "toolu_" and a number that the API counts, is given when it is sent, and
// comes again in another API and in another process: see WithIDPrefix. The input is marshalled; a json.RawMessage goes
// out byte for byte, and has to be one that the API takes back. Call panics if input cannot be marshalled.
func Call(name string, input any) Block { return CallWithID("", name, input) }

// CallWithID is Call with an id, which no other call of the conversation may have.
func CallWithID(id, name string, input any) Block {
	raw, ok := input.(json.RawMessage)
	if !ok {
		var err error
		if raw, err = json.Marshal(input); err != nil {
			panic(fmt.Sprintf("claudetest: marshal the input of %s: %v", name, err))
		}
	}
	return Block{Type: typeToolUse, ID: id, Name: name, Input: raw}
}

// CallUnknown is a Call of a tool that the request does not offer, as a model makes one up: to see what the agent says
// to it. A Call of such a tool is taken for a mistake of the test, and so is a CallUnknown of one that is on offer.
func CallUnknown(name string, input any) Block {
	b := Call(name, input)
	b.unknown = true
	return b
}

// Thinking is a block of thinking, with a signature that the API makes up.
func Thinking(text string) Block {
	return Block{Type: typeThinking, Text: text, Signature: signature(text)}
}

// Summary is the block that a request to summarize the conversation is answered with; see Request.Compacting.
func Summary(text string) Block { return Block{Type: typeCompaction, Text: text} }

// Raw is a block of any kind as JSON, which goes out as it is but for white space between its tokens: a server tool's,
// a fallback. Raw panics if it is not an object with a type.
func Raw(block string) Block {
	var head struct {
		Type string `json:"type"`
	}
	if err := json.Unmarshal([]byte(block), &head); err != nil || head.Type == "" {
		panic(fmt.Sprintf("claudetest: not the JSON of a block: %s", block))
	}
	return Block{Type: head.Type, Raw: json.RawMessage(block)}
}
