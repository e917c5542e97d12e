package anthropictool_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/anthropics/anthropic-sdk-go/v2"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"

	"github.com/seed-7f2870e1/memoryd/client"
	"github.com/seed-7f2870e1/memoryd/client/anthropictool"
	"github.com/seed-7f2870e1/memoryd/client/claudetest"
	memoryv1 "github.com/seed-7f2870e1/memoryd/gen/memoryd/v1"
	"github.com/seed-7f2870e1/memoryd/server/servertest"
)

// The texts of the service itself.
const (
	textUnreachable = "Error: The memory service cannot be reached right now. Nothing was changed. Try again later."
	textProblem     = "Error: The memory service has a problem. Nothing was changed. Try again later."
	textReused      = "Error: This tool call id was already used for a different command"
)

// The calls of a turn are made in the order of their blocks, and answered in it.
func TestRunner_OrderWithinATurn(t *testing.T) {
	const f = "/memories/f"
	for _, tt := range []struct {
		name  string
		calls []input
		want  string
	}{
		{"create, then edit", []input{create(f, "one\n"), replace(f, "one", "two")}, "two\n"},
		{"two edits", []input{create(f, ""), insert(f, 0, "first"), insert(f, 0, "second")}, "second\nfirst\n"},
		{"two edits, the other way", []input{create(f, ""), insert(f, 0, "second"), insert(f, 0, "first")}, "first\nsecond\n"},
		{"rename, then edit", []input{create("/memories/g", "x"), {"command": "rename", "old_path": "/memories/g", "new_path": f}, replace(f, "x", "y")}, "y"},
		{"delete, then create", []input{create(f, "old"), {"command": "delete", "path": f}, create(f, "new")}, "new"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			forEachAgent(t, func(t *testing.T, start func(*claudetest.API, *client.Handler) agent) {
				for range 10 { // for a lost order to show
					c := servertest.New(t).Client
					model := newScript(use(tt.calls...), claudetest.Say("Done."))
					mustRun(t, start(claudetest.New(t, model), c.Handler(namespace)))
					checkFile(t, c, f, tt.want)
					for i, result := range model.results[0] {
						if result.IsError {
							t.Errorf("call %d: %s", i+1, result.Text)
						}
					}
				}
			})
		})
	}
}

// reversed brings the calls of a turn to the memory tool last one first, as far as it can.
type reversed struct {
	*anthropictool.Tool
	gates map[string][2]chan struct{} // by input: what it waits for, and what it closes when it comes
}

func (r reversed) Execute(
	ctx context.Context, input json.RawMessage,
) ([]anthropic.BetaToolResultBlockParamContentUnion, error) {
	gate := r.gates[string(input)]
	if gate[0] != nil {
		<-gate[0]
	}
	close(gate[1])
	return r.Tool.Execute(ctx, input)
}

func TestRunner_OrderWhateverTheArrival(t *testing.T) {
	const f = "/memories/f"
	for range 20 {
		c := servertest.New(t).Client
		write(t, c, f, "")
		var calls []input
		var want string
		gates := make(map[string][2]chan struct{})
		var next chan struct{}
		for i := range 8 {
			in := insert(f, 0, fmt.Sprintf("line %d", i))
			calls = append(calls, in)
			want = fmt.Sprintf("line %d\n", i) + want
		}
		for i := range calls { // the last one waits for nothing
			in := calls[len(calls)-1-i]
			data, err := json.Marshal(in)
			if err != nil {
				t.Fatal(err)
			}
			came := make(chan struct{})
			gates[string(data)] = [2]chan struct{}{next, came}
			next = came
		}
		api := claudetest.New(t, claudetest.Script(use(calls...), claudetest.Say("Done.")))
		tool := anthropictool.New(c.Handler(namespace))
		mustRun(t, startWrapped(api, reversed{tool, gates}, tool))
		checkFile(t, c, f, want)
	}
}

