package claudetest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
)

// A message is an answer of the model, ready to be sent.
type message struct {
	id           string
	model        string
	content      []Block
	stopReason   string
	stopSequence *string
	usage        usage
	applied      []AppliedEdit // nil where the request had no context_management
}

// usage is the usage of a message. The API caches nothing.
type usage struct {
	tokens
	ServiceTier string      `json:"service_tier"`
	Iterations  []iteration `json:"iterations,omitempty"` // where the conversation was summarized
}

// iteration is the usage of one sampling of the model.
type iteration struct {
	Type  string `json:"type"` // "compaction" or "message"
	Model string `json:"model,omitempty"`
	tokens
}

type tokens struct {
	InputTokens              int           `json:"input_tokens"`
	OutputTokens             int           `json:"output_tokens"`
	CacheCreationInputTokens int           `json:"cache_creation_input_tokens"`
	CacheReadInputTokens     int           `json:"cache_read_input_tokens"`
	CacheCreation            cacheCreation `json:"cache_creation"`
}

type cacheCreation struct {
	Ephemeral1h int `json:"ephemeral_1h_input_tokens"`
	Ephemeral5m int `json:"ephemeral_5m_input_tokens"`
}

// finish makes the message of a turn. An error is a mistake of the test.
func (a *API) finish(p *prompt, t Turn) (*message, error) {
	if len(t.Content) == 0 && t.StopReason == "" {
		return nil, errors.New("the model returned a turn that is empty")
	}
	for _, b := range t.Content {
		if err := p.checkSaid(b); err != nil {
			return nil, err
		}
	}

	m := a.newMessage(p)
	m.content = a.giveIDs(t.Content)
	m.stopReason = t.StopReason
	if m.stopReason == "" {
		m.stopReason = StopEndTurn
		if slices.ContainsFunc(m.content, func(b Block) bool { return b.Type == typeToolUse }) {
			m.stopReason = StopToolUse
		}
	}
	if t.StopSequence != "" {
		m.stopSequence = &t.StopSequence
	}
	if m.stopReason == StopPauseTurn {
		a.pause(m.content)
	}
	m.usage.tokens = tokens{InputTokens: p.input, OutputTokens: a.options.count.output(m.content)}
	return m, nil
}

// notText says of JSON that isJSON refuses why the API would not take it back.
const notText = "is not in UTF-8 or has half an escaped surrogate pair, which the API refuses when it is sent back"

// checkSaid returns what is wrong with a block that the model said.
func (p *prompt) checkSaid(b Block) error {
	switch {
	case b.Raw != nil && !json.Valid(b.Raw):
		return fmt.Errorf("the model returned a block whose Raw is not valid JSON: %s", b.Raw)
	case b.Raw != nil && !isJSON(b.Raw):
		return fmt.Errorf("the model returned a block whose Raw %s: %q", notText, b.Raw)
	case b.isSummary():
		return errors.New("the model returned a summary, which the request does not ask for")
	case b.Type != typeToolUse || b.Raw != nil:
		return nil
	case b.unknown && hasTool(p.tools, b.Name):
		return fmt.Errorf("the model makes up the tool %q with CallUnknown, but the request offers it", b.Name)
	case !b.unknown && !offers(p.tools, b.Name):
		return fmt.Errorf("the model calls the tool %q, which the request does not offer; where that is meant, use "+
			"CallUnknown", b.Name)
	case !p.call.stream && !json.Valid(b.Input):
		return fmt.Errorf("the model calls the tool %q with an input that is not valid JSON, which only a stream "+
			"can carry", b.Name)
	case json.Valid(b.Input) && !isJSON(b.Input):
		return fmt.Errorf("the model calls the tool %q with an input that %s: %q", b.Name, notText, b.Input)
	default:
		return nil
	}
}

// newMessage returns a message without content.
func (a *API) newMessage(p *prompt) *message {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.messages++
	return &message{
		id:      fmt.Sprintf("msg_%s%d", a.options.idPrefix, a.messages),
		model:   p.call.model,
		usage:   usage{ServiceTier: "standard"},
		applied: p.applied,
	}
}

// giveIDs gives ids to the tool calls that have none.
func (a *API) giveIDs(blocks []Block) []Block {
	a.mu.Lock()
	defer a.mu.Unlock()
	blocks = slices.Clone(blocks)
	for i, b := range blocks {
		if b.Type == typeToolUse && b.Raw == nil && b.ID == "" {
			a.toolUses++
			blocks[i].ID = fmt.Sprintf("toolu_%s%d", a.options.idPrefix, a.toolUses)
		}
	}
	return blocks
}

