package claudetest

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
)

// validate complains of what is wrong with a conversation as a whole. Places are those in the whole conversation, also
// where a thread holds most of it. paused tells whether a block is of a turn that the model paused.
func (c *call) validate(paused func(Block) bool) *Failure {
	r := &reader{}
	for i, t := range c.tools {
		if t.Name != "" && hasTool(c.tools[:i], t.Name) {
			r.fail("tools", "Tool names must be unique.")
		}
	}
	c.checkMessages(r, paused)
	c.checkBlocks(r)
	checkResults(r, runs(c.messages), paused)
	if len(c.messages) > 0 {
		c.checkCompaction(r, paused)
	}
	c.checkEdits(r)
	return r.wrong
}

// messagePlace returns the place of a message in a request, blockPlace that of a block in it.
func messagePlace(i int) string  { return fmt.Sprintf("messages.%d", i) }
func blockPlace(i, j int) string { return fmt.Sprintf("messages.%d.content.%d", i, j) }

func (c *call) checkMessages(r *reader, paused func(Block) bool) {
	if len(c.messages) == 0 {
		r.fail("messages", "at least one message is required")
		return
	}
	if first := c.messages[0]; first.Role != roleUser && !first.isCompacted() {
		r.fail("messages", `first message must use the "user" role`)
	}
	for i, m := range c.messages {
		if len(m.Content) == 0 && (m.Role != roleAssistant || i < len(c.messages)-1) {
			r.fail(messagePlace(i),
				"all messages must have non-empty content except for the optional final assistant message")
		}
	}
	last := c.messages[len(c.messages)-1]
	if c.answered() && last.Role == roleAssistant && last.endsBlank() && !paused(last.Content[len(last.Content)-1]) {
		r.fail("messages", "final assistant content cannot end with trailing whitespace")
	}
}

// endsBlank tells whether the last block of a message is a text that ends in white space.
func (m Message) endsBlank() bool {
	if len(m.Content) == 0 {
		return false
	}
	last := m.Content[len(m.Content)-1]
	return last.Type == typeText && strings.TrimRightFunc(last.Text, unicode.IsSpace) != last.Text
}

// isCompacted tells whether a message begins with a summary of what was before it.
func (m Message) isCompacted() bool {
	return m.Role == roleAssistant && len(m.Content) > 0 && m.Content[0].Type == typeCompaction
}

// roleOf is the role that a block of a type belongs to, where it belongs to one.
var roleOf = map[string]string{
	typeImage:            roleUser,
	typeThinking:         roleAssistant,
	typeRedactedThinking: roleAssistant,
	typeToolUse:          roleAssistant,
	typeToolResult:       roleUser,
	typeCompaction:       roleAssistant,
	typeToolAddition:     roleSystem,
	typeToolRemoval:      roleSystem,
}

// checkBlocks complains of blocks that are in a message of the wrong role, of tool calls that have the id of another,
// and of the choice of a tool that was never there. Calls may name any tool: it may be gone, or made up by the model.
func (c *call) checkBlocks(r *reader) {
	known := slices.Clone(c.tools)
	ids := map[string]bool{}
	for i, m := range c.messages {
		for _, change := range r.toolChanges(i, m) {
			if m.Role == roleSystem {
				r.needBeta(c, change.place, BetaInlineTools)
			}
			if change.add != nil {
				known = append(known, *change.add)
			}
		}
		for j, b := range m.Content {
			place := blockPlace(i, j)
			if role, ok := roleOf[b.Type]; ok && role != m.Role {
				r.fail(place, "`%s` blocks can only be in `%s` messages", b.Type, role)
			}
			if b.Type != typeToolUse {
				continue
			}
			if ids[b.ID] {
				r.fail(place, "`tool_use` ids must be unique: %s", b.ID)
			}
			ids[b.ID] = true
		}
	}
	c.checkChoice(r, known)
}

// checkChoice complains of a tool_choice that there is no tool for.
func (c *call) checkChoice(r *reader, tools []Tool) {
	switch {
	case c.mcp:
	case c.choice == choiceAny && len(tools) == 0:
		r.fail("tool_choice.any", "may only be specified while providing tools")
	case c.choice == choiceTool && !offers(tools, c.chosen):
		r.fail("tool_choice", "Tool '%s' not found in provided tools", c.chosen)
	}
}

// A run is messages of one role that follow each other. The API takes them as one.
type run struct {
	role   string
	place  string // of its first message
	blocks []Block
	places []string // of the blocks
}

func runs(messages []Message) []run {
	var runs []run
	for i, m := range messages {
		if len(runs) == 0 || runs[len(runs)-1].role != m.Role {
			runs = append(runs, run{role: m.Role, place: messagePlace(i)})
		}
		last := &runs[len(runs)-1]
		for j, b := range m.Content {
			last.blocks = append(last.blocks, b)
			last.places = append(last.places, blockPlace(i, j))
		}
	}
	return runs
}

// calls returns the ids of the tool calls of a run, and those among them that need a result: not the calls of a model
// that then refused, which another took over from, nor those of a turn that was paused.
func (run run) calls(paused func(Block) bool) (all, need []string) {
	for _, b := range run.blocks {
		switch b.Type {
		case typeToolUse:
			all = append(all, b.ID)
			if !paused(b) {
				need = append(need, b.ID)
			}
		case typeFallback:
			need = nil
		}
	}
	return all, need
}

// checkResults complains of tool calls without a result in the next run, and of results without a call in the run
// before.
func checkResults(r *reader, runs []run, paused func(Block) bool) {
	var before run
	for _, now := range append(runs, run{}) {
		all, need := before.calls(paused)
		var answered []string
		for i, b := range now.blocks {
			if b.Type != typeToolResult {
				continue
			}
			switch {
			case !slices.Contains(all, b.ToolUseID):
				r.fail(now.places[i], "unexpected `tool_use_id` found in `tool_result` blocks: %s. Each `tool_result` "+
					"block must have a corresponding `tool_use` block in the previous message.", b.ToolUseID)
			case slices.Contains(answered, b.ToolUseID):
				r.fail(now.places[i], "each tool_use must have a single result. Found multiple `tool_result` blocks with "+
					"id: %s", b.ToolUseID)
			case i > 0 && now.blocks[i-1].Type != typeToolResult:
				r.fail(now.places[i], "`tool_result` blocks must come before all other content of the message")
			}
			answered = append(answered, b.ToolUseID)
		}
		need = slices.DeleteFunc(need, func(id string) bool { return slices.Contains(answered, id) })
		if len(need) > 0 {
			r.fail(before.place, "`tool_use` ids were found without `tool_result` blocks immediately after: %s. Each "+
				"`tool_use` block must have a corresponding `tool_result` block in the next message.",
				strings.Join(need, ", "))
		}
		before = now
	}
}
