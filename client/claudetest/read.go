package claudetest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/anthropics/anthropic-sdk-go/v2"
)

const (
	// maxMessages is how many messages a request may have.
	maxMessages = 100_000
	// minThinkingBudget is the least budget_tokens; see
	// https://platform.claude.com/docs/en/build-with-claude/extended-thinking.
	minThinkingBudget       = 1024
	betaInterleavedThinking = anthropic.AnthropicBetaInterleavedThinking2025_05_14
	// maxCacheControls is how many cache breakpoints a request may have; see
	// https://platform.claude.com/docs/en/build-with-claude/prompt-caching.
	maxCacheControls = 4
)

// The types of a tool_choice.
const (
	choiceAuto = "auto"
	choiceAny  = "any"
	choiceTool = "tool"
	choiceNone = "none"
)

// call is a request as it was sent, and then with what its thread holds.
type call struct {
	fixed
	raw   json.RawMessage
	betas []string
	// maxTokens is 0 where tokens are counted.
	maxTokens int
	stream    bool
	messages  []Message
	thread    threadParam
	// choice is the type of the tool_choice, chosen its tool.
	choice, chosen string
	// mcp tells that there are MCP servers, whose tools are not known.
	mcp bool
	// thinking and shapesOutput tell what else the request asks for, as far as other parts forbid it.
	thinking, shapesOutput bool
	// edits is nil without context_management, compaction nil without that.
	edits      *edits
	compaction *compactionParam
}

// answered tells whether the model is to go on from the last message: it is not only counted or summarized.
func (c *call) answered() bool { return c.maxTokens > 0 && c.compaction == nil }

// compactionParam is the compaction member of a request.
type compactionParam struct{ instructions string }

// readCall reads the body of a request. counting is for count_tokens, which takes the same but needs no max_tokens.
func readCall(body []byte, betas []string, counting bool) (*call, *Failure) {
	r := &reader{}
	body = bytes.TrimSpace(body)
	if !isJSON(body) {
		r.fail("", "The request body is not valid JSON")
		return nil, r.wrong
	}
	o := r.object("", body)
	c := &call{raw: body, betas: betas}
	o.require("model")
	if c.model = o.text("model"); o.has("model") && c.model == "" {
		r.fail("model", "String should have at least 1 character")
	}
	if !counting {
		o.require("max_tokens")
		c.maxTokens = o.number("max_tokens", 1, 1)
	}
	c.stream = o.flag("stream")
	r.conversation(c, o)
	r.features(c, o)
	r.checkBetas(c, o)
	r.cacheControl(o)
	if r.cacheControls > maxCacheControls {
		r.fail("", "A maximum of %d blocks with cache_control may be provided. Found %d.",
			maxCacheControls, r.cacheControls)
	}
	return c, r.wrong
}

// conversation reads what the model is to see.
func (r *reader) conversation(c *call, o object) {
	c.system = r.texts("system", o.members["system"])
	for i, raw := range o.list("tools") {
		c.tools = append(c.tools, r.tool(fmt.Sprintf("tools.%d", i), raw))
	}
	o.require("messages")
	messages := o.list("messages")
	if len(messages) > maxMessages {
		r.fail("messages", "List should have at most %d items", maxMessages)
		return
	}
	for i, raw := range messages {
		c.messages = append(c.messages, r.message(messagePlace(i), raw))
	}
}

// features reads what else the request asks for.
func (r *reader) features(c *call, o object) {
	if thread, ok := o.object("thread"); ok {
		c.thread = r.threadParam(thread, o)
	}
	if management, ok := o.object("context_management"); ok {
		c.edits = r.edits(management)
	}
	if compaction, ok := o.object("compaction"); ok {
		if compaction.text("type") != "summarize" {
			r.fail(compaction.at("type"), "Input should be 'summarize'")
		}
		c.compaction = &compactionParam{strings.TrimSpace(compaction.text("instructions"))}
	}
	if choice, ok := o.object("tool_choice"); ok {
		r.toolChoice(c, choice)
	}
	c.mcp = o.has("mcp_servers")
	if thinking, ok := o.object("thinking"); ok {
		r.thinking(c, thinking)
	}
	if t := readMember[float64](o, "temperature", "Input should be a valid number"); t < 0 || t > 1 {
		r.fail("temperature", "range: 0..1")
	}
	output, _ := o.object("output_config")
	c.shapesOutput = len(o.list("stop_sequences")) > 0 || o.has("output_format") || output.has("format")
}

// checkBetas complains of members that need a beta header which is not there.
func (r *reader) checkBetas(c *call, o object) {
	compacts := c.edits != nil && c.edits.compact != nil
	clears := c.edits != nil && (c.edits.compact == nil || len(c.edits.clear) > 0)
	for _, m := range []struct {
		used        bool
		place, beta string
	}{
		{o.has("thread"), "thread", BetaThreads},
		{o.has("compaction"), "compaction", BetaCompaction},
		{compacts, "context_management", BetaCompactEdit},
		{clears, "context_management", BetaContextManagement},
	} {
		if m.used {
			r.needBeta(c, m.place, m.beta)
		}
	}
}

// needBeta complains of a member if its beta header is not there.
func (r *reader) needBeta(c *call, place, beta string) {
	if !slices.Contains(c.betas, beta) {
		r.fail(place, "Extra inputs are not permitted without the beta header %s", beta)
	}
}

func (r *reader) toolChoice(c *call, choice object) {
	c.choice = choice.text("type")
	switch c.choice {
	case choiceAuto, choiceNone, choiceAny:
	case choiceTool:
		choice.require("name")
		c.chosen = choice.text("name")
	default:
		r.fail(choice.at("type"), "Input should be 'auto', 'any', 'tool' or 'none'")
	}
}

