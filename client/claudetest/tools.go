package claudetest

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

const (
	// typeMemoryTool is the type of the memory tool, memoryToolName its only name; see
	// https://platform.claude.com/docs/en/agents-and-tools/tool-use/memory-tool.
	typeMemoryTool = "memory_20250818"
	memoryToolName = "memory"
	// typeCustomTool is the type of a tool with a schema, which may go without one.
	typeCustomTool = "custom"
	// maxToolNameBytes is how long the name of a tool may be.
	maxToolNameBytes = 128
)

func (r *reader) tool(place string, raw json.RawMessage) Tool {
	o := r.object(place, raw)
	t := Tool{Name: o.text("name"), Type: o.text("type"), Raw: raw}
	r.cacheControl(o)
	if t.Type == "" || t.Type == typeCustomTool {
		o.require("name")
		if !isName(t.Name, maxToolNameBytes) {
			r.fail(o.at("name"), "String should match pattern '^[a-zA-Z0-9_-]{1,%d}$'", maxToolNameBytes)
		}
		o.require("input_schema")
		if schema, ok := o.object("input_schema"); ok {
			schema.require("type")
			if schema.text("type") != "object" {
				r.fail(schema.at("type"), "Input should be 'object'")
			}
		}
		return t
	}
	switch {
	case !isBuiltIn(t.Type):
		r.fail(place, "Input tag '%s' found using 'type' does not match any of the expected tags: '%s', '%s' and those "+
			"of the other tools that the API defines", t.Type, typeCustomTool, typeMemoryTool)
	case t.isMemory() && t.Name != memoryToolName:
		r.fail(o.at("name"), "Input should be '%s'", memoryToolName)
	}
	for _, key := range []string{"description", "input_schema"} {
		if o.has(key) {
			r.fail(o.at(key), "Extra inputs are not permitted for a tool that the API defines")
		}
	}
	return t
}

// isBuiltIn tells whether a type can be that of a tool which the API defines: it has a date, as in bash_20250124, or
// is that of a toolset, or of a tool search, which may do without. The memory tool has a single version.
func isBuiltIn(kind string) bool {
	switch {
	case strings.HasPrefix(kind, "memory_"):
		return kind == typeMemoryTool
	case strings.HasSuffix(kind, "_toolset"), strings.HasPrefix(kind, "tool_search_tool_"):
		return true
	default:
		return dated.MatchString(kind)
	}
}

var dated = regexp.MustCompile(`^[a-z][a-z0-9_]*_20[0-9]{6}$`)

func hasTool(tools []Tool, name string) bool {
	return slices.ContainsFunc(tools, func(t Tool) bool { return t.Name == name })
}

// offers tells whether a tool can be called. A toolset has no name, and it is not known what is in it.
func offers(tools []Tool, name string) bool { return hasTool(tools, name) || hasTool(tools, "") }

func (t Tool) isMemory() bool { return t.Type == typeMemoryTool }

// A toolChange is what a tool_addition or tool_removal block does to the tools.
type toolChange struct {
	place  string
	add    *Tool  // nil for a removal
	remove string // empty for an addition
}

// toolChanges reads the changes of message i, and those that a compaction block in it carries.
func (r *reader) toolChanges(i int, m Message) []toolChange {
	var changes []toolChange
	for j, b := range m.Content {
		place := blockPlace(i, j)
		switch b.Type {
		case typeToolAddition, typeToolRemoval:
			changes = append(changes, r.toolChange(r.object(place, b.Raw)))
		case typeCompaction:
			for k, raw := range r.object(place, b.Raw).list("tool_changes") {
				changes = append(changes, r.toolChange(r.object(fmt.Sprintf("%s.tool_changes.%d", place, k), raw)))
			}
		}
	}
	return changes
}

// toolChange reads a change. One that is not an addition by definition or a removal by name changes nothing.
func (r *reader) toolChange(o object) toolChange {
	o.require("tool")
	tool, _ := o.object("tool")
	change := toolChange{place: tool.place}
	switch kind := tool.text("type"); {
	case o.text("type") == typeToolRemoval && kind == "tool_reference":
		tool.require("name")
		change.remove = tool.text("name")
	case o.text("type") == typeToolAddition && kind == "tool_definition":
		if tool.require("definition"); tool.has("definition") {
			t := r.tool(tool.at("definition"), tool.members["definition"])
			change.add = &t
		}
	}
	return change
}

// changeTools returns the tools after the changes that the messages make to them.
func (r *reader) changeTools(tools []Tool, messages []Message) []Tool {
	tools = slices.Clone(tools)
	for i, m := range messages {
		for _, change := range r.toolChanges(i, m) {
			switch {
			case change.add != nil:
				tools = append(withoutTool(tools, change.add.Name), *change.add)
			case change.remove != "":
				if !hasTool(tools, change.remove) {
					r.failCode("tool_reference_unresolved", change.place, "there is no tool '%s' to remove", change.remove)
				}
				tools = withoutTool(tools, change.remove)
			}
		}
	}
	return tools
}

func withoutTool(tools []Tool, name string) []Tool {
	return slices.DeleteFunc(tools, func(t Tool) bool { return t.Name == name })
}
