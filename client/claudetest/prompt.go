package claudetest

import "slices"

// A prompt is a call as the model sees it.
type prompt struct {
	call     *call
	tools    []Tool
	messages []Message
	// applied is nil without context_management.
	applied []AppliedEdit
	warning string
	// input is the size in tokens, original that before context edits.
	input, original int
}

// prepare checks a call and makes the prompt of it: what a summary stands for is left out, context edits are made.
func (a *API) prepare(c *call) (*prompt, *Failure) {
	if failure := c.validate(a.isPaused); failure != nil {
		return nil, failure
	}
	count := a.options.count
	r := &reader{}
	p := &prompt{call: c, messages: visible(c.messages)}
	p.tools = r.changeTools(c.tools, p.messages)
	p.original = count.prompt(c.system, p.tools, p.messages)
	p.input = p.original
	if c.edits != nil {
		p.applied = []AppliedEdit{}
		for _, e := range c.edits.clear {
			if messages, applied, ok := e.apply(count, p.input, p.messages); ok {
				p.messages, p.applied = messages, append(p.applied, applied)
				p.input = count.prompt(c.system, p.tools, p.messages)
			}
		}
	}
	if c.edits.warns(p.original, a.options.warnAt) && slices.ContainsFunc(p.tools, Tool.isMemory) {
		p.warn(count)
	}
	return p, r.wrong
}

// warn puts the warning at the end of the messages.
func (p *prompt) warn(count counter) {
	p.warning = WarningText
	p.input += count(WarningText)
	last := len(p.messages) - 1
	if p.messages[last].Role != roleUser {
		p.messages = append(slices.Clip(p.messages), Message{Role: roleUser, Content: []Block{Text(WarningText)}})
		return
	}
	p.messages = slices.Clone(p.messages)
	p.messages[last].Content = append(slices.Clip(p.messages[last].Content), Text(WarningText))
}

// request returns the prompt for the model, which may do with it as it likes.
func (p *prompt) request() *Request {
	return &Request{
		Model:               p.call.model,
		System:              joinTexts(p.call.system),
		Tools:               slices.Clone(p.tools),
		Messages:            cloneMessages(p.messages),
		InputTokens:         p.input,
		OriginalInputTokens: p.original,
		AppliedEdits:        slices.Clone(p.applied),
		Warning:             p.warning,
		Betas:               slices.Clone(p.call.betas),
		Stream:              p.call.stream,
		Raw:                 p.call.raw,
	}
}

func cloneMessages(messages []Message) []Message {
	messages = slices.Clone(messages)
	for i := range messages {
		messages[i].Content = cloneBlocks(messages[i].Content)
	}
	return messages
}

func cloneBlocks(blocks []Block) []Block {
	blocks = slices.Clone(blocks)
	for i := range blocks {
		blocks[i].Content = cloneBlocks(blocks[i].Content)
	}
	return blocks
}
