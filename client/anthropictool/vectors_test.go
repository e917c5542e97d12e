package anthropictool_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/anthropics/anthropic-sdk-go/v2"
	"github.com/google/go-cmp/cmp"

	"github.com/seed-7f2870e1/memoryd/client"
	"github.com/seed-7f2870e1/memoryd/client/anthropictool"
	"github.com/seed-7f2870e1/memoryd/client/claudetest"
	memoryv1 "github.com/seed-7f2870e1/memoryd/gen/memoryd/v1"
	"github.com/seed-7f2870e1/memoryd/server/memory/memtest"
	"github.com/seed-7f2870e1/memoryd/server/servertest"
)

// executor executes commands of the vectors in a namespace of its own.
type executor struct {
	client    *client.Client
	namespace string
	calls     int
	handle    func(ctx context.Context, memory *client.Handler, block []byte) (any, error) // returns a tool_result block
}

// newExecutor returns an executor whose namespace, which ends with suffix, has the settings of a scenario.
func newExecutor(t *testing.T, c *client.Client, config memtest.Config, suffix string) executor {
	t.Helper()
	scenario := t.Name()[strings.LastIndexByte(t.Name(), '/')+1:]
	e := executor{client: c, namespace: "vectors/" + scenario + suffix}
	settings := &memoryv1.NamespaceSettings{ViewMaxChars: config.ViewMaxChars, MaxFileBytes: config.MaxFileBytes}
	if mode := config.CreateOnExisting; mode != nil {
		value := memoryv1.CreateOnExisting_value["CREATE_ON_EXISTING_"+strings.ToUpper(*mode)]
		settings.CreateOnExisting = memoryv1.CreateOnExisting(value).Enum()
	}
	if config == (memtest.Config{}) {
		return e
	}
	update := &memoryv1.UpdateNamespaceRequest{Namespace: e.namespace, Settings: settings}
	if _, err := c.UpdateNamespace(t.Context(), update); err != nil {
		t.Fatal(err)
	}
	return e
}

func (e *executor) Execute(ctx context.Context, input json.RawMessage) (memtest.Result, error) {
	e.calls++
	id := fmt.Sprintf("toolu_%d", e.calls)
	block := fmt.Appendf(nil, `{"type":"tool_use","id":%q,"name":"memory","input":%s}`, id, input)
	result, err := e.handle(ctx, e.client.Handler(e.namespace, client.WithSession(e.namespace)), block)
	if err != nil {
		return memtest.Result{}, err
	}
	wire, err := json.Marshal(result)
	if err != nil {
		return memtest.Result{}, err
	}
	return memtest.ParseToolResult(wire, id)
}

func (e *executor) Put(ctx context.Context, path string, data []byte) error {
	_, err := e.client.Put(ctx, &memoryv1.PutHeader{Namespace: e.namespace, Path: path}, bytes.NewReader(data))
	return err
}

func handleToolUse(ctx context.Context, memory *client.Handler, data []byte) (any, error) {
	var block anthropic.ToolUseBlock
	err := json.Unmarshal(data, &block)
	return anthropictool.HandleToolUse(ctx, memory, block), err
}

func handleBetaToolUse(ctx context.Context, memory *client.Handler, data []byte) (any, error) {
	var block anthropic.BetaToolUseBlock
	err := json.Unmarshal(data, &block)
	return anthropictool.HandleBetaToolUse(ctx, memory, block), err
}

// Hand-written loops get every text byte for byte.
func TestVectors_Loops(t *testing.T) {
	for name, handle := range map[string]func(context.Context, *client.Handler, []byte) (any, error){
		"HandleToolUse": handleToolUse, "HandleBetaToolUse": handleBetaToolUse,
	} {
		t.Run(name, func(t *testing.T) {
			c := servertest.New(t).Client
			memtest.Run(t, func(t *testing.T, config memtest.Config) memtest.Executor {
				e := newExecutor(t, c, config, "")
				e.handle = handle
				return &e
			})
		})
	}
}