// Calls with equal inputs are all made.
func TestRunner_EqualInputs(t *testing.T) {
	forEachAgent(t, func(t *testing.T, start func(*claudetest.API, *client.Handler) agent) {
		c := servertest.New(t).Client
		write(t, c, "/memories/f", "")
		same := insert("/memories/f", 0, "again")
		model := newScript(use(same, same, same), claudetest.Say("Done."))
		mustRun(t, start(claudetest.New(t, model), c.Handler(namespace)))
		checkFile(t, c, "/memories/f", "again\nagain\nagain\n")
	})
}

// What the model calls before another model takes over is not run, even if the other one calls the same.
func TestRunner_Fallback(t *testing.T) {
	const fallback = `{"type":"fallback","from":{"model":"a"},"to":{"model":"b"}}`
	forEachAgent(t, func(t *testing.T, start func(*claudetest.API, *client.Handler) agent) {
		c := servertest.New(t).Client
		write(t, c, "/memories/f", "")
		same := insert("/memories/f", 0, "once")
		turn := claudetest.Use(call(same), call(insert("/memories/f", 0, "never"))).With(claudetest.Raw(fallback), call(same))
		model := newScript(turn, claudetest.Say("Done."))
		mustRun(t, start(claudetest.New(t, model), c.Handler(namespace)))
		checkFile(t, c, "/memories/f", "once\n")
		if len(model.results[0]) != 1 {
			t.Errorf("the model got %d results, want 1", len(model.results[0]))
		}
	})
}

// Calls of a turn that did not stop for tool_use are not run.
func TestRunner_StopReasons(t *testing.T) {
	for _, stop := range []string{
		claudetest.StopRefusal, claudetest.StopMaxTokens, claudetest.StopEndTurn, "model_context_window_exceeded", "unheard_of",
	} {
		t.Run(stop, func(t *testing.T) {
			forEachAgent(t, func(t *testing.T, start func(*claudetest.API, *client.Handler) agent) {
				c := servertest.New(t).Client
				api := claudetest.New(t, claudetest.Script(use(create("/memories/f", "x")).Stop(stop)))
				mustRun(t, start(api, c.Handler(namespace)))
				checkFile(t, c, "/memories/f", "")
			})
		})
	}
	t.Run(claudetest.StopPauseTurn, func(t *testing.T) { // is sent back as it is
		forEachAgent(t, func(t *testing.T, start func(*claudetest.API, *client.Handler) agent) {
			c := servertest.New(t).Client
			api := claudetest.New(t, claudetest.Script(
				claudetest.Say("Searching.").Stop(claudetest.StopPauseTurn), use(create("/memories/f", "x")), claudetest.Say("Done."),
			))
			mustRun(t, start(api, c.Handler(namespace)))
			checkFile(t, c, "/memories/f", "x")
		})
	})
}

// A text of 60 kB arrives whole, streamed in pieces or not.
func TestRunner_LargeInputs(t *testing.T) {
	var large strings.Builder
	for i := 0; large.Len() < 60_000; i++ {
		fmt.Fprintf(&large, "%d\tä€😀 \"\\ <&> \u2028 \\u0041\r\n", i)
	}
	forEachAgent(t, func(t *testing.T, start func(*claudetest.API, *client.Handler) agent) {
		c := servertest.New(t).Client
		text := large.String()
		model := newScript(
			use(create("/memories/f", text), insert("/memories/f", 0, text), create("/memories/g", text)),
			use(replace("/memories/g", text, "short")),
			claudetest.Say("Done."),
		)
		mustRun(t, start(claudetest.New(t, model), c.Handler(namespace)))
		checkFile(t, c, "/memories/f", text+text)
		checkFile(t, c, "/memories/g", "short")
	})
}

