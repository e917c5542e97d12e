package anthropictool

import (
	"context"
	"encoding/json"
	"slices"
	"sync"
	"time"

	"github.com/anthropics/anthropic-sdk-go/v2"
	"github.com/anthropics/anthropic-sdk-go/v2/option"

	"github.com/seed-7f2870e1/memoryd/client"
)

var _ anthropic.BetaTool = (*Tool)(nil)

// Tool is the memory tool of one tool runner. NewToolRunner and NewToolRunnerStreaming make it themselves; otherwise it
// has to be given the runner with Bind. It is safe for concurrent use.
type Tool struct {
	handler *client.Handler
	order   order

	mu     sync.Mutex
	runner Runner // nil: unbound
}

// Runner is what a Tool has to know of its runner: *anthropic.BetaToolRunner, *anthropic.BetaToolRunnerStreaming, or
// what wraps one of them and passes on its LastMessage, the very pointer.
type Runner interface {
	LastMessage() *anthropic.BetaMessage
}

// DefaultArrivalTimeout is the arrival timeout of a tool that is given none; see WithArrivalTimeout.
const DefaultArrivalTimeout = 10 * time.Second

// Option is an option of New.
type Option func(*Tool)

// WithArrivalTimeout sets how long a call of a tool that is bound waits for the calls before it in the same turn to
// come, which is DefaultArrivalTimeout otherwise; 0 or less is for as long as its context lasts. The runner brings them
// all at once, so only what stands between it and the tool can keep one back; see Bind. A call that has come is waited
// for until it is answered.
func WithArrivalTimeout(d time.Duration) Option {
	return func(t *Tool) { t.order.arrivalTimeout = d }
}

// New returns a tool that executes its calls with handler. Every runner needs one of its own. They cost nothing, and
// can share a handler.
func New(handler *client.Handler, opts ...Option) *Tool {
	t := &Tool{handler: handler, order: order{arrivalTimeout: DefaultArrivalTimeout}}
	for _, opt := range opts {
		opt(t)
	}
	return t
}

// NewToolRunner returns a tool runner whose model has the memory of handler, besides other tools. The definition of
// the memory tool is added to params, as Params does it. The tool itself stays inside; who wants its Results after a
// failure makes it with New.
func NewToolRunner(
	messages *anthropic.BetaMessageService, handler *client.Handler, tools []anthropic.BetaTool,
	params anthropic.BetaToolRunnerParams, opts ...option.RequestOption,
) *anthropic.BetaToolRunner {
	return newRunner(messages.NewToolRunner, handler, tools, params, opts)
}

// NewToolRunnerStreaming is NewToolRunner for a runner that streams.
func NewToolRunnerStreaming(
	messages *anthropic.BetaMessageService, handler *client.Handler, tools []anthropic.BetaTool,
	params anthropic.BetaToolRunnerParams, opts ...option.RequestOption,
) *anthropic.BetaToolRunnerStreaming {
	return newRunner(messages.NewToolRunnerStreaming, handler, tools, params, opts)
}

func newRunner[R Runner](
	makeRunner func([]anthropic.BetaTool, anthropic.BetaToolRunnerParams, ...option.RequestOption) R,
	handler *client.Handler, tools []anthropic.BetaTool, params anthropic.BetaToolRunnerParams,
	opts []option.RequestOption,
) R {
	tool := New(handler)
	params.BetaMessageNewParams = Params(params.BetaMessageNewParams)
	runner := makeRunner(append(slices.Clip(tools), tool), params, opts...)
	tool.Bind(runner)
	return runner
}

