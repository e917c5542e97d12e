package anthropictool

import (
	"context"
	"encoding/json"
	"slices"
	"sync"

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

// New returns a tool that executes its calls with handler. Every runner needs one of its own. They cost nothing, and
// can share a handler.
func New(handler *client.Handler) *Tool {
	return &Tool{handler: handler}
}

// NewToolRunner returns a tool runner whose model has the memory of handler, besides other tools. The definition of
// the memory tool is added to params, as Params does it.
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
//     calls that were answered have the same answer again, and the others are executed, in their order.
//   - The input is what the model sent, byte for byte, and not what the runner has made of it.
//
// Calls of one turn with equal inputs cannot be told apart. Each is executed, at its place in the order, but the runner
// may give the result of one to the other.
//
// What stands between the runner and the tool, say a tool that asks a person first, must let the calls of a turn run
// side by side and pass on the input as it is. A call that does not come, as it was answered or changed on the way, is
// waited for by those after it, for ArrivalTimeout. One that was changed is executed as if the tool was unbound.
//
// A tool that is bound to one runner must not be given to another, whose calls would be executed as if it was unbound.
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