// thinking reads the configuration of thinking. A budget must leave room for the answer, unless the model may think
// again between tool calls.
func (r *reader) thinking(c *call, thinking object) {
	thinking.require("type")
	kind := thinking.text("type")
	c.thinking = kind != "disabled"
	if kind != "enabled" {
		return
	}
	enabled := object{r, thinking.at(kind), thinking.members}
	enabled.require("budget_tokens")
	budget := enabled.number("budget_tokens", minThinkingBudget, minThinkingBudget)
	if 0 < c.maxTokens && c.maxTokens <= budget && !slices.Contains(c.betas, betaInterleavedThinking) {
		r.fail("", "`max_tokens` must be greater than `thinking.budget_tokens`")
	}
}

// isName tells whether s has 1 to most letters, digits, _ and -.
func isName(s string, most int) bool {
	for _, c := range []byte(s) {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '_', c == '-':
		default:
			return false
		}
	}
	return 0 < len(s) && len(s) <= most
}

func (r *reader) message(place string, raw json.RawMessage) Message {
	o := r.object(place, raw)
	o.require("role")
	m := Message{Role: o.text("role")}
	switch m.Role {
	case roleUser, roleAssistant, roleSystem:
	default:
		r.fail(o.at("role"), "Input should be 'user', 'assistant' or 'system'")
	}
	o.require("content")
	m.Content = r.texts(o.at("content"), o.members["content"])
	return m
}

// texts reads content, and complains of texts that are white space only. Only results of tools may have those.
func (r *reader) texts(place string, raw json.RawMessage) []Block {
	blocks := r.content(place, raw)
	for i, b := range blocks {
		if b.Type != typeText || strings.TrimSpace(b.Text) != "" {
			continue
		}
		if raw[0] == '[' {
			place = fmt.Sprintf("%s.%d", place, i)
		}
		r.fail(place, blankText)
		break
	}
	return blocks
}

const blankText = "text content blocks must contain non-whitespace text"

// content reads a list of blocks, or a string that stands for a block of text. Missing and empty are nil.
func (r *reader) content(place string, raw json.RawMessage) []Block {
	if len(raw) == 0 || isNull(raw) {
		return nil
	}
	if raw[0] == '"' {
		var text string
		if json.Unmarshal(raw, &text) != nil {
			r.fail(place, "Input should be a valid string")
		}
		if text == "" {
			return nil
		}
		return []Block{{Type: typeText, Text: text, Raw: appendBlock(nil, Text(text))}}
	}
	var list []json.RawMessage
	if json.Unmarshal(raw, &list) != nil {
		r.fail(place, "Input should be a valid string or list")
	}
	var blocks []Block
	for i, raw := range list {
		blocks = append(blocks, r.block(fmt.Sprintf("%s.%d", place, i), raw))
	}
	return blocks
}

func (r *reader) block(place string, raw json.RawMessage) Block {
	o := r.object(place, raw)
	r.cacheControl(o)
	o.require("type")
	b := Block{Type: o.text("type"), Raw: raw}
	switch b.Type {
	case typeText:
		o.require("text")
		b.Text = o.text("text")
		if b.Text == "" {
			r.fail(place, blankText)
		}
	case typeImage:
		r.imageSource(o)
	case typeThinking:
		b.Text = o.text("thinking")
	case typeCompaction:
		b.Text = o.text("content")
		b.Signature = o.text("signature")
	case typeToolUse:
		o.require("name")
		o.require("input")
		o.object("input")
		b.ID, b.Name, b.Input = o.text("id"), o.text("name"), o.members["input"]
		if !isName(b.ID, len(b.ID)) {
			r.fail(o.at("id"), "String should match pattern '^[a-zA-Z0-9_-]+$'")
		}
	case typeToolResult:
		o.require("tool_use_id")
		b.ToolUseID = o.text("tool_use_id")
		b.IsError = o.flag("is_error")
		b.Content = r.content(o.at("content"), o.members["content"])
		r.checkResult(place, b)
	}
	return b
}

// checkResult complains of blocks that a tool result cannot have.
func (r *reader) checkResult(place string, result Block) {
	for i, b := range result.Content {
		role, ok := roleOf[b.Type]
		switch {
		case b.Type == typeToolResult || ok && role != roleUser:
			r.fail(fmt.Sprintf("%s.content.%d", place, i), "`%s` blocks cannot be in a `tool_result` block", b.Type)
		case result.IsError && b.Type != typeText:
			r.fail(place, "all content must be type `text` if `is_error` is true")
		}
	}
}

// imageTypes are the media types of an image in base64; see
// https://platform.claude.com/docs/en/build-with-claude/vision.
var imageTypes = []string{"image/jpeg", "image/png", "image/gif", "image/webp"}

// imageSource complains of an image without a source. What is in the image is not looked at.
func (r *reader) imageSource(image object) {
	image.require("source")
	source, ok := image.object("source")
	if !ok {
		return
	}
	source.require("type")
	switch source.text("type") {
	case "base64":
		source.require("data")
		source.require("media_type")
		if !slices.Contains(imageTypes, source.text("media_type")) {
			r.fail(source.at("media_type"), "Input should be '%s'", strings.Join(imageTypes, "' or '"))
		}
	case "url":
		source.require("url")
	case "file":
		source.require("file_id")
	}
}

// cacheControl counts the breakpoint of a block or tool.
func (r *reader) cacheControl(o object) {
	if o.has("cache_control") {
		r.cacheControls++
	}
}
