package simulation

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/anthropics/anthropic-sdk-go/v2"

	"github.com/seed-7f2870e1/memoryd/client/claudetest"
	"github.com/seed-7f2870e1/memoryd/cmd/memory-agent/internal/transcript"
)

// A recording is a transcript made ready to be played again. Of the texts it has only the sizes: each block stands for
// as many tokens as it had, so that every prompt has the size that the API counted.
type recording struct {
	exchanges []exchange
	head      int      // the tokens of system prompt and tools
	tools     []string // the names of those that were called
	about     RecordedRun
}

// exchange is a call of the API.
type exchange struct {
	restart bool // sent is a whole conversation
	sent    []turn
	answer  turn
	// repeats are the ids of earlier calls, the same as one that the answer has.
	repeats []string
}

// turn is a message of the conversation.
type turn struct {
	role   string
	blocks []sizedBlock
}

// sizedBlock is a block of content, or what counts as one.
type sizedBlock struct {
	kind     string // "tool_use", "tool_result", or anything else, which is played as text
	id, name string // of the call, or of the call that is answered
	estimate int
	tokens   int
}

// newRecording makes a transcript ready. Its blocks are estimated by their length, and what came new with a request is
// scaled so that the prompt has the size that the API counted, context edits undone.
func newRecording(t *transcript.Transcript) *recording {
	r := &recorder{system: claudetest.EstimateTokens(string(t.System) + string(t.Tools)), calls: map[string]string{}}
	r.about.Model = t.Model
	for i, c := range t.Calls {
		r.add(c, t.Calls[i+1:])
	}
	r.tools = r.toolNames()
	return &r.recording
}

// recorder makes a recording, call by call.
type recorder struct {
	recording
	system int // an estimate of the tokens of system prompt and tools
	size   int // of the conversation so far, head included

	answer    turn // the last one
	compacted bool // it stands for all that is before it

	calls map[string]string // by what was called, the last id
}

// add adds a call; rest are those that follow it.
func (r *recorder) add(c transcript.Call, rest []transcript.Call) {
	e := exchange{answer: newTurn("assistant", c.Response.Content)}
	e.answer.dropUnanswered(rest)
	for _, m := range c.Messages {
		e.sent = append(e.sent, newTurn(m.Role, m.Content))
	}
	e.restart = c.Reset || len(r.exchanges) == 0
	if r.compacted && !c.Reset {
		// The client goes on sending what the compaction stands for, but the model is not shown it.
		e.restart, e.sent = true, append([]turn{r.answer}, e.sent...)
	}
	prompt := c.Response.OriginalPrompt()
	compacts := slices.ContainsFunc(c.Response.Content, isCompaction)
	if compacts && !e.restart && prompt < r.size {
		// The conversation was summarized on the way, and the prompt is the summary.
		e.restart, e.sent = true, []turn{{role: "user", blocks: []sizedBlock{{kind: "text", estimate: 1}}}}
	}
	if e.restart && e.sent[0].role != "user" {
		e.sent = append([]turn{{role: "user"}}, e.sent...)
	}
	if prompt > 0 {
		r.measure(e, prompt)
		e.repeats = r.repeats(e.restart, c.Response.Content)
		r.exchanges = append(r.exchanges, e)
	} else {
		r.about.Compactions++ // all that the call did
	}
	r.answer, r.compacted = e.answer, compacts
}

// measure gives the blocks that are new in a prompt their sizes.
func (r *recorder) measure(e exchange, prompt int) {
	fresh := sizedBlocks(e.sent)
	system := &sizedBlock{estimate: r.system}
	base := r.size
	switch {
	case len(r.exchanges) == 0:
		fresh = append(fresh, system)
	case e.restart:
		base = r.head
	default:
		fresh = append(sizedBlocks([]turn{r.answer}), fresh...)
	}
	if !scale(fresh, prompt-base) {
		r.about.Misfits++
	}
	if len(r.exchanges) == 0 {
		r.head = system.tokens
	}
	r.size = base
	for _, b := range fresh {
		r.size += b.tokens
	}
}

