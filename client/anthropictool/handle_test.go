package anthropictool_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/anthropics/anthropic-sdk-go/v2"
	"github.com/google/go-cmp/cmp"

	"github.com/seed-7f2870e1/memoryd/client"
	"github.com/seed-7f2870e1/memoryd/client/anthropictool"
	"github.com/seed-7f2870e1/memoryd/client/claudetest"
	"github.com/seed-7f2870e1/memoryd/server/servertest"
)

// loop is an agent that is written by hand, on either family of types, streaming or not.
type loop struct {
	name string
	// ask sends the first request and returns the answer, as JSON that survives the process.
	ask func(ctx context.Context, claude anthropic.Client) (message string, err error)
	// handle runs the memory calls of such an answer, and returns the results as JSON.
	handle func(ctx context.Context, memory *client.Handler, message string) (results []json.RawMessage, err error)
	// carryOn sends the conversation with the results.
	carryOn func(ctx context.Context, claude anthropic.Client, message string, results []json.RawMessage) error
}

var loops = []loop{
	{"beta", askBeta, handleBeta, carryOnBeta},
	{"beta, streaming", askBetaStreaming, handleBeta, carryOnBeta},
	{"not beta", ask, handle, carryOn},
	{"not beta, streaming", askStreaming, handle, carryOn},
}

func messageParams() anthropic.MessageNewParams {
	return anthropictool.MessageParams(anthropic.MessageNewParams{
		Model: anthropic.ModelClaudeSonnet5_5, MaxTokens: 1024,
		Messages: []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock("Go on."))},
	})
}

func ask(ctx context.Context, claude anthropic.Client) (string, error) {
	m, err := claude.Messages.New(ctx, messageParams())
	if err != nil {
		return "", err
	}
	return m.RawJSON(), nil
}

func askStreaming(ctx context.Context, claude anthropic.Client) (string, error) {
	stream := claude.Messages.NewStreaming(ctx, messageParams())
	defer stream.Close()
	var m anthropic.Message
	for stream.Next() {
		if err := m.Accumulate(stream.Current()); err != nil {
			return "", err
		}
	}
	return m.RawJSON(), stream.Err()
}

func handle(ctx context.Context, memory *client.Handler, data string) ([]json.RawMessage, error) {
	var m anthropic.Message
	if err := json.Unmarshal([]byte(data), &m); err != nil {
		return nil, err
	}
	return marshalAll(anthropictool.HandleMessage(ctx, memory, &m))
}

func carryOn(ctx context.Context, claude anthropic.Client, data string, results []json.RawMessage) error {
	var m anthropic.Message
	if err := json.Unmarshal([]byte(data), &m); err != nil {
		return err
	}
	blocks := make([]anthropic.ContentBlockParamUnion, len(results))
	for i := range results {
		if err := json.Unmarshal(results[i], &blocks[i]); err != nil {
			return err
		}
	}
	p := messageParams()
	p.Messages = append(p.Messages, m.ToParam(), anthropic.NewUserMessage(blocks...))
	_, err := claude.Messages.New(ctx, p)
	return err
}

func askBeta(ctx context.Context, claude anthropic.Client) (string, error) {
	m, err := claude.Beta.Messages.New(ctx, anthropictool.Params(params()))
	if err != nil {
		return "", err
	}
	return m.RawJSON(), nil
}

func askBetaStreaming(ctx context.Context, claude anthropic.Client) (string, error) {
	stream := claude.Beta.Messages.NewStreaming(ctx, anthropictool.Params(params()))
	defer stream.Close()
	var m anthropic.BetaMessage
	for stream.Next() {
		if err := m.Accumulate(stream.Current()); err != nil {
			return "", err
		}
	}
	return m.RawJSON(), stream.Err()
}

func handleBeta(ctx context.Context, memory *client.Handler, data string) ([]json.RawMessage, error) {
	var m anthropic.BetaMessage
	if err := json.Unmarshal([]byte(data), &m); err != nil {
		return nil, err
	}
	return marshalAll(anthropictool.HandleBetaMessage(ctx, memory, &m))
}

func carryOnBeta(ctx context.Context, claude anthropic.Client, data string, results []json.RawMessage) error {
	var m anthropic.BetaMessage
	if err := json.Unmarshal([]byte(data), &m); err != nil {
		return err
	}
	blocks := make([]anthropic.BetaContentBlockParamUnion, len(results))
	for i := range results {
		if err := json.Unmarshal(results[i], &blocks[i]); err != nil {
			return err
		}
	}
	p := anthropictool.Params(params())
	p.Messages = append(p.Messages, m.ToParam(), anthropic.NewBetaUserMessage(blocks...))
	_, err := claude.Beta.Messages.New(ctx, p)
	return err
}