// An agent that never looks at its memory can use it all the same, guarded or not.
func TestRunner_NeverViews(t *testing.T) {
	forEachAgent(t, func(t *testing.T, start func(*claudetest.API, *client.Handler) agent) {
		for _, opts := range [][]client.HandlerOption{nil, {client.GuardStaleEdits()}} {
			c := servertest.New(t).Client
			write(t, c, "/memories/old", "a\nb\n")
			model := newScript(
				use(replace("/memories/old", "a", "A"), insert("/memories/old", 2, "c"), create("/memories/old", "?")),
				use(create("/memories/dir/new", "x"), input{"command": "delete", "path": "/memories/old"}),
				claudetest.Say("Done."),
			)
			mustRun(t, start(claudetest.New(t, model), c.Handler(namespace, opts...)))
			want := [][]string{
				{
					"The memory file has been edited. Here is the snippet showing the change (with line numbers):\n" +
						"     1\tA\n     2\tb\n     3\t",
					"The file /memories/old has been edited.",
					"Error: File /memories/old already exists",
				},
				{"File created successfully at: /memories/dir/new", "Successfully deleted /memories/old"},
			}
			for i := range want {
				if diff := cmp.Diff(want[i], model.texts(t, i)); diff != "" {
					t.Errorf("results %d (-want +got):\n%s", i+1, diff)
				}
			}
		}
	})
}

// A note beside a result is a block of its own.
func TestRunner_Note(t *testing.T) {
	forEachAgent(t, func(t *testing.T, start func(*claudetest.API, *client.Handler) agent) {
		c := servertest.New(t).Client
		write(t, c, "/memories/f", "a\nb\n")
		turn := 0
		model := newScript(use(view("/memories/f")), use(replace("/memories/f", "a", "A")), claudetest.Say("Done."))
		api := claudetest.New(t, claudetest.ModelFunc(func(ctx context.Context, req *claudetest.Request) (claudetest.Turn, error) {
			if turn++; turn == 2 {
				_, err := c.StrReplace(ctx, &memoryv1.StrReplaceRequest{
					Namespace: namespace, Path: "/memories/f", OldStr: "b", NewStr: "B",
				})
				if err != nil {
					return claudetest.Turn{}, err
				}
			}
			return model.Respond(ctx, req)
		}))
		mustRun(t, start(api, c.Handler(namespace, client.GuardStaleEdits())))
		want := "The memory file has been edited. Here is the snippet showing the change (with line numbers):\n" +
			"     1\tA\n     2\tB\n     3\t\n" +
			"Note: /memories/f was changed by someone else since you viewed it; your change was made to the newer text"
		if diff := cmp.Diff([]string{want}, model.texts(t, 1)); diff != "" {
			t.Errorf("results (-want +got):\n%s", diff)
		}
	})
}

// A turn whose context had ended before the tools ran is run again by the same runner.
func TestRunner_CancelledBeforeTheTools(t *testing.T) {
	forEachAgent(t, func(t *testing.T, start func(*claudetest.API, *client.Handler) agent) {
		c := servertest.New(t).Client
		model := newScript(use(create("/memories/f", ""), insert("/memories/f", 0, "once")), claudetest.Say("Done."))
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		a := start(claudetest.New(t, model), c.Handler(namespace))
		step(ctx, a)
		cancel()
		if err := run(ctx, a); !errors.Is(err, context.Canceled) {
			t.Fatalf("got %v, want the error of the context", err)
		}
		checkFile(t, c, "/memories/f", "")
		mustRun(t, a)
		checkFile(t, c, "/memories/f", "once\n")
		want := []string{"File created successfully at: /memories/f", "The file /memories/f has been edited."}
		if diff := cmp.Diff(want, model.texts(t, 0)); diff != "" {
			t.Errorf("results (-want +got):\n%s", diff)
		}
	})
}

// step lets an agent make one request.
func step(ctx context.Context, a agent) {
	switch a := a.(type) {
	case *anthropic.BetaToolRunner:
		_, _ = a.NextMessage(ctx)
	case *anthropic.BetaToolRunnerStreaming:
		for range a.NextStreaming(ctx) {
			continue // the message is what counts
		}
	}
}

