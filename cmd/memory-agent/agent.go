package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/anthropics/anthropic-sdk-go/v2"

	"github.com/seed-7f2870e1/memoryd/client"
	"github.com/seed-7f2870e1/memoryd/client/agentkit"
	"github.com/seed-7f2870e1/memoryd/client/anthropictool"
	"github.com/seed-7f2870e1/memoryd/cmd/memory-agent/internal/transcript"
)

// maxTokens is the most that the model may write in one turn.
const maxTokens = 8192

// The types of the blocks that the model says something in, and calls a tool with.
const (
	blockText    = "text"
	blockToolUse = "tool_use"
)

// instructions are the system prompt before what agentkit adds to it. How to use the memory tool is not in it: the API
// tells Claude that itself.
const instructions = `You are a research assistant. You answer a question from local documents and from nothing else:
find them with search_documents and list_documents, and read them with read_document.

The features of the checklist are the parts of the question; split one where that helps. For each keep a file in
/memories/notes: what you found, with the name and the line of the document, noted as soon as you have read it. The
end-to-end check is to compare the notes with the documents. When all features are complete, write the answer with its
sources to /memories/report.md, and give it.`

// agent is a research assistant with a memory. It runs one session.
type agent struct {
	api       anthropic.Client
	memory    *client.Client
	namespace string // of the memory
	session   string // its name

	documents *library
	question  string   // empty where the memory has its own
	items     []string // the checklist of a memory that is new: features, as agentkit calls them
	limit     int      // how many of them to work on in this session; 0 is all

	model      anthropic.Model
	maxTurns   int       // 0 is no limit
	clearing   clearing  // of tool results
	transcript io.Writer // nil for none
	out        *printer
	hold       hold
}

// clearing says when old results of tools are cleared from the prompt; see runOptions.
type clearing struct {
	trigger, keep, atLeast int64 // a trigger of 0 is never
}

// run runs the session: what earlier sessions left is read, the model works, and what came of it is recorded. That is
// done however the session ends. Only a kill prevents it, and the next session finds that out.
func (a *agent) run(ctx context.Context) (err error) {
	project := agentkit.New(a.memory, a.namespace)
	created := false
	if a.question != "" { // or else the memory is not new
		plan := agentkit.Plan{Goal: a.question, Features: a.items, StartScript: toolList}
		if created, err = project.Initialize(ctx, plan); err != nil {
			return err
		}
	}
	session, err := project.Resume(ctx, a.session)
	if err != nil {
		return err
	}
	switch {
	case created:
		a.out.printf("        new: a checklist and a progress log were laid down\n")
	case session.Restarted:
		a.out.printf("        this session had begun before and was cut off\n")
	default:
		a.out.printf("        with what earlier sessions left\n")
	}

	var outcome agentkit.Outcome
	defer func() {
		outcome.Err = err // with what can be done about it
		interrupted := err != nil && ctx.Err() != nil
		if interrupted {
			outcome.Err = errors.New("interrupted")
		}
		// Close works after ctx was cancelled, too.
		closeErr := session.Close(ctx, outcome)
		switch {
		case closeErr != nil:
			a.out.printf("the session could not be closed; the next one will find it cut off\n")
			err = errors.Join(err, closeErr)
		case interrupted:
			err = fmt.Errorf("%w (%w)", errInterrupted, err)
		}
	}()
	last, err := a.converse(ctx, session)
	outcome = agentkit.OutcomeOf(last, err)
	if errors.Is(outcome.Err, agentkit.ErrStopped) {
		return stopError(last.StopReason, outcome.Err)
	}
	return outcome.Err
}

