package transcript

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
)

// MaxLineBytes is the most bytes that a line may have: as many as the API takes in a request
// (https://platform.claude.com/docs/en/api/errors), and as many again for the answer.
const MaxLineBytes = 64 << 20

// maxTokens is more tokens than any prompt has; what is above is a mistake.
const maxTokens = 1_000_000_000

// Transcript is a run as it was recorded.
type Transcript struct {
	// Model is the model that was asked for.
	Model string
	// System and Tools are the system prompt and the definitions of the tools, as JSON; nil where there were none.
	System, Tools json.RawMessage
	// Calls are the calls of the API, in their order; at least one.
	Calls []Call
	// CutOff is the number of the last line, from 1, where that was left out because it does not end: the run was
	// killed while it was written. It is 0 where there was no such line.
	CutOff int
}

// Call is one call of the API.
type Call struct {
	// Line is where it stands in the transcript, from 1.
	Line int
	// Reset tells that Messages are the whole conversation; without it they follow the answer of the call before.
	Reset bool
	// Messages are what was not there in the call before. Never empty.
	Messages []Message
	// Response is what the API answered.
	Response Response
}

// Message is a message of the conversation.
type Message struct {
	Role    string  `json:"role"` // "user", "assistant" or "system"
	Content Content `json:"content"`
}

// Response is what replaying needs of an answer.
type Response struct {
	Content    Content `json:"content"`
	StopReason string  `json:"stop_reason"`
	Usage      Usage   `json:"usage"`
	// ContextManagement has the context edits that the API made to the prompt.
	ContextManagement struct {
		AppliedEdits []struct {
			ClearedInputTokens int `json:"cleared_input_tokens"`
		} `json:"applied_edits"`
	} `json:"context_management"`
}

// Usage is what the API counted.
type Usage struct {
	InputTokens              int `json:"input_tokens"` // neither read from the cache nor written to it
	CacheReadInputTokens     int `json:"cache_read_input_tokens"`
	CacheCreationInputTokens int `json:"cache_creation_input_tokens"`
	OutputTokens             int `json:"output_tokens"`
}

// Prompt is the size of the whole prompt, in tokens, as the model saw it. It is 0 for a call that did nothing but
// summarize the conversation: its answer is a compaction block.
func (u Usage) Prompt() int {
	return u.InputTokens + u.CacheReadInputTokens + u.CacheCreationInputTokens
}

// OriginalPrompt is the size of the prompt before the API's context edits, in tokens.
func (r Response) OriginalPrompt() int {
	n := r.Usage.Prompt()
	for _, e := range r.ContextManagement.AppliedEdits {
		n += e.ClearedInputTokens
	}
	return n
}

// Content is a list of blocks. In JSON it may also be a string, which is one text block.
type Content []Block

// UnmarshalJSON reads a list of blocks, or a string.
func (c *Content) UnmarshalJSON(raw []byte) error {
	if bytes.HasPrefix(raw, []byte(`"`)) {
		*c = Content{{Type: "text", Raw: bytes.Clone(raw)}}
		return nil
	}
	var blocks []json.RawMessage
	if err := json.Unmarshal(raw, &blocks); err != nil {
		return errors.New("content is neither a string nor a list of blocks")
	}
	*c = make(Content, len(blocks))
	for i, raw := range blocks {
		if err := json.Unmarshal(raw, &(*c)[i]); err != nil {
			return fmt.Errorf("content: %w", err)
		}
	}
	return nil
}

// Block is a block of content.
type Block struct {
	Type string
	// ID, Name and Input are those of a tool_use block.
	ID, Name string
	Input    json.RawMessage
	// ToolUseID is that of a tool_result block.
	ToolUseID string
	// Raw is the whole block.
	Raw json.RawMessage
}

// UnmarshalJSON reads a block and keeps it whole.
func (b *Block) UnmarshalJSON(raw []byte) error {
	var fields struct {
		Type      string          `json:"type"`
		ID        string          `json:"id"`
		Name      string          `json:"name"`
		Input     json.RawMessage `json:"input"`
		ToolUseID string          `json:"tool_use_id"`
	}
	if err := json.Unmarshal(raw, &fields); err != nil {
		return explain(err)
	}
	if fields.Type == "" {
		return errors.New("a block has no type")
	}
	*b = Block{fields.Type, fields.ID, fields.Name, fields.Input, fields.ToolUseID, bytes.Clone(raw)}
	return nil
}

// line is any line of a transcript.
type line struct {
	Type     string          `json:"type"`
	Version  int             `json:"version"`
	Model    string          `json:"model"`
	System   json.RawMessage `json:"system"`
	Tools    json.RawMessage `json:"tools"`
	Reset    bool            `json:"reset"`
	Messages []Message       `json:"messages"`
	Response *Response       `json:"response"`
}