// A turn that is cancelled while its tools run has been made in part. The package comment says how to carry on.
func TestRunner_CancelledInTheMiddle(t *testing.T) {
	forEachTool(t, func(t *testing.T, start func(*claudetest.API, *anthropictool.Tool) agent) {
		s := startService(t)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		s.store.onChange(2, func() { // the second change is made, and its answer does not arrive
			cancel()
			<-ctx.Done()
		})
		c := s.client(t)
		memory := c.Handler(namespace)
		tool := anthropictool.New(memory)
		model := newScript(
			use(create("/memories/f", ""), insert("/memories/f", 0, "a"), insert("/memories/f", 0, "b")), claudetest.Say("Done."),
		)
		api := claudetest.New(t, model)
		old := start(api, tool)
		if err := run(ctx, old); !errors.Is(err, context.Canceled) {
			t.Fatalf("got %v, want the error of the context", err)
		}
		checkFile(t, c, "/memories/f", "a\n")

		carryOnAfter(t, old, tool, api, memory)
		checkFile(t, c, "/memories/f", "b\na\n")
		edited := "The file /memories/f has been edited."
		want := []string{"File created successfully at: /memories/f", edited, edited}
		if diff := cmp.Diff(want, model.texts(t, 0)); diff != "" {
			t.Errorf("results (-want +got):\n%s", diff)
		}
	})
}

// carryOnAfter runs a new runner in the place of one that failed, as the package comment says.
func carryOnAfter(
	t *testing.T, failed agent, tool *anthropictool.Tool, api *claudetest.API, memory *client.Handler,
) {
	t.Helper()
	messages := failed.Messages()
	for messages[len(messages)-1].OfAssistant == nil {
		messages = messages[:len(messages)-1]
	}
	params := runnerParams(false)
	params.Messages = append(messages, anthropic.NewBetaUserMessage(tool.Results(t.Context())...))
	claude := api.Client()
	mustRun(t, anthropictool.NewToolRunner(&claude.Beta.Messages, memory, nil, params))
}

// The request that sends the results fails. The next one sends the same, also of the calls that failed: what they failed
// for is gone by now.
func TestRunner_RequestFails(t *testing.T) {
	forEachTool(t, func(t *testing.T, start func(*claudetest.API, *anthropictool.Tool) agent) {
		c := servertest.New(t).Client
		memory := c.Handler(namespace)
		tool := anthropictool.New(memory)
		write(t, c, "/memories/old", "old")
		model := newScript(
			use(
				create("/memories/f", ""), insert("/memories/f", 0, "once"),
				create("/memories/old", "new"), input{"command": "delete", "path": "/memories/old"},
				view("/memories/g"), create("/memories/g", ""),
			),
			claudetest.Fail(claudetest.Overloaded()),
			claudetest.Say("Done."),
		)
		api := claudetest.New(t, model)
		failing := start(api, tool)
		var failure *anthropic.Error
		if err := run(t.Context(), failing); !errors.As(err, &failure) {
			t.Fatalf("got %v, want that of the API", err)
		}
		carryOnAfter(t, failing, tool, api, memory)
		checkFile(t, c, "/memories/f", "once\n")
		checkFile(t, c, "/memories/old", "")
		want := []string{
			"File created successfully at: /memories/f", "The file /memories/f has been edited.",
			"Error: File /memories/old already exists", "Successfully deleted /memories/old",
			"Error: The path /memories/g does not exist. Please provide a valid path.",
			"File created successfully at: /memories/g",
		}
		if diff := cmp.Diff(want, model.texts(t, 0)); diff != "" {
			t.Errorf("results (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(model.results[0], model.results[1]); diff != "" {
			t.Errorf("results, when they failed to be sent and when they were (-first +second):\n%s", diff)
		}
	})
}

// The same runner, called again, makes nothing twice either. But it sends the results of the cancelled attempt too,
// which is why the package comment has another way.
func TestRunner_CalledAgain(t *testing.T) {
	s := startService(t)
	c := s.client(t)
	calls := []input{create("/memories/f", ""), insert("/memories/f", 0, "a"), insert("/memories/f", 0, "b")}
	api := claudetest.New(t, claudetest.Script(use(calls...)))
	tool := &arrivals{Tool: anthropictool.New(c.Handler(namespace)), left: len(calls), all: make(chan struct{})}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s.store.onChange(1, func() {
		<-tool.all // a call that has not come by then would not come at all
		cancel()
		<-ctx.Done()
	})
	runner := startWrapped(api, tool, tool.Tool)
	if err := run(ctx, runner); !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v, want the error of the context", err)
	}
	checkFile(t, c, "/memories/f", "")
	var refused *anthropic.Error
	if err := run(t.Context(), runner); !errors.As(err, &refused) || refused.StatusCode != http.StatusBadRequest {
		t.Errorf("got %v, want that the API refuses two results of a call", err)
	}
	checkFile(t, c, "/memories/f", "b\na\n")
}