// converse lets the model work until it stops, and returns its last message.
func (a *agent) converse(ctx context.Context, session *agentkit.Session) (*anthropic.BetaMessage, error) {
	// NewToolRunner of package anthropictool does the next three steps in one. Here they are taken one by one, since the
	// calls are watched on their way to the tool.
	params, err := a.params(session)
	if err != nil {
		return nil, err
	}
	tool := anthropictool.New(session.Handler())
	runner := a.api.Beta.Messages.NewToolRunner(a.watch(append(documentTools(a.documents), tool)),
		anthropic.BetaToolRunnerParams{BetaMessageNewParams: params, MaxIterations: a.maxTurns})
	tool.Bind(runner)
	defer a.out.flush()

	record := func(*anthropic.BetaMessage) error { return nil }
	if a.transcript != nil {
		w, err := transcript.NewWriter(a.transcript, runner.Params.BetaMessageNewParams)
		if err != nil {
			return nil, err
		}
		record = func(m *anthropic.BetaMessage) error { return w.Call(runner.Messages(), m) }
	}
	for message, err := range runner.All(ctx) {
		if err != nil {
			return nil, err
		}
		a.out.turn(message)
		if err := errors.Join(record(message), a.out.failed()); err != nil {
			return nil, err
		}
	}
	return runner.LastMessage(), nil
}

// params returns the first request. For prompt caching, what is the same in every session comes first, and there are
// two breakpoints: after what is the same in every request of the session, and at the end of the conversation.
func (a *agent) params(session *agentkit.Session) (anthropic.BetaMessageNewParams, error) {
	// What the memory says, and the names of its files, are data: the model wrote them, maybe from a document. They do
	// not go into the message of the user, whose words the model follows. It reads them with its tool.
	task := "Your memory has the question, the checklist and what was done.\n"
	if a.question != "" {
		task += "Where it has no question, this is it.\nQuestion: " + a.question + "\n"
	}
	if a.limit > 0 {
		task += fmt.Sprintf("Work on at most %d open features of the checklist in this session.\n", a.limit)
	}
	if session.Restarted { // with its conversation lost
		task += fmt.Sprintf("This session began before and was cut off. %s changed since.\n",
			count(len(session.Changed), "memory file", "memory files"))
	}
	params := anthropictool.Params(anthropic.BetaMessageNewParams{
		Model:     a.model,
		MaxTokens: maxTokens,
		System: []anthropic.BetaTextBlockParam{
			{Text: strings.Join([]string{
				instructions, agentkit.PromptSessions, agentkit.PromptUpkeep, agentkit.PromptOnTopic("the question"),
			}, "\n\n")},
			{Text: session.Context, CacheControl: anthropic.NewBetaCacheControlEphemeralParam()},
		},
		Messages:     []anthropic.BetaMessageParam{anthropic.NewBetaUserMessage(anthropic.NewBetaTextBlock(task))},
		CacheControl: anthropic.NewBetaCacheControlEphemeralParam(), // moves to the last block of every request
	})
	if a.clearing.trigger == 0 {
		return params, nil
	}
	edit := agentkit.ClearToolUses{
		AtInputTokens: anthropic.Int(a.clearing.trigger), Keep: anthropic.Int(a.clearing.keep),
	}
	if a.clearing.atLeast > 0 { // each clearing costs the cached prompt after it
		edit.ClearAtLeast = anthropic.Int(a.clearing.atLeast)
	}
	return agentkit.ManageContext(params, edit)
}

// stopError adds to the error of a model that stopped before its time what the flags have to do with it.
func stopError(reason anthropic.BetaStopReason, err error) error {
	switch reason {
	case anthropic.BetaStopReasonMaxTokens:
		return fmt.Errorf("%w: its answer was cut off at %d tokens, and the tool calls in it were not made",
			agentkit.ErrStopped, maxTokens)
	case anthropic.BetaStopReasonModelContextWindowExceeded:
		return fmt.Errorf("%w; a lower --trigger keeps it shorter", err)
	case anthropic.BetaStopReasonToolUse, anthropic.BetaStopReasonPauseTurn:
		return fmt.Errorf("%w; --max-turns sets how many", err)
	default:
		return err
	}
}