// repeats returns the ids of earlier calls that an answer makes again, and counts views of the memory.
func (r *recorder) repeats(restart bool, answer transcript.Content) []string {
	if restart {
		clear(r.calls)
	}
	var ids []string
	for _, b := range answer {
		switch {
		case b.Type != "tool_use":
		case b.Name == toolMemory:
			var call memoryCall
			if json.Unmarshal(b.Input, &call) == nil && call.Command == commandView {
				r.about.MemoryViews++
			}
		default:
			key := b.Name + " " + compactJSON(b.Input)
			if earlier, ok := r.calls[key]; ok {
				ids = append(ids, earlier)
			}
			r.calls[key] = b.ID
		}
	}
	return ids
}

// isCompaction tells whether a block stands for all that is before it.
func isCompaction(b transcript.Block) bool { return b.Type == "compaction" }

// toolNames returns the names of all tools that are called, sorted.
func (r *recording) toolNames() []string {
	var names []string
	for _, e := range r.exchanges {
		for _, t := range append(slices.Clone(e.sent), e.answer) {
			for _, b := range t.blocks {
				if b.kind == "tool_use" {
					names = append(names, b.name)
				}
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func newTurn(role string, content transcript.Content) turn {
	t := turn{role: role}
	for _, b := range content {
		t.blocks = append(t.blocks, sizedBlock{
			kind: b.Type, id: b.ID + b.ToolUseID, name: b.Name, estimate: estimate(b),
		})
	}
	return t
}

// imageTokens is what an image counts for: about what the API counts for a picture of 1,000 by 1,000 pixels
// (https://platform.claude.com/docs/en/build-with-claude/vision).
const imageTokens = 1334

// estimate estimates the tokens of a block by its length as JSON.
func estimate(b transcript.Block) int {
	switch b.Type {
	case "image":
		return imageTokens
	case "tool_result":
		var result struct {
			Content transcript.Content `json:"content"`
		}
		if json.Unmarshal(b.Raw, &result) == nil {
			n := 0
			for _, b := range result.Content {
				n += estimate(b)
			}
			return n
		}
	}
	return claudetest.EstimateTokens(string(b.Raw))
}

// dropUnanswered makes text of the tool calls of an answer that the next call has no results for: those of a turn that
// was cut short are never run.
func (t *turn) dropUnanswered(rest []transcript.Call) {
	answered := map[string]bool{}
	if len(rest) > 0 {
		for _, m := range rest[0].Messages {
			for _, b := range m.Content {
				answered[b.ToolUseID] = true
			}
		}
	}
	for i, b := range t.blocks {
		if b.kind == "tool_use" && !answered[b.id] {
			t.blocks[i].kind = "text"
		}
	}
}

// compactJSON is the JSON of an input without its blanks.
func compactJSON(input json.RawMessage) string {
	var b bytes.Buffer
	if json.Compact(&b, input) != nil {
		return string(input)
	}
	return b.String()
}

func sizedBlocks(turns []turn) []*sizedBlock {
	var blocks []*sizedBlock
	for _, t := range turns {
		for i := range t.blocks {
			blocks = append(blocks, &t.blocks[i])
		}
	}
	return blocks
}

// scale gives blocks a number of tokens together, each in proportion to its estimate. Where that cannot be, ok is false
// and they have none.
func scale(blocks []*sizedBlock, tokens int) (ok bool) {
	all := 0
	for _, b := range blocks {
		all += b.estimate
	}
	if tokens < 0 || all == 0 {
		return tokens == 0
	}
	sum, given := 0, 0
	for _, b := range blocks {
		sum += b.estimate
		b.tokens = tokens*sum/all - given
		given += b.tokens
	}
	return true
}

// countSized is the token counter of a replay.
func countSized(text string) int {
	text = strings.TrimSuffix(strings.TrimPrefix(text, `{"size":"`), `"}`) // the input of a tool call
	if tokens, sized := tokensOf(text); sized {
		return tokens
	}
	if text == claudetest.ClearedText {
		return claudetest.EstimateTokens(text)
	}
	return 0 // names and definitions of tools: they are in the size of the system prompt
}

// play plays the recording under a setting of context editing. The model gives the recorded answers whatever it is
// shown.
func (r *recording) play(ctx context.Context, s Setting) (Counts, error) {
	var mu sync.Mutex
	t := tally{count: countSized}
	searched := 0
	next := 0
	api, err := claudetest.Start(claudetest.ModelFunc(
		func(_ context.Context, req *claudetest.Request) (claudetest.Turn, error) {
			mu.Lock()
			defer mu.Unlock()
			if next == len(r.exchanges) {
				return claudetest.Turn{}, errors.New("the recording is at its end")
			}
			e := r.exchanges[next]
			next++
			if e.restart {
				t.cleared, t.cache = nil, nil
			}
			t.add(req)
			searched += e.searchedAgain(req)
			return e.answer.played(), nil
		}),
		claudetest.WithTokenCounter(countSized), claudetest.WithWarnAt(0), claudetest.WithoutBodies())
	if err != nil {
		return Counts{}, err
	}
	defer api.Close()

	if err := r.converse(ctx, api, s); err != nil {
		return Counts{}, err
	}
	mu.Lock()
	defer mu.Unlock()
	c := t.counts()
	c.NeededAgain, c.SearchedAgain = searched, searched
	return c, nil
}

// searchedAgain counts the calls of the answer whose earlier result is cleared in the request.
func (e exchange) searchedAgain(req *claudetest.Request) int {
	n := 0
	for _, call := range req.Calls() {
		if isCleared(call.Result) && slices.Contains(e.repeats, call.ID) {
			n++
		}
	}
	return n
}

// converse sends what was sent.
func (r *recording) converse(ctx context.Context, api *claudetest.API, s Setting) error {
	var tools []anthropic.BetaToolUnionParam
	for _, name := range r.tools {
		tools = append(tools, anthropic.BetaToolUnionParam{OfTool: &anthropic.BetaToolParam{
			Name: name, InputSchema: anthropic.BetaToolInputSchemaParam{Properties: map[string]any{}},
		}})
	}
	c, err := newConversation(api, s, sizedText(r.head), tools)
	if err != nil {
		return err
	}
	for i, e := range r.exchanges {
		if e.restart {
			c.restart()
		}
		var messages []anthropic.BetaMessageParam
		for _, t := range e.sent {
			messages = append(messages, t.sentAgain())
		}
		if _, err := c.send(ctx, messages...); err != nil {
			return fmt.Errorf("request %d: %w", i+1, err)
		}
	}
	return nil
}

// played is the turn as an answer of the model.
func (t turn) played() claudetest.Turn {
	var answer claudetest.Turn
	for _, b := range t.blocks {
		if b.kind == "tool_use" {
			answer.Content = append(answer.Content,
				claudetest.CallWithID(b.id, b.name, map[string]string{"size": sizedText(b.tokens)}))
		} else {
			answer.Content = append(answer.Content, claudetest.Text(sizedText(b.tokens)))
		}
	}
	if len(answer.Content) == 0 {
		answer.Content = []claudetest.Block{claudetest.Text(sizedText(0))}
	}
	return answer
}

// sentAgain is the turn as a message that the client sends.
func (t turn) sentAgain() anthropic.BetaMessageParam {
	var content []anthropic.BetaContentBlockParamUnion
	for _, b := range t.blocks {
		switch b.kind {
		case "tool_use":
			input := map[string]string{"size": sizedText(b.tokens)}
			content = append(content, anthropic.NewBetaToolUseBlock(b.id, input, b.name))
		case "tool_result":
			content = append(content, resultBlock(b.id, sizedText(b.tokens)))
		default:
			content = append(content, anthropic.NewBetaTextBlock(sizedText(b.tokens)))
		}
	}
	if len(content) == 0 {
		content = append(content, anthropic.NewBetaTextBlock(sizedText(0)))
	}
	if t.role == "assistant" {
		return anthropic.BetaMessageParam{OfAssistant: &anthropic.BetaAssistantMessageParam{Content: content}}
	}
	return anthropic.NewBetaUserMessage(content...)
}