// arrivals tells when so many calls have come to the tool.
type arrivals struct {
	*anthropictool.Tool
	mu   sync.Mutex
	left int
	all  chan struct{}
}

func (a *arrivals) Execute(
	ctx context.Context, input json.RawMessage,
) ([]anthropic.BetaToolResultBlockParamContentUnion, error) {
	a.mu.Lock()
	if a.left--; a.left == 0 {
		close(a.all)
	}
	a.mu.Unlock()
	return a.Tool.Execute(ctx, input)
}

// startWrapped returns a runner with what wraps a memory tool.
func startWrapped(api *claudetest.API, wrapper anthropic.BetaTool, tool *anthropictool.Tool) *anthropic.BetaToolRunner {
	claude := api.Client()
	runner := claude.Beta.Messages.NewToolRunner([]anthropic.BetaTool{wrapper}, boundParams(true))
	tool.Bind(runner)
	return runner
}

// The service dies in the middle of a run and comes back: the run takes longer, and nothing is made twice.
func TestRunner_ServiceDies(t *testing.T) {
	forEachAgent(t, func(t *testing.T, start func(*claudetest.API, *client.Handler) agent) {
		t.Run("between turns", func(t *testing.T) {
			s := startService(t)
			c := s.client(t)
			s.restartWhenMissed(t)
			model := newScript(use(create("/memories/f", "")), use(insert("/memories/f", 0, "once")), claudetest.Say("Done."))
			turn := 0
			api := claudetest.New(t, claudetest.ModelFunc(func(ctx context.Context, req *claudetest.Request) (claudetest.Turn, error) {
				if turn++; turn == 2 {
					s.die()
				}
				return model.Respond(ctx, req)
			}))
			mustRun(t, start(api, c.Handler(namespace)))
			checkFile(t, c, "/memories/f", "once\n")
			if diff := cmp.Diff([]string{"The file /memories/f has been edited."}, model.texts(t, 1)); diff != "" {
				t.Errorf("results (-want +got):\n%s", diff)
			}
		})
		t.Run("between a change and its answer", func(t *testing.T) {
			s := startService(t)
			c := s.client(t)
			s.restartWhenMissed(t)
			s.store.onChange(2, s.die)
			model := newScript(
				use(create("/memories/f", ""), insert("/memories/f", 0, "a"), insert("/memories/f", 0, "b")), claudetest.Say("Done."),
			)
			mustRun(t, start(claudetest.New(t, model), c.Handler(namespace)))
			checkFile(t, c, "/memories/f", "b\na\n")
			edited := "The file /memories/f has been edited."
			want := []string{"File created successfully at: /memories/f", edited, edited}
			if diff := cmp.Diff(want, model.texts(t, 0)); diff != "" {
				t.Errorf("results (-want +got):\n%s", diff)
			}
		})
	})
}