// runnerExecutor lets a model call the tool of a runner, and returns what the model is given for a result. The texts
// that a runner changes are given back as they were, once it is sure that it did that and nothing else.
type runnerExecutor struct {
	executor
	claude  anthropic.Client
	model   *oneCall
	twin    executor // the same without a runner
	changed map[memoryv1.Reason]bool
	start   func(claude *anthropic.BetaMessageService, memory *client.Handler) agent
}

// longestAnswer is more bytes than a model says in one answer.
const longestAnswer = 512 << 10

// oneCall is a model that makes one call of the memory tool in every conversation.
type oneCall struct {
	input  json.RawMessage
	result claudetest.Block
}

func (m *oneCall) Respond(_ context.Context, req *claudetest.Request) (claudetest.Turn, error) {
	for _, block := range req.Messages[len(req.Messages)-1].Content {
		if block.Type == "tool_result" {
			m.result = block
			return claudetest.Say("Done."), nil
		}
	}
	return claudetest.Use(claudetest.Call("memory", m.input)), nil
}

func (e *runnerExecutor) Execute(ctx context.Context, input json.RawMessage) (memtest.Result, error) {
	if len(input) > longestAnswer { // it lays the ground for the steps that follow
		if _, err := e.twin.Execute(ctx, input); err != nil {
			return memtest.Result{}, err
		}
		return e.executor.Execute(ctx, input)
	}
	twin := e.client.Handler(e.twin.namespace).Handle(ctx, input)
	e.model.input = input
	if err := run(ctx, e.start(&e.claude.Beta.Messages, e.client.Handler(e.namespace))); err != nil {
		return memtest.Result{}, err
	}
	got := memtest.Result{IsError: e.model.result.IsError}
	for _, block := range e.model.result.Content {
		got.Text += block.Text
		if block.Type == "image" {
			var image struct {
				Source struct {
					MediaType string `json:"media_type"`
					Data      []byte `json:"data"`
				}
			}
			if err := json.Unmarshal(block.Raw, &image); err != nil {
				return memtest.Result{}, err
			}
			got.Images = append(got.Images, memtest.Image{MediaType: image.Source.MediaType, Data: image.Source.Data})
		}
	}
	if twin.IsError && !strings.HasPrefix(twin.Text(), "Error: ") {
		e.changed[twin.Reason] = true
		text, ok := strings.CutPrefix(got.Text, "Error: ")
		if !ok || text != twin.Text() {
			return memtest.Result{}, fmt.Errorf("the model got %q, want \"Error: \" and %q", got.Text, twin.Text())
		}
		got.Text = text
	}
	return got, nil
}

func (e *runnerExecutor) Put(ctx context.Context, path string, data []byte) error {
	if err := e.twin.Put(ctx, path, data); err != nil {
		return err
	}
	return e.executor.Put(ctx, path, data)
}

// Runners give the model every text byte for byte, but for the four to which they add "Error: ".
func TestVectors_Runners(t *testing.T) {
	for _, kind := range agents {
		if !slices.Contains([]string{"on a thread", "streaming on a thread"}, kind.name) {
			continue // what differs between the others is how the conversation is sent
		}
		t.Run(kind.name, func(t *testing.T) {
			c := servertest.New(t).Client
			model := new(oneCall)
			claude := claudetest.New(t, model).Client()
			changed := make(map[memoryv1.Reason]bool)
			memtest.Run(t, func(t *testing.T, config memtest.Config) memtest.Executor {
				e, twin := newExecutor(t, c, config, ""), newExecutor(t, c, config, "-twin")
				e.handle, twin.handle = handleToolUse, handleToolUse
				return &runnerExecutor{
					executor: e, twin: twin, claude: claude, model: model, changed: changed, start: kind.start,
				}
			})
			want := map[memoryv1.Reason]bool{
				memoryv1.Reason_REASON_VIEW_PATH_NOT_FOUND:          true,
				memoryv1.Reason_REASON_VIEW_TOO_MANY_LINES:          true,
				memoryv1.Reason_REASON_STR_REPLACE_NO_MATCH:         true,
				memoryv1.Reason_REASON_STR_REPLACE_MULTIPLE_MATCHES: true,
			}
			if diff := cmp.Diff(want, changed); diff != "" {
				t.Errorf("texts that runners change (-want +got):\n%s", diff)
			}
		})
	}
}
