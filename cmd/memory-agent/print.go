package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"github.com/anthropics/anthropic-sdk-go/v2"
)

// How much of an argument, an answer and an error of a tool call is printed.
const (
	maxArgumentChars = 100
	maxAnswerChars   = 50
	maxErrorChars    = 200
)

// turnPrefix begins the line about an answer of the model.
const turnPrefix = "turn "

// printer prints what happens in a session. It is safe for concurrent use, as tools run concurrently.
type printer struct {
	mu    sync.Mutex
	w     io.Writer
	turns int
	calls []*callLine // of the latest answer, in the order of their blocks, without those that are printed
	err   error       // the first of w; nothing is written after it
}

// callLine is the line about a tool call.
type callLine struct {
	tool  string
	input []byte // as the runner gives it to the tool
	line  string // empty until the call is done
}

// printf prints lines. What an agent read or wrote cannot steer a terminal: control characters become visible.
func (p *printer) printf(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.write(format, args...)
}

// write is printf for those who hold the lock.
func (p *printer) write(format string, args ...any) {
	if p.err != nil {
		return
	}
	text := strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' && r != '\t' {
			return utf8.RuneError
		}
		return r
	}, fmt.Sprintf(format, args...))
	if _, err := io.WriteString(p.w, text); err != nil {
		p.err = fmt.Errorf("write standard output: %w", err)
	}
}

// failed returns the first error of the output.
func (p *printer) failed() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}

// turn prints an answer of the model. The tool calls in it are printed when they are done, in their order.
func (p *printer) turn(m *anthropic.BetaMessage) {
	p.flush()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.turns++
	p.write("%s%d · %s", turnPrefix, p.turns, usage(m))
	for _, edit := range m.ContextManagement.AppliedEdits {
		p.write(" · %s, %d tokens", cleared(edit), edit.ClearedInputTokens)
	}
	p.write("\n")
	for _, block := range m.Content {
		switch {
		case block.Type == blockText && strings.TrimSpace(block.Text) != "":
			p.write("  %s\n", strings.ReplaceAll(strings.TrimSpace(block.Text), "\n", "\n  "))
		case block.Type == blockToolUse:
			input, _ := json.Marshal(block.AsToolUse().Input) // was decoded from JSON
			p.calls = append(p.calls, &callLine{tool: block.Name, input: input})
		}
	}
}

// usage says what the API counted for an answer. The prompt is all of it, be it cached or not.
func usage(m *anthropic.BetaMessage) string {
	u := m.Usage
	text := fmt.Sprintf("%d tokens in", u.InputTokens+u.CacheReadInputTokens+u.CacheCreationInputTokens)
	if u.CacheReadInputTokens > 0 {
		text += fmt.Sprintf(" (%d of them cached)", u.CacheReadInputTokens)
	}
	return text + fmt.Sprintf(", %d out", u.OutputTokens)
}

func cleared(edit anthropic.BetaContextManagementResponseAppliedEditUnion) string {
	if edit.ClearedToolUses > 0 {
		return count(int(edit.ClearedToolUses), "tool result", "tool results") + " cleared"
	}
	return edit.Type
}

// toolCall prints a tool call that is done, in one line, once those before it are done.
func (p *printer) toolCall(tool string, input json.RawMessage, answer string, err error) {
	result := "→ " + short(answer, maxAnswerChars)
	if err != nil {
		result = "✗ " + short(err.Error(), maxErrorChars)
	}
	line := fmt.Sprintf("  %s%s %s\n", tool, arguments(input), result)

	p.mu.Lock()
	defer p.mu.Unlock()
	i := slices.IndexFunc(p.calls, func(c *callLine) bool {
		return c.line == "" && c.tool == tool && bytes.Equal(c.input, input)
	})
	if i < 0 {
		p.write("%s", line)
		return
	}
	p.calls[i].line = line
	for len(p.calls) > 0 && p.calls[0].line != "" {
		p.write("%s", p.calls[0].line)
		p.calls = p.calls[1:]
	}
}

// flush prints the calls that are done, though others before them are not and will not be.
func (p *printer) flush() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.calls {
		p.write("%s", c.line)
	}
	p.calls = nil
}

// arguments shows the arguments of a tool call that tell most.
func arguments(input json.RawMessage) string {
	var args map[string]any
	_ = json.Unmarshal(input, &args) // what is no object has nothing to show
	var shown strings.Builder
	for _, name := range []string{"command", "path", "old_path", "new_path", "query", "name"} {
		if value, ok := args[name]; ok {
			fmt.Fprintf(&shown, " %s", short(fmt.Sprint(value), maxArgumentChars))
		}
	}
	return shown.String()
}

// short returns the beginning of the first line of a text and says how many lines follow.
func short(text string, most int) string {
	first, rest, _ := strings.Cut(strings.TrimSpace(text), "\n")
	if utf8.RuneCountInString(first) > most {
		first = string([]rune(first)[:most]) + "…"
	}
	if rest != "" {
		first += fmt.Sprintf(" (+%s)", count(strings.Count(rest, "\n")+1, "line", "lines"))
	}
	return first
}

// count writes a number and the word for what is counted.
func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