// A service that stays away is a text for the model, and the run goes on.
func TestRunner_ServiceIsAway(t *testing.T) {
	c, err := client.Dial("unix:"+t.TempDir()+"/memoryd.sock", client.WithRetryBudget(0))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	forEachAgent(t, func(t *testing.T, start func(*claudetest.API, *client.Handler) agent) {
		model := newScript(use(view("/memories"), create("/memories/f", "x")), claudetest.Say("Done."))
		mustRun(t, start(claudetest.New(t, model), c.Handler(namespace)))
		if diff := cmp.Diff([]string{textUnreachable, textUnreachable}, model.texts(t, 0)); diff != "" {
			t.Errorf("results (-want +got):\n%s", diff)
		}
		if !model.results[0][0].IsError {
			t.Error("the results are no errors")
		}
	})
}

// A panic on the way to the service ends as a text, and the other calls of the turn are made.
func TestRunner_PanicInAnInterceptor(t *testing.T) {
	s := startService(t)
	c := s.client(t, grpc.WithChainUnaryInterceptor(func(
		ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption,
	) error {
		if execute, ok := req.(*memoryv1.ExecuteRequest); ok && strings.Contains(execute.GetInput(), "panic") {
			panic("before the call")
		}
		return invoke(ctx, method, req, reply, cc, opts...)
	}))
	forEachAgent(t, func(t *testing.T, start func(*claudetest.API, *client.Handler) agent) {
		path := "/memories/" + strings.ReplaceAll(t.Name(), "/", "-")
		model := newScript(use(create(path, ""), insert(path, 0, "panic"), insert(path, 0, "fine")), claudetest.Say("Done."))
		mustRun(t, start(claudetest.New(t, model, claudetest.WithIDPrefix(path[len("/memories/"):])), c.Handler(namespace)))
		want := []string{"File created successfully at: " + path, textProblem, "The file " + path + " has been edited."}
		if diff := cmp.Diff(want, model.texts(t, 0)); diff != "" {
			t.Errorf("results (-want +got):\n%s", diff)
		}
		checkFile(t, c, path, "fine\n")
	})
}

// lastMessage is a function as a Runner.
type lastMessage func() *anthropic.BetaMessage

func (f lastMessage) LastMessage() *anthropic.BetaMessage { return f() }

// A tool whose runner cannot tell its message, or not one with the call, executes the call as if it was unbound.
func TestTool_Unbound(t *testing.T) {
	var nobody *anthropic.BetaToolRunner
	for name, runner := range map[string]anthropictool.Runner{
		"nil":        nil,
		"nil runner": nobody,
		"no message": lastMessage(func() *anthropic.BetaMessage { return nil }),
		"no call":    lastMessage(func() *anthropic.BetaMessage { return new(anthropic.BetaMessage) }),
		"panic":      lastMessage(func() *anthropic.BetaMessage { panic("in a wrapper") }),
	} {
		t.Run(name, func(t *testing.T) {
			c := servertest.New(t).Client
			tool := anthropictool.New(c.Handler(namespace))
			tool.Bind(runner)
			data := json.RawMessage(`{"command":"create","path":"/memories/f","file_text":"x"}`)
			content, err := tool.Execute(t.Context(), data)
			if err != nil || len(content) != 1 || content[0].OfText.Text != "File created successfully at: /memories/f" {
				t.Errorf("got %v, %v", content, err)
			}
			// Without an id it is not known to be the same call.
			content, err = tool.Execute(t.Context(), data)
			if err == nil || err.Error() != "File /memories/f already exists" {
				t.Errorf("again: got %v, %v", content, err)
			}
		})
	}
}

