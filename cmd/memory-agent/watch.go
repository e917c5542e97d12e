package main

import (
	"context"
	"encoding/json"
	"strings"
	"sync/atomic"

	"github.com/anthropics/anthropic-sdk-go/v2"
)

// watched is a tool whose calls are reported once they are done.
type watched struct {
	anthropic.BetaTool
	done func(ctx context.Context, tool string, input json.RawMessage, answer string, err error)
}

// Execute implements anthropic.BetaTool.
func (t watched) Execute(ctx context.Context, input json.RawMessage) ([]result, error) {
	content, err := t.BetaTool.Execute(ctx, input)
	var texts []string
	for _, block := range content {
		if block.OfText != nil {
			texts = append(texts, block.OfText.Text)
		} else {
			texts = append(texts, "[an image]")
		}
	}
	t.done(ctx, t.Name(), input, strings.Join(texts, "\n"), err)
	return content, err
}

// watch returns the tools such that their calls are printed.
func (a *agent) watch(tools []anthropic.BetaTool) []anthropic.BetaTool {
	all := make([]anthropic.BetaTool, len(tools))
	for i, tool := range tools {
		all[i] = watched{tool, a.toolDone}
	}
	return all
}

func (a *agent) toolDone(ctx context.Context, tool string, input json.RawMessage, answer string, err error) {
	if err != nil && ctx.Err() != nil {
		return // says nothing about the tool
	}
	a.out.toolCall(tool, input, answer, err)
	if tool == toolMemory && err == nil && isChange(input) {
		a.hold.changed(ctx, a.out)
	}
}

// isChange tells whether the input of the memory tool is of a command that changes something.
func isChange(input json.RawMessage) bool {
	var in memoryInput
	return json.Unmarshal(input, &in) == nil && in.Command != "view"
}

// hold stops a session dead after some changes of the memory, for whoever wants to kill it there: the change is made,
// and nobody has read its answer.
type hold struct {
	after   int64 // changes; 0 is never
	changes atomic.Int64
}

// holdLine is printed when a session stands.
const holdLine = "  (stopped here: memoryd has made the change, the agent has not seen the answer)"

// changed waits for the end of ctx if it is time to.
func (h *hold) changed(ctx context.Context, out *printer) {
	if h.changes.Add(1) == h.after {
		out.printf("%s\n", holdLine)
		<-ctx.Done()
	}
}
