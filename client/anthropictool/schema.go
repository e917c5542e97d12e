package anthropictool

import "github.com/anthropics/anthropic-sdk-go/v2"

const description = "A directory of files, /memories, that outlives this conversation. " +
	"View it before a task to find what earlier conversations have learned, and keep it up to date while you work."

// inputSchema follows the documentation of the memory tool:
// https://platform.claude.com/docs/en/agents-and-tools/tool-use/memory-tool
func inputSchema() anthropic.BetaToolInputSchemaParam {
	text := func(description string) map[string]any {
		return map[string]any{"type": "string", "description": description}
	}
	return anthropic.BetaToolInputSchemaParam{
		Properties: map[string]any{
			"command": map[string]any{
				"type": "string",
				"enum": []string{"view", "create", "str_replace", "insert", "delete", "rename"},
			},
			"path": text("The file or directory below /memories, for every command but rename."),
			"view_range": map[string]any{
				"type":        "array",
				"items":       map[string]any{"type": "integer"},
				"description": "For view: the first and the last line to show; -1 is the end of the file.",
			},
			"file_text": text("For create: the text of the file."),
			"old_str":   text("For str_replace: the text to replace, which must occur exactly once."),
			"new_str":   text("For str_replace: what replaces it; nothing if left out."),
			"insert_line": map[string]any{
				"type":        "integer",
				"description": "For insert: the line after which the text goes; 0 is the top.",
			},
			"insert_text": text("For insert: the text."),
			"old_path":    text("For rename: the path as it is."),
			"new_path":    text("For rename: the path as it shall be."),
		},
		Required: []string{"command"},
	}
}