// Read reads a transcript to its end. An error names the line, from 1, and what is wrong with it. Blank lines do not
// matter, and a last line that was cut off is left out; see Transcript.CutOff.
func Read(r io.Reader) (*Transcript, error) {
	t := &Transcript{}
	p := parser{transcript: t}
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, MaxLineBytes)
	ended := true // the line has its end
	lines.Split(func(data []byte, atEOF bool) (int, []byte, error) {
		ended = bytes.IndexByte(data, '\n') >= 0
		return bufio.ScanLines(data, atEOF)
	})
	number := 0
	for lines.Scan() {
		number++
		if len(bytes.TrimSpace(lines.Bytes())) == 0 {
			continue
		}
		if !ended && !json.Valid(lines.Bytes()) { // no part of an object is JSON, so what is JSON is whole
			t.CutOff = number
			break
		}
		if err := p.line(number, lines.Bytes()); err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
	}
	switch err := lines.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return nil, fmt.Errorf("line %d: has more than %d bytes", number+1, MaxLineBytes)
	case err != nil:
		return nil, fmt.Errorf("line %d: %w", number+1, err)
	case !p.begun:
		return nil, errors.New("the transcript is empty")
	case len(t.Calls) == 0:
		return nil, errors.New("the transcript has no calls of the API, only a header")
	}
	return t, nil
}

// parser reads the lines of a transcript, one after the other.
type parser struct {
	transcript *Transcript
	begun      bool            // the header was read
	calls      map[string]bool // the ids of tool_use blocks in the conversation; true once answered
}

func (p *parser) line(number int, raw []byte) error {
	var l line
	if err := json.Unmarshal(raw, &l); err != nil {
		return explain(err)
	}
	switch {
	case !p.begun && l.Type != typeHeader:
		return fmt.Errorf("is of type %q, but a transcript begins with a %s: is this one?", l.Type, typeHeader)
	case l.Type == typeHeader && p.begun:
		return errors.New("is a second header: a transcript has one run")
	case l.Type == typeHeader:
		return p.header(l)
	case l.Type != typeCall:
		return fmt.Errorf("is of type %q, want %s", l.Type, typeCall)
	}
	return p.call(number, l)
}

func (p *parser) header(l line) error {
	switch {
	case l.Version > Version:
		return fmt.Errorf("is of version %d; this memory-agent reads version %d: use a newer one", l.Version, Version)
	case l.Version != Version:
		return fmt.Errorf("is of version %d, want %d", l.Version, Version)
	}
	p.begun = true
	p.transcript.Model, p.transcript.System, p.transcript.Tools = l.Model, l.System, l.Tools
	return nil
}

func (p *parser) call(number int, l line) error {
	switch {
	case len(l.Messages) == 0:
		return errors.New("the call has no messages")
	case l.Response == nil:
		return errors.New("the call has no response")
	}
	if err := l.Response.check(); err != nil {
		return err
	}
	if l.Reset || p.calls == nil {
		p.calls = map[string]bool{}
	}
	for _, m := range l.Messages {
		if err := p.message(m); err != nil {
			return err
		}
	}
	if err := p.message(Message{Role: "assistant", Content: l.Response.Content}); err != nil {
		return fmt.Errorf("response: %w", err)
	}
	p.transcript.Calls = append(p.transcript.Calls, Call{number, l.Reset, l.Messages, *l.Response})
	return nil
}

func (r *Response) check() error {
	u := r.Usage
	counts := []int{u.InputTokens, u.CacheReadInputTokens, u.CacheCreationInputTokens, u.OutputTokens}
	for _, e := range r.ContextManagement.AppliedEdits {
		counts = append(counts, e.ClearedInputTokens)
	}
	for _, n := range append(counts, r.OriginalPrompt()) {
		if n < 0 || n > maxTokens {
			return fmt.Errorf("the response counts %d tokens, which cannot be", n)
		}
	}
	compacts := func(b Block) bool { return b.Type == "compaction" }
	if u.Prompt() == 0 && !slices.ContainsFunc(r.Content, compacts) {
		return errors.New("the response has no usage: it does not say how many tokens the prompt had")
	}
	return nil
}

// message checks the tool calls of a message: every result has a call, and every call one result.
func (p *parser) message(m Message) error {
	switch m.Role {
	case "user", "assistant", "system":
	default:
		return fmt.Errorf("a message has the role %q, want user, assistant or system", m.Role)
	}
	for _, b := range m.Content {
		switch b.Type {
		case "tool_use":
			if b.ID == "" || b.Name == "" {
				return errors.New("a tool_use block has no id or no name")
			}
			if _, there := p.calls[b.ID]; there {
				return fmt.Errorf("a second tool_use block has the id %q", b.ID)
			}
			p.calls[b.ID] = false
		case "tool_result":
			answered, there := p.calls[b.ToolUseID]
			if !there {
				return fmt.Errorf("a tool_result block answers %q, but there is no such tool_use block before", b.ToolUseID)
			}
			if answered {
				return fmt.Errorf("a second tool_result block answers %q", b.ToolUseID)
			}
			p.calls[b.ToolUseID] = true
		}
	}
	return nil
}

// explain says what is wrong in the words of a transcript where encoding/json speaks of Go.
func explain(err error) error {
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return fmt.Errorf("%s is a %s, which it cannot be", cmp.Or(wrong.Field, "the value"), wrong.Value)
	}
	if wrong, ok := errors.AsType[*json.SyntaxError](err); ok {
		return fmt.Errorf("is not valid JSON: %w", wrong)
	}
	return err
}
