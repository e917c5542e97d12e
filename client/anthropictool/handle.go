package anthropictool

import (
	"bytes"
	"context"
	"encoding/json"

	"github.com/anthropics/anthropic-sdk-go/v2"

	"github.com/seed-7f2870e1/memoryd/client"
)

// HandleToolUse executes a call of the memory tool and returns its result, which is never missing: whatever is wrong
// with the call or the service is in it, as a text for the model. The name of the block does not matter. A call that is
// handled again, by another process too, makes no change twice; see client.Handler.HandleCall for one that failed.
//
// A block is not to be handled unless its message stopped for tool_use. HandleMessage sees to that.
func HandleToolUse(
	ctx context.Context, handler *client.Handler, block anthropic.ToolUseBlock,
) anthropic.ToolResultBlockParam {
	return toolResult(block.ID, handler.HandleCall(ctx, block.ID, block.Input))
}

// HandleBetaToolUse is HandleToolUse for the beta types. The input is what the model sent, byte for byte, unless Input
// of the block was changed.
func HandleBetaToolUse(
	ctx context.Context, handler *client.Handler, block anthropic.BetaToolUseBlock,
) anthropic.BetaToolResultBlockParam {
	return betaToolResult(block.ID, handler.HandleCall(ctx, block.ID, betaInput(block)))
}

// HandleMessage executes the calls of the memory tool in a message, one after the other in the order of their blocks,
// and returns their results, in the same order, for the next user message. Calls of other tools are left to the caller,
// who has to answer them in the same user message.
//
// There are no results unless the message stopped for tool_use: the calls of one that was refused or cut off must not
// run. Where ctx is done before the end, there are all results, but the last of them say that the service cannot be
// reached or did not answer. They are of no use to the model, and the message can be handled again.
//
// A message can also be handled again by another process. What memoryd remembers until then are the changes that were
// made: those calls change nothing and have the same answers. A call that failed changed nothing and is tried again; it
// may succeed now, where a later call of the message has removed what it failed for. A view is made again.
func HandleMessage(
	ctx context.Context, handler *client.Handler, message *anthropic.Message,
) []anthropic.ContentBlockParamUnion {
	if message.StopReason != anthropic.StopReasonToolUse {
		return nil
	}
	var results []anthropic.ContentBlockParamUnion
	for _, block := range message.Content {
		if block.Type == "tool_use" && block.Name == toolName {
			result := toolResult(block.ID, handler.HandleCall(ctx, block.ID, block.Input))
			results = append(results, anthropic.ContentBlockParamUnion{OfToolResult: &result})
		}
	}
	return results
}

// HandleBetaMessage is HandleMessage for the beta types, and what is said there of a message that is handled again is
// true here: a call that failed is tried again. Where the runner of the message is in the same process, Tool.Results
// has the answers that were given. Where another model has taken over, only the calls after the last fallback block are
// executed: those before it belong to the answer that was refused.
func HandleBetaMessage(
	ctx context.Context, handler *client.Handler, message *anthropic.BetaMessage,
) []anthropic.BetaContentBlockParamUnion {
	if message.StopReason != anthropic.BetaStopReasonToolUse {
		return nil
	}
	var results []anthropic.BetaContentBlockParamUnion
	for _, block := range memoryBlocks(message) {
		result := betaToolResult(block.ID, handler.HandleCall(ctx, block.ID, block.Input))
		results = append(results, anthropic.BetaContentBlockParamUnion{OfToolResult: &result})
	}
	return results
}

// memoryBlocks returns the calls of the memory tool in a message that can be answered.
func memoryBlocks(message *anthropic.BetaMessage) []anthropic.BetaContentBlockUnion {
	var calls []anthropic.BetaContentBlockUnion
	for _, block := range message.Content {
		switch {
		case block.Type == "fallback":
			calls = nil
		case block.Type == "tool_use" && block.Name == toolName:
			calls = append(calls, block)
		}
	}
	return calls
}

// betaInput returns the input of a block. Input of the beta type is decoded, so its numbers have lost their spelling,
// and the JSON that it was decoded from is better, as long as it still says the same.
func betaInput(block anthropic.BetaToolUseBlock) json.RawMessage {
	input, err := json.Marshal(block.Input)
	if err != nil {
		return nil
	}
	var sent anthropic.BetaToolUseBlock
	if err := sent.UnmarshalJSON([]byte(block.RawJSON())); err != nil {
		return input
	}
	if decoded, err := json.Marshal(sent.Input); err == nil && bytes.Equal(decoded, input) {
		return json.RawMessage(sent.JSON.Input.Raw())
	}
	return input
}