// A tool has results for what its runner has to answer, and for nothing else.
func TestTool_Results(t *testing.T) {
	c := servertest.New(t).Client
	message := func(stop string) anthropictool.Runner {
		m := new(anthropic.BetaMessage)
		data := `{"id":"msg_1","type":"message","role":"assistant","stop_reason":"` + stop + `","content":[
			{"type":"tool_use","id":"toolu_1","name":"search","input":{}},
			{"type":"tool_use","id":"toolu_2","name":"memory","input":{"command":"create","path":"/memories/f","file_text":"x"}},
			{"type":"tool_use","id":"toolu_3","name":"memory","input":{"command":"view","path":"/memories/f","view_range":[1e400,1]}}]}`
		if err := json.Unmarshal([]byte(data), m); err != nil {
			t.Fatal(err)
		}
		return lastMessage(func() *anthropic.BetaMessage { return m })
	}
	tool := anthropictool.New(c.Handler(namespace))
	for name, runner := range map[string]anthropictool.Runner{
		"unbound":    nil,
		"no message": lastMessage(func() *anthropic.BetaMessage { return nil }),
		"refusal":    message(claudetest.StopRefusal),
		"max_tokens": message(claudetest.StopMaxTokens),
	} {
		tool.Bind(runner)
		if results := tool.Results(t.Context()); results != nil {
			t.Errorf("%s: got %v, want no results", name, results)
		}
	}
	checkFile(t, c, "/memories/f", "")

	tool.Bind(message(claudetest.StopToolUse))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, result := range tool.Results(ctx) {
		if text := result.OfToolResult.Content[0].OfText.Text; text != textUnreachable {
			t.Errorf("cancelled: got %q", text)
		}
	}
	for range 2 {
		results := tool.Results(t.Context())
		if len(results) != 2 || results[0].OfToolResult.ToolUseID != "toolu_2" ||
			results[0].OfToolResult.Content[0].OfText.Text != "File created successfully at: /memories/f" ||
			results[1].OfToolResult.ToolUseID != "toolu_3" || !results[1].OfToolResult.IsError.Value {
			t.Errorf("got %v", results)
		}
	}
	checkFile(t, c, "/memories/f", "x")
}

// A wrapper that changes the input or answers a call itself does not stop the others.
func TestTool_Wrapped(t *testing.T) {
	c := servertest.New(t).Client
	model := newScript(
		use(create("/memories/f", "x"), create("/memories/public", "y"), create("/memories/secret", "z")), claudetest.Say("Done."),
	)
	tool := anthropictool.New(c.Handler(namespace))
	mustRun(t, startWrapped(claudetest.New(t, model), policy{tool}, tool))
	want := []string{
		"File created successfully at: /memories/f",
		"File created successfully at: /memories/moved",
		"Error: not allowed",
	}
	if diff := cmp.Diff(want, model.texts(t, 0)); diff != "" {
		t.Errorf("results (-want +got):\n%s", diff)
	}
	checkFile(t, c, "/memories/moved", "y")
	checkFile(t, c, "/memories/secret", "")
}

// policy stands between a runner and the memory tool.
type policy struct{ *anthropictool.Tool }

func (p policy) Execute(
	ctx context.Context, input json.RawMessage,
) ([]anthropic.BetaToolResultBlockParamContentUnion, error) {
	if strings.Contains(string(input), "secret") {
		return nil, errors.New("not allowed")
	}
	return p.Tool.Execute(ctx, json.RawMessage(strings.ReplaceAll(string(input), "public", "moved")))
}

// A tool_use id names one command: another one under it is refused, with the text for that.
func TestRunner_IDOfAnotherCommand(t *testing.T) {
	forEachAgent(t, func(t *testing.T, start func(*claudetest.API, *client.Handler) agent) {
		c := servertest.New(t).Client
		for i, want := range []string{"File created successfully at: /memories/0", textReused} {
			turn := claudetest.Use(claudetest.CallWithID("toolu_same", "memory", create(fmt.Sprintf("/memories/%d", i), "x")))
			model := newScript(turn, claudetest.Say("Done."))
			mustRun(t, start(claudetest.New(t, model), c.Handler(namespace)))
			if diff := cmp.Diff([]string{want}, model.texts(t, 0)); diff != "" {
				t.Errorf("results (-want +got):\n%s", diff)
			}
		}
		// In another session it is another call.
		turn := claudetest.Use(claudetest.CallWithID("toolu_same", "memory", create("/memories/2", "x")))
		mustRun(t, start(claudetest.New(t, claudetest.Script(turn, claudetest.Say("Done."))),
			c.Handler(namespace, client.WithSession("run-8"))))
		checkFile(t, c, "/memories/2", "x")
	})
}