// Bind ties the tool to the runner that runs it, before it runs; nil unties it. A runner runs the calls of a turn all
// at once and tells a tool nothing but the input, so the tool looks up its calls in the message that the runner has
// got last. It can then promise more:
//
//   - The memory calls of a turn are executed one after the other, in the order of their blocks.
//   - A call is known by its id. A turn that is run again, after its context was cancelled, changes nothing twice: the
//     calls that were answered, with success or not, have the same answer again, and the others are executed, in their
//     order. So have Results.
//   - The input is what the model sent, byte for byte, and not what the runner has made of it.
//
// Calls of one turn with equal inputs cannot be told apart. Each is executed, at its place in the order, but the runner
// may give the result of one to the other.
//
// What stands between the runner and the tool must let the calls of a turn run side by side and pass on the input as it
// is. One that was changed is executed as if the tool was unbound. A call that has not come is waited for by those
// after it, until the arrival timeout is over. Then they are executed without it, and so, should it still come, it is
// executed after them: the order is lost. One that never comes, as it was refused or changed on the way, costs them
// that time.
//
// So what asks a person about every call needs WithArrivalTimeout, with more than the longest time that it lets the
// person take; for the calls after it, a refusal then takes as long. Where that is too long, ask about a turn before
// its calls are run, that is between two steps of the runner, so that the answers are at hand when the calls come. A
// second is enough for an arrival timeout then.
//
// A tool that is bound to one runner must not be given to another. It would take a call of the other for one of its
// runner's where the inputs are equal, and give it the answer of that; it would execute any other as if it was unbound.
func (t *Tool) Bind(runner Runner) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.runner = runner
}

// Execute executes a call for a runner. An error is the result of a command that failed, or the text about a service
// that did; it is always one for the model to read.
//
// Without Bind the calls of a turn are executed in any order, and those of a turn that is run again are executed again:
// a change that was made is then made twice or fails, say because the file is there already.
func (t *Tool) Execute(
	ctx context.Context, input json.RawMessage,
) ([]anthropic.BetaToolResultBlockParamContentUnion, error) {
	if message := t.lastMessage(); message != nil {
		if result, ok := t.order.run(ctx, message, input, t.handler.HandleCall); ok {
			return runnerResult(result)
		}
	}
	return runnerResult(t.handler.Handle(ctx, input))
}

// Results returns the results of the memory calls in the last message of the runner that the tool is bound to, in the
// order of their blocks, for the user message that a new runner begins with in the place of one that failed; the
// package comment says how. The calls that were answered have the same answers again, those that failed too. The others
// are executed, one after the other. The results read as those of a runner do. It is to be called when the runner has
// returned; a call that is still being executed is waited for, and not executed a second time.
//
// What stands between the runner and the tool is passed by: a call that it refused or changed is executed as the model
// sent it. Where ctx is done before the end, the last results are of no use; see HandleMessage. They are not kept, and
// Results can be called again.
//
// There are no results if the tool is unbound, there is no message, or it did not stop for tool_use.
func (t *Tool) Results(ctx context.Context) []anthropic.BetaContentBlockParamUnion {
	message := t.lastMessage()
	if message == nil || message.StopReason != anthropic.BetaStopReasonToolUse {
		return nil
	}
	var results []anthropic.BetaContentBlockParamUnion
	calls := t.order.take(message)
	for at, c := range calls {
		result := runnerToolResult(c.id, t.order.answer(ctx, calls, at, t.handler.HandleCall))
		results = append(results, anthropic.BetaContentBlockParamUnion{OfToolResult: &result})
	}
	return results
}

// lastMessage returns the message whose calls are run, or nil. The runner may be one of the user's, and a panic in a
// tool would end the program.
func (t *Tool) lastMessage() (message *anthropic.BetaMessage) {
	defer func() {
		if recover() != nil {
			message = nil
		}
	}()
	t.mu.Lock()
	runner := t.runner
	t.mu.Unlock()
	if runner == nil {
		return nil
	}
	return runner.LastMessage()
}

// Name returns "memory".
func (t *Tool) Name() string { return toolName }

// Description returns what the model is told where the runner sends no definition of the memory tool; see InputSchema.
func (t *Tool) Description() string { return description }

// InputSchema returns the schema of the six commands. A runner sends it, with Description, as a custom tool where its
// parameters have no definition of the memory tool, and always for a tool that is given to its AddTools. That works,
// but the API does not tell the model how to use its memory then, as it does with the built-in tool. So give the tool
// to the runner when that is made.
func (t *Tool) InputSchema() anthropic.BetaToolInputSchemaParam { return inputSchema() }