func marshalAll[T any](values []T) ([]json.RawMessage, error) {
	var all []json.RawMessage
	for _, v := range values {
		data, err := json.Marshal(v)
		if err != nil {
			return nil, err
		}
		all = append(all, data)
	}
	return all, nil
}

func forEachLoop(t *testing.T, test func(t *testing.T, l loop)) {
	t.Helper()
	for _, l := range loops {
		t.Run(l.name, func(t *testing.T) { test(t, l) })
	}
}

// mustAsk sends the first request to a model.
func mustAsk(t *testing.T, l loop, model claudetest.Model) (claude anthropic.Client, message string) {
	t.Helper()
	claude = claudetest.New(t, model).Client()
	message, err := l.ask(t.Context(), claude)
	if err != nil {
		t.Fatal(err)
	}
	return claude, message
}

// The calls of a message are made in the order of their blocks, also where they are large; other tools are left alone.
func TestHandleMessage(t *testing.T) {
	forEachLoop(t, func(t *testing.T, l loop) {
		c := servertest.New(t).Client
		large := string(make([]byte, 60_000)) + "\u2028<&>é\r\n"
		model := newScript(
			claudetest.Say("Let me see.").With(
				call(create("/memories/f", large)), call(view("/memories/missing")), call(insert("/memories/f", 0, "first")),
				claudetest.Call("memory", json.RawMessage(
					`{"view_range":"[1.0, 1]","path":"/memories/g","path":"/memories/\u0066", "command":"view"}`)),
			),
			claudetest.Say("Done."),
		)
		claude, message := mustAsk(t, l, model)
		results, err := l.handle(t.Context(), c.Handler(namespace), message)
		if err != nil {
			t.Fatal(err)
		}
		if err := l.carryOn(t.Context(), claude, message, results); err != nil {
			t.Fatal(err)
		}
		checkFile(t, c, "/memories/f", "first\n"+large)
		want := []claudetest.ToolResult{
			{ToolUseID: "toolu_1", Text: "File created successfully at: /memories/f"},
			{ToolUseID: "toolu_2", IsError: true, Text: "The path /memories/missing does not exist. Please provide a valid path."},
			{ToolUseID: "toolu_3", Text: "The file /memories/f has been edited."},
			{ToolUseID: "toolu_4", Text: "Here's the content of /memories/f with line numbers:\n     1\tfirst"},
		}
		if diff := cmp.Diff(want, model.results[0]); diff != "" {
			t.Errorf("results (-want +got):\n%s", diff)
		}
	})
}

func TestHandleMessage_OtherTools(t *testing.T) {
	c := servertest.New(t).Client
	const content = `{"id":"msg_1","type":"message","role":"assistant","stop_reason":"tool_use","content":[
		{"type":"tool_use","id":"toolu_1","name":"search","input":{"command":"create","path":"/memories/f","file_text":"x"}},
		{"type":"server_tool_use","id":"srvtoolu_1","name":"memory","input":{"command":"create","path":"/memories/f","file_text":"x"}}]}`
	for _, handle := range []func(context.Context, *client.Handler, string) ([]json.RawMessage, error){handle, handleBeta} {
		if results, err := handle(t.Context(), c.Handler(namespace), content); len(results) != 0 || err != nil {
			t.Errorf("got %s, %v, want no results", results, err)
		}
	}
	checkFile(t, c, "/memories/f", "")
}

func TestHandleMessage_StopReasons(t *testing.T) {
	for _, stop := range []string{
		claudetest.StopRefusal, claudetest.StopMaxTokens, claudetest.StopPauseTurn, claudetest.StopEndTurn,
		"model_context_window_exceeded", "unheard_of",
	} {
		t.Run(stop, func(t *testing.T) {
			forEachLoop(t, func(t *testing.T, l loop) {
				c := servertest.New(t).Client
				_, message := mustAsk(t, l, claudetest.Script(use(create("/memories/f", "x")).Stop(stop)))
				if results, err := l.handle(t.Context(), c.Handler(namespace), message); len(results) != 0 || err != nil {
					t.Errorf("got %s, %v, want no results", results, err)
				}
				checkFile(t, c, "/memories/f", "")
			})
		})
	}
}

