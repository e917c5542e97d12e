package anthropictool_test

import (
	"bytes"
	"context"
	"encoding/json"
	"testing"

	"github.com/anthropics/anthropic-sdk-go/v2"

	"github.com/seed-7f2870e1/memoryd/client"
	"github.com/seed-7f2870e1/memoryd/client/anthropictool"
	"github.com/seed-7f2870e1/memoryd/client/claudetest"
	memoryv1 "github.com/seed-7f2870e1/memoryd/gen/memoryd/v1"
)

// namespace is that of the memory in these tests.
const namespace = "acme/agent"

// agent is a runner of any kind.
type agent interface {
	LastMessage() *anthropic.BetaMessage
	Messages() []anthropic.BetaMessageParam
}

// agents are the kinds of runners that a tool can have.
var agents = []struct {
	name  string
	start func(claude *anthropic.BetaMessageService, memory *client.Handler) agent
}{
	{"on a thread", func(claude *anthropic.BetaMessageService, memory *client.Handler) agent {
		return anthropictool.NewToolRunner(claude, memory, nil, runnerParams(false))
	}},
	{"without a thread", func(claude *anthropic.BetaMessageService, memory *client.Handler) agent {
		return anthropictool.NewToolRunner(claude, memory, nil, runnerParams(true))
	}},
	{"over a thread", func(claude *anthropic.BetaMessageService, memory *client.Handler) agent {
		tool := anthropictool.New(memory)
		runner := claude.NewThread(threadParams()).NewToolRunner([]anthropic.BetaTool{tool})
		tool.Bind(runner)
		return runner
	}},
	{"streaming on a thread", func(claude *anthropic.BetaMessageService, memory *client.Handler) agent {
		return anthropictool.NewToolRunnerStreaming(claude, memory, nil, runnerParams(false))
	}},
	{"streaming without a thread", func(claude *anthropic.BetaMessageService, memory *client.Handler) agent {
		return anthropictool.NewToolRunnerStreaming(claude, memory, nil, runnerParams(true))
	}},
	{"streaming over a thread", func(claude *anthropic.BetaMessageService, memory *client.Handler) agent {
		tool := anthropictool.New(memory)
		runner := claude.NewThread(threadParams()).NewToolRunnerStreaming([]anthropic.BetaTool{tool})
		tool.Bind(runner)
		return runner
	}},
}

// forEachAgent runs a test on a runner of every kind.
func forEachAgent(t *testing.T, test func(t *testing.T, start func(api *claudetest.API, memory *client.Handler) agent)) {
	t.Helper()
	for _, kind := range agents {
		t.Run(kind.name, func(t *testing.T) {
			test(t, func(api *claudetest.API, memory *client.Handler) agent {
				claude := api.Client()
				return kind.start(&claude.Beta.Messages, memory)
			})
		})
	}
}

// forEachTool is forEachAgent for tests that have the tool of the runner in hand.
func forEachTool(t *testing.T, test func(t *testing.T, start func(api *claudetest.API, tool *anthropictool.Tool) agent)) {
	t.Helper()
	type start = func(claude *anthropic.BetaMessageService, tools []anthropic.BetaTool) agent
	for name, start := range map[string]start{
		"on a thread": func(claude *anthropic.BetaMessageService, tools []anthropic.BetaTool) agent {
			return claude.NewToolRunner(tools, boundParams(false))
		},
		"without a thread": func(claude *anthropic.BetaMessageService, tools []anthropic.BetaTool) agent {
			return claude.NewToolRunner(tools, boundParams(true))
		},
		"over a thread": func(claude *anthropic.BetaMessageService, tools []anthropic.BetaTool) agent {
			return claude.NewThread(threadParams()).NewToolRunner(tools)
		},
		"streaming on a thread": func(claude *anthropic.BetaMessageService, tools []anthropic.BetaTool) agent {
			return claude.NewToolRunnerStreaming(tools, boundParams(false))
		},
		"streaming without a thread": func(claude *anthropic.BetaMessageService, tools []anthropic.BetaTool) agent {
			return claude.NewToolRunnerStreaming(tools, boundParams(true))
		},
		"streaming over a thread": func(claude *anthropic.BetaMessageService, tools []anthropic.BetaTool) agent {
			return claude.NewThread(threadParams()).NewToolRunnerStreaming(tools)
		},
	} {
		t.Run(name, func(t *testing.T) {
			test(t, func(api *claudetest.API, tool *anthropictool.Tool) agent {
				claude := api.Client()
				a := start(&claude.Beta.Messages, []anthropic.BetaTool{tool})
				tool.Bind(a)
				return a
			})
		})
	}
}