// A saidBlock is what a block that the model said is known by when it is sent back: a call by its id, a text by itself.
type saidBlock struct{ kind, id, text string }

func (b Block) said() saidBlock { return saidBlock{b.Type, b.ID, b.Text} }

// pause remembers the blocks of a turn that the model paused. The turn is sent back as it is: its calls need no result,
// and its text may end in white space.
func (a *API) pause(blocks []Block) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, b := range blocks {
		if b.Raw != nil {
			b = (&reader{}).block("", b.Raw)
		}
		a.paused[b.said()] = true
	}
}

// isPaused tells whether a block is of a turn that the model paused.
func (a *API) isPaused(b Block) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.paused[b.said()]
}

// sentBack returns the message as a client sends it back.
func (m *message) sentBack() Message {
	back := Message{Role: roleAssistant}
	r := &reader{} // whatever is wrong with a block, the model said it
	for _, b := range m.content {
		back.Content = append(back.Content, r.block("", appendBlock(nil, b)))
	}
	return back
}

// json returns the message as the body of an answer.
func (m *message) json() []byte {
	b := m.appendHead(nil)
	for i, block := range m.content {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendBlock(b, block)
	}
	b = append(b, "],"...)
	b = m.appendStop(b)
	b = append(b, `,"usage":`...)
	b = appendJSON(b, m.usage)
	b = m.appendContextManagement(b)
	return append(b, '}')
}

// start returns the message as a stream starts with it: without content, stop reason and most of its output tokens.
func (m *message) start() []byte {
	start := *m
	start.usage.OutputTokens = min(m.usage.OutputTokens, 1)
	start.usage.Iterations = nil
	b := start.appendHead(nil)
	b = append(b, `],"stop_reason":null,"stop_sequence":null,"stop_details":null,"container":null,"usage":`...)
	b = appendJSON(b, start.usage)
	return append(b, '}')
}

// appendHead appends the message up to its content.
func (m *message) appendHead(b []byte) []byte {
	b = append(b, `{"id":`...)
	b = appendJSON(b, m.id)
	b = append(b, `,"type":"message","role":"assistant","model":`...)
	b = appendJSON(b, m.model)
	return append(b, `,"content":[`...)
}

// appendStop appends why the model stopped, and its container, as members of an object.
func (m *message) appendStop(b []byte) []byte {
	b = append(b, `"stop_reason":`...)
	b = appendJSON(b, m.stopReason)
	b = append(b, `,"stop_sequence":`...)
	b = appendJSON(b, m.stopSequence)
	return append(b, `,"stop_details":null,"container":null`...)
}

// appendContextManagement appends the context edits, as a further member of an object.
func (m *message) appendContextManagement(b []byte) []byte {
	if m.applied == nil {
		return b
	}
	edits := []map[string]any{}
	for _, e := range m.applied {
		edits = append(edits, e.wire())
	}
	b = append(b, `,"context_management":`...)
	return appendJSON(b, map[string]any{"applied_edits": edits})
}

// appendBlock appends a block of the model's. An input goes out byte for byte; a raw block goes out on one line, which
// is what an event of a stream has.
func appendBlock(b []byte, block Block) []byte {
	switch {
	case block.Raw != nil:
		line := bytes.NewBuffer(b)
		if err := json.Compact(line, block.Raw); err != nil {
			panic(err) // was checked when the model said it
		}
		return line.Bytes()
	case block.Type == typeToolUse:
		b = append(b, `{"type":"tool_use","id":`...)
		b = appendJSON(b, block.ID)
		b = append(b, `,"name":`...)
		b = appendJSON(b, block.Name)
		b = append(b, `,"input":`...)
		b = append(b, block.Input...)
		return append(b, '}')
	case block.Type == typeThinking:
		return appendJSON(b, struct {
			Type      string `json:"type"`
			Thinking  string `json:"thinking"`
			Signature string `json:"signature"`
		}{block.Type, block.Text, block.Signature})
	case block.Type == typeCompaction:
		return appendJSON(b, struct {
			Type             string            `json:"type"`
			Content          *string           `json:"content"`
			EncryptedContent *string           `json:"encrypted_content"`
			Signature        *string           `json:"signature"`
			ToolChanges      []json.RawMessage `json:"tool_changes"`
		}{block.Type, orNull(block.Text), nil, orNull(block.Signature), block.toolChanges})
	default:
		return appendJSON(b, struct {
			Type string `json:"type"`
			Text string `json:"text"`
		}{block.Type, block.Text})
	}
}

// orNull is what is null in JSON if it is empty.
func orNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
