package transcript

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/anthropics/anthropic-sdk-go/v2"
)

// Writer writes the transcript of one run. It is not safe for concurrent use.
type Writer struct {
	lines   *json.Encoder // writes a line in one piece
	written int           // messages of the conversation, answers included
	last    []byte        // the JSON of the last of them
}

// NewWriter writes the header of a transcript. Model, system prompt and tools are those of params; with a tool runner
// these are runner.Params.BetaMessageNewParams, which have the definitions of its tools too.
func NewWriter(w io.Writer, params anthropic.BetaMessageNewParams) (*Writer, error) {
	t := &Writer{lines: json.NewEncoder(w)}
	t.lines.SetEscapeHTML(false)
	err := t.lines.Encode(struct {
		Type    string                         `json:"type"`
		Version int                            `json:"version"`
		Model   anthropic.Model                `json:"model"`
		System  []anthropic.BetaTextBlockParam `json:"system,omitempty"`
		Tools   []anthropic.BetaToolUnionParam `json:"tools,omitempty"`
	}{typeHeader, Version, params.Model, params.System, params.Tools})
	if err != nil {
		return nil, fmt.Errorf("write header of transcript: %w", err)
	}
	return t, nil
}

// Call writes one call of the API. history is the conversation that was sent, or that with the response after it, as
// runner.Params.Messages has it once a tool runner has returned the response. A line is written at once, so that a run
// that is killed leaves all calls before.
func (t *Writer) Call(history []anthropic.BetaMessageParam, response *anthropic.BetaMessage) error {
	if err := t.call(history, response); err != nil {
		return fmt.Errorf("write call to transcript: %w", err)
	}
	return nil
}

func (t *Writer) call(history []anthropic.BetaMessageParam, response *anthropic.BetaMessage) error {
	raw := response.RawJSON()
	if raw == "" {
		return errors.New("the response did not come from the API: it has no JSON")
	}
	answer, err := json.Marshal(response.ToParam())
	if err != nil {
		return err
	}
	answered, err := isAt(history, len(history)-1, answer)
	if err != nil {
		return err
	}
	if answered {
		history = history[:len(history)-1]
	}
	if len(history) == 0 {
		return errors.New("the history is empty")
	}
	same := t.written == 0
	if !same {
		if same, err = isAt(history, t.written-1, t.last); err != nil {
			return err
		}
	}
	if !same {
		t.written = 0
	}
	err = t.lines.Encode(struct {
		Type     string                       `json:"type"`
		Reset    bool                         `json:"reset,omitempty"`
		Messages []anthropic.BetaMessageParam `json:"messages"`
		Response json.RawMessage              `json:"response"`
	}{typeCall, !same, history[t.written:], json.RawMessage(raw)})
	if err != nil {
		return err
	}
	t.written, t.last = len(history)+1, answer
	return nil
}

// isAt tells whether the message at i has the given JSON.
func isAt(history []anthropic.BetaMessageParam, i int, want []byte) (bool, error) {
	if i < 0 || i >= len(history) {
		return false, nil
	}
	got, err := json.Marshal(history[i])
	return bytes.Equal(got, want), err
}