// boundParams is runnerParams with the definition of the tool.
func boundParams(disableThread bool) anthropic.BetaToolRunnerParams {
	return anthropic.BetaToolRunnerParams{
		BetaMessageNewParams: anthropictool.Params(params()), DisableThread: disableThread,
	}
}

// run runs an agent to its end.
func run(ctx context.Context, a agent) error {
	switch a := a.(type) {
	case *anthropic.BetaToolRunner:
		_, err := a.RunToCompletion(ctx)
		return err
	case *anthropic.BetaToolRunnerStreaming:
		for events := range a.AllStreaming(ctx) {
			for _, err := range events {
				if err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func mustRun(t *testing.T, a agent) {
	t.Helper()
	if err := run(t.Context(), a); err != nil {
		t.Fatal(err)
	}
}

func runnerParams(disableThread bool) anthropic.BetaToolRunnerParams {
	return anthropic.BetaToolRunnerParams{BetaMessageNewParams: params(), DisableThread: disableThread}
}

func params() anthropic.BetaMessageNewParams {
	return anthropic.BetaMessageNewParams{
		Model: anthropic.ModelClaudeSonnet5_5, MaxTokens: 1024,
		Messages: []anthropic.BetaMessageParam{anthropic.NewBetaUserMessage(anthropic.NewBetaTextBlock("Go on."))},
	}
}

func threadParams() anthropic.BetaMessageThreadCreateParams {
	return anthropictool.ThreadParams(anthropic.BetaMessageThreadCreateParams{
		Model: anthropic.ModelClaudeSonnet5_5, MaxTokens: 1024, Messages: params().Messages,
	})
}

// script is a model that plays turns and notes the results that it gets for each.
type script struct {
	*claudetest.Scripted
	results [][]claudetest.ToolResult // of every request but the first
}

func newScript(turns ...claudetest.Turn) *script {
	return &script{Scripted: claudetest.Script(turns...)}
}

func (s *script) Respond(ctx context.Context, req *claudetest.Request) (claudetest.Turn, error) {
	if results := req.ToolResults(); len(results) > 0 {
		s.results = append(s.results, results)
	}
	return s.Scripted.Respond(ctx, req)
}

// texts returns the texts of the n-th results that the model got.
func (s *script) texts(t *testing.T, n int) []string {
	t.Helper()
	if n >= len(s.results) {
		t.Fatalf("the model got results %d times, want more than %d", len(s.results), n)
	}
	var texts []string
	for _, result := range s.results[n] {
		texts = append(texts, result.Text)
	}
	return texts
}

// input is the input of a command; JSON sorts its keys.
type input map[string]any

func create(path, text string) input {
	return input{"command": "create", "path": path, "file_text": text}
}

func insert(path string, line int, text string) input {
	return input{"command": "insert", "path": path, "insert_line": line, "insert_text": text}
}

func replace(path, from, to string) input {
	return input{"command": "str_replace", "path": path, "old_str": from, "new_str": to}
}

func view(path string) input { return input{"command": "view", "path": path} }

func call(in input) claudetest.Block { return claudetest.Call("memory", in) }

// use is a turn that calls the memory tool with these inputs.
func use(inputs ...input) claudetest.Turn {
	var calls []claudetest.Block
	for _, in := range inputs {
		calls = append(calls, call(in))
	}
	return claudetest.Use(calls...)
}

// read returns what a file of the memory holds; "" if it is not there.
func read(t *testing.T, c *client.Client, path string) string {
	t.Helper()
	var data bytes.Buffer
	header, err := c.Get(t.Context(), &memoryv1.GetRequest{Namespace: namespace, Path: path}, &data)
	if err != nil {
		t.Fatal(err)
	}
	if header.GetResult().GetIsError() {
		return ""
	}
	return data.String()
}

// write stores a file before the test.
func write(t *testing.T, c *client.Client, path, text string) {
	t.Helper()
	resp, err := c.Create(t.Context(), &memoryv1.CreateRequest{Namespace: namespace, Path: path, FileText: text})
	if err != nil || resp.GetResult().GetIsError() {
		t.Fatalf("create %s: %v, %v", path, resp, err)
	}
}

func checkFile(t *testing.T, c *client.Client, path, want string) {
	t.Helper()
	if got := read(t, c, path); got != want {
		t.Errorf("%s holds %.1000q, want %.1000q", path, got, want)
	}
}

// member returns a member of the body of a request, as it was sent.
func member(t *testing.T, request claudetest.Recorded, name string) string {
	t.Helper()
	var body map[string]json.RawMessage
	if err := json.Unmarshal(request.Body, &body); err != nil {
		t.Fatal(err)
	}
	return string(body[name])
}
