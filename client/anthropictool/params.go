package anthropictool

import (
	"encoding/json"
	"slices"

	"github.com/anthropics/anthropic-sdk-go/v2"
)

// toolName is the name that the API demands of the memory tool.
const toolName = "memory"

// Params returns params with the definition of the memory tool at the end of its tools:
//
//	{"type":"memory_20250818","name":"memory"}
//
// The definition may be given, with its optional fields such as cache_control; only the first counts. A tool of that
// name which is there already stays as it is, and nothing is added: that is also what the tool runners do.
func Params(
	params anthropic.BetaMessageNewParams, definition ...anthropic.BetaMemoryTool20250818Param,
) anthropic.BetaMessageNewParams {
	params.Tools = withTool(params.Tools, betaDefinition(definition))
	return params
}

// ThreadParams is Params for a message thread.
func ThreadParams(
	params anthropic.BetaMessageThreadCreateParams, definition ...anthropic.BetaMemoryTool20250818Param,
) anthropic.BetaMessageThreadCreateParams {
	params.Tools = withTool(params.Tools, betaDefinition(definition))
	return params
}

// MessageParams is Params for the messages that are not beta.
func MessageParams(
	params anthropic.MessageNewParams, definition ...anthropic.MemoryTool20250818Param,
) anthropic.MessageNewParams {
	params.Tools = withTool(params.Tools, anthropic.ToolUnionParam{OfMemoryTool20250818: first(definition)})
	return params
}

func betaDefinition(definition []anthropic.BetaMemoryTool20250818Param) anthropic.BetaToolUnionParam {
	return anthropic.BetaToolUnionParam{OfMemoryTool20250818: first(definition)}
}

// first returns the first value, or a zero one, which the SDK completes when it is sent.
func first[T any](values []T) *T {
	if len(values) == 0 {
		return new(T)
	}
	return &values[0]
}

// withTool returns tools with definition at the end, unless one of them has its name. It leaves tools as they are.
func withTool[T any](tools []T, definition T) []T {
	if slices.ContainsFunc(tools, isMemory[T]) {
		return tools
	}
	return append(slices.Clip(tools), definition)
}

// isMemory tells whether a definition has the name of the memory tool. A built-in tool has its name only on the wire.
func isMemory[T any](definition T) bool {
	var wire struct {
		Name string `json:"name"`
	}
	data, err := json.Marshal(definition)
	return err == nil && json.Unmarshal(data, &wire) == nil && wire.Name == toolName
}