func TestHandleBetaMessage_Fallback(t *testing.T) {
	const fallback = `{"type":"fallback","from":{"model":"a"},"to":{"model":"b"}}`
	c := servertest.New(t).Client
	turn := use(create("/memories/refused", "x")).With(claudetest.Raw(fallback), call(create("/memories/f", "x")))
	l := loops[0]
	_, message := mustAsk(t, l, claudetest.Script(turn))
	if results, err := l.handle(t.Context(), c.Handler(namespace), message); len(results) != 1 || err != nil {
		t.Errorf("got %s, %v, want one result", results, err)
	}
	checkFile(t, c, "/memories/refused", "")
	checkFile(t, c, "/memories/f", "x")
}

// A process dies in the middle of a turn. The next one, which has the message from a file, makes the rest of it, nothing
// twice, and has all results.
func TestHandleMessage_AfterACrash(t *testing.T) {
	forEachLoop(t, func(t *testing.T, l loop) {
		s := startService(t)
		model := newScript(
			use(create("/memories/f", ""), insert("/memories/f", 0, "a"), insert("/memories/f", 0, "b"), view("/memories/f")),
			claudetest.Say("Done."),
		)
		claude, message := mustAsk(t, l, model)

		ctx, crash := context.WithCancel(t.Context())
		defer crash()
		s.store.onChange(2, func() {
			crash()
			<-ctx.Done()
		})
		first := s.client(t)
		if _, err := l.handle(ctx, first.Handler(namespace, client.WithSession("run-7")), message); err != nil {
			t.Fatal(err)
		}
		_ = first.Close()

		s.restart(t)
		second := s.client(t)
		checkFile(t, second, "/memories/f", "a\n")
		for range 2 { // the process may die again before it has sent the results
			results, err := l.handle(t.Context(), second.Handler(namespace, client.WithSession("run-7")), message)
			if err != nil {
				t.Fatal(err)
			}
			if len(model.results) == 0 {
				if err := l.carryOn(t.Context(), claude, message, results); err != nil {
					t.Fatal(err)
				}
			}
			checkFile(t, second, "/memories/f", "b\na\n")
		}
		edited := "The file /memories/f has been edited."
		want := []string{
			"File created successfully at: /memories/f", edited, edited,
			"Here's the content of /memories/f with line numbers:\n     1\tb\n     2\ta\n     3\t",
		}
		if diff := cmp.Diff(want, model.texts(t, 0)); diff != "" {
			t.Errorf("results (-want +got):\n%s", diff)
		}
	})
}

// Only changes that were made are remembered across processes: a call that failed is tried again, and finds what the
// first attempt at the turn has left.
func TestHandleMessage_FailedCallIsTriedAgain(t *testing.T) {
	forEachLoop(t, func(t *testing.T, l loop) {
		c := servertest.New(t).Client
		write(t, c, "/memories/f", "old")
		_, message := mustAsk(t, l, claudetest.Script(
			use(create("/memories/f", "new"), input{"command": "delete", "path": "/memories/f"}),
		))
		deleted := "Successfully deleted /memories/f"
		for _, want := range []struct {
			texts []string
			file  string
		}{
			{[]string{"Error: File /memories/f already exists", deleted}, ""},
			{[]string{"File created successfully at: /memories/f", deleted}, "new"},
			{[]string{"File created successfully at: /memories/f", deleted}, "new"},
		} {
			results, err := l.handle(t.Context(), c.Handler(namespace), message)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, result := range results {
				var block anthropic.ToolResultBlockParam
				if err := json.Unmarshal(result, &block); err != nil {
					t.Fatal(err)
				}
				got = append(got, block.Content[0].OfText.Text)
			}
			if diff := cmp.Diff(want.texts, got); diff != "" {
				t.Errorf("results (-want +got):\n%s", diff)
			}
			checkFile(t, c, "/memories/f", want.file)
		}
	})
}

// Where the context ends there are results all the same, and none of them is a change.
func TestHandleMessage_Cancelled(t *testing.T) {
	forEachLoop(t, func(t *testing.T, l loop) {
		c := servertest.New(t).Client
		_, message := mustAsk(t, l, claudetest.Script(use(view("/memories"), create("/memories/f", "x"))))
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		results, err := l.handle(ctx, c.Handler(namespace), message)
		if err != nil || len(results) != 2 {
			t.Fatalf("got %s, %v, want two results", results, err)
		}
		for _, result := range results {
			var block anthropic.ToolResultBlockParam
			if err := json.Unmarshal(result, &block); err != nil || block.Content[0].OfText.Text != textUnreachable {
				t.Errorf("got %s, %v, want %s", result, err, textUnreachable)
			}
		}
		checkFile(t, c, "/memories/f", "")
	})
}
