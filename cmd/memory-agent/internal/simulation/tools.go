package simulation

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/anthropics/anthropic-sdk-go/v2"
)

// The tools of the agent.
const (
	toolSearch = "search"
	toolFetch  = "fetch"
	toolMemory = "memory"
)

// argumentName is the name of the one argument of search and fetch.
const argumentName = "for"

// notesPath is the one file of the memory.
const notesPath = "/memories/notes.md"

// The commands of the memory tool that the model uses.
const (
	commandView   = "view"
	commandCreate = "create"
	commandInsert = "insert"
)

// memoryCall is the input of a call of the memory tool.
type memoryCall struct {
	Command    string `json:"command"`
	Path       string `json:"path"`
	FileText   string `json:"file_text,omitempty"`
	InsertLine *int   `json:"insert_line,omitempty"`
	InsertText string `json:"insert_text,omitempty"`
}

// tools runs the calls of the model, for one run.
type tools struct {
	results map[[2]string]string // of search and fetch, by tool and argument
	// notes stands in for a memory service: it is the text of notesPath.
	notes string
}

// newTools returns the tools of a run. A result is written as its facts and the number of tokens that it has in all.
func newTools(r *Research) *tools {
	t := &tools{results: map[[2]string]string{}}
	for _, s := range r.Steps {
		var result strings.Builder
		result.WriteString(sizedText(s.Tokens) + "\n")
		for _, f := range s.Facts {
			result.WriteString(f.String() + "\n")
		}
		t.results[[2]string{s.Tool, s.Argument}] = result.String()
	}
	return t
}

// definitions are the definitions of the tools.
func definitions(memory bool) []anthropic.BetaToolUnionParam {
	define := func(name, description string) anthropic.BetaToolUnionParam {
		return anthropic.BetaToolUnionParam{OfTool: &anthropic.BetaToolParam{
			Name:        name,
			Description: anthropic.String(description),
			InputSchema: anthropic.BetaToolInputSchemaParam{
				Properties: map[string]any{argumentName: map[string]any{"type": "string"}},
				Required:   []string{argumentName},
			},
		}}
	}
	list := []anthropic.BetaToolUnionParam{
		define(toolSearch, "Search the web. Returns ten hits, each with its address and a snippet."),
		define(toolFetch, "Fetch a page of the web. Returns its text."),
	}
	if memory {
		list = append(list, anthropic.BetaToolUnionParam{
			OfMemoryTool20250818: &anthropic.BetaMemoryTool20250818Param{},
		})
	}
	return list
}

// run answers the calls of a message; none is nil.
func (t *tools) run(m *anthropic.BetaMessage) ([]anthropic.BetaContentBlockParamUnion, error) {
	var results []anthropic.BetaContentBlockParamUnion
	for _, b := range m.Content {
		if b.Type != "tool_use" {
			continue
		}
		text, err := t.call(b.Name, b.Input)
		if err != nil {
			return nil, fmt.Errorf("call %s: %w", b.Name, err)
		}
		results = append(results, resultBlock(b.ID, text))
	}
	return results, nil
}

func (t *tools) call(name string, input json.RawMessage) (string, error) {
	if name == toolMemory {
		var call memoryCall
		if err := json.Unmarshal(input, &call); err != nil {
			return "", fmt.Errorf("read input: %w", err)
		}
		return t.remember(call)
	}
	var call map[string]string
	if err := json.Unmarshal(input, &call); err != nil {
		return "", fmt.Errorf("read input: %w", err)
	}
	result, ok := t.results[[2]string{name, call[argumentName]}]
	if !ok {
		return "", fmt.Errorf("there is nothing for %q", call[argumentName])
	}
	return result, nil
}

// remember runs a command of the memory tool. Of its texts it has those that the calls of the model lead to.
func (t *tools) remember(call memoryCall) (string, error) {
	switch {
	case call.Command == commandView && call.Path == notesPath:
		var b strings.Builder
		fmt.Fprintf(&b, "Here's the content of %s with line numbers:", notesPath)
		for i, line := range strings.Split(t.notes, "\n") {
			fmt.Fprintf(&b, "\n%6d\t%s", i+1, line)
		}
		return b.String(), nil
	case call.Command == commandView:
		return "Here're the files and directories up to 2 levels deep in /memories, excluding hidden items and " +
			"node_modules:\n0B\t/memories", nil
	case call.Command == commandCreate:
		t.notes = call.FileText
		return "File created successfully at: " + notesPath, nil
	case call.Command == commandInsert:
		t.notes = call.InsertText + t.notes
		return "The file " + notesPath + " has been edited.", nil
	}
	return "", fmt.Errorf("unknown command %q", call.Command)
}

func resultBlock(id, text string) anthropic.BetaContentBlockParamUnion {
	result := anthropic.NewBetaToolResultTextBlockParam(id, text, false)
	return anthropic.BetaContentBlockParamUnion{OfToolResult: &result}
}
