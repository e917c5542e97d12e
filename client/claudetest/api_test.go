package claudetest_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/anthropics/anthropic-sdk-go/v2"
	"github.com/google/go-cmp/cmp"

	"github.com/seed-7f2870e1/memoryd/client/claudetest"
)

const hello = `{"model":"claude-x","max_tokens":10,"messages":[{"role":"user","content":"Hello"}]}`

func TestMessages(t *testing.T) {
	api := claudetest.New(t, claudetest.Script(
		claudetest.Say("One", "Two"),
		claudetest.Use(claudetest.Call("memory", map[string]any{"command": "view", "path": "/memories"})),
	))
	client := api.Client()
	p := anthropic.MessageNewParams{
		Model: anthropic.ModelClaudeSonnet5_5, MaxTokens: 1024,
		Messages: []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock("Hello there"))},
		Tools:    []anthropic.ToolUnionParam{{OfMemoryTool20250818: &anthropic.MemoryTool20250818Param{}}},
	}
	m, err := client.Messages.New(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	if m.ID != "msg_1" || m.Role != "assistant" || m.Model != anthropic.ModelClaudeSonnet5_5 || m.StopReason != anthropic.StopReasonEndTurn ||
		len(m.Content) != 2 || m.Content[0].Text != "One" || m.Content[1].Text != "Two" {
		t.Errorf("got %s", m.RawJSON())
	}
	// "Hello there" and {"name":"memory","type":"memory_20250818"}: 3 and 11 tokens; "One" and "Two": 1 each.
	if m.Usage.InputTokens != 14 || m.Usage.OutputTokens != 2 || m.Usage.CacheReadInputTokens != 0 {
		t.Errorf("usage %s", m.Usage.RawJSON())
	}
	if !m.JSON.Container.Valid() && m.JSON.Container.Raw() != "null" {
		t.Errorf("container %s", m.JSON.Container.Raw())
	}

	s := client.Messages.NewStreaming(t.Context(), p)
	defer s.Close()
	var streamed anthropic.Message
	for s.Next() {
		if err := streamed.Accumulate(s.Current()); err != nil {
			t.Fatal(err)
		}
	}
	if s.Err() != nil {
		t.Fatal(s.Err())
	}
	if streamed.ID != "msg_2" || streamed.StopReason != anthropic.StopReasonToolUse || len(streamed.Content) != 1 ||
		streamed.Content[0].ID != "toolu_1" || string(streamed.Content[0].Input) != `{"command":"view","path":"/memories"}` {
		t.Errorf("got %s", streamed.RawJSON())
	}
	if streamed.Usage.InputTokens != 14 || streamed.Usage.OutputTokens != 12 {
		t.Errorf("usage %s", streamed.Usage.RawJSON())
	}

	count, err := client.Messages.CountTokens(t.Context(), anthropic.MessageCountTokensParams{
		Model: p.Model, Messages: p.Messages,
		Tools: []anthropic.MessageCountTokensToolUnionParam{{OfMemoryTool20250818: &anthropic.MemoryTool20250818Param{}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if count.InputTokens != 14 {
		t.Errorf("counted %d", count.InputTokens)
	}
}

func TestBetaMessages(t *testing.T) {
	model := &say{}
	api := claudetest.New(t, claudetest.ModelFunc(func(_ context.Context, req *claudetest.Request) (claudetest.Turn, error) {
		return model.turn(req), nil
	}), claudetest.WithTokenCounter(countBytes))
	client := api.Client()
	p := params(userText("Hello"))
	p.System = []anthropic.BetaTextBlockParam{{Text: "Be"}, {Text: "brief"}}
	p.Tools = []anthropic.BetaToolUnionParam{toolParam("look")}
	p.Betas = []anthropic.AnthropicBeta{"one-2026-01-01", "two-2026-01-01"}

	m, err := client.Beta.Messages.New(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stream(t, client, p); err != nil {
		t.Fatal(err)
	}
	count, err := client.Beta.Messages.CountTokens(t.Context(), anthropic.BetaMessageCountTokensParams{Model: p.Model, Messages: p.Messages})
	if err != nil {
		t.Fatal(err)
	}
	if count.InputTokens != int64(len("Hello")) {
		t.Errorf("counted %d", count.InputTokens)
	}
	tool := `{"input_schema":{"properties":{},"type":"object"},"name":"look"}`
	if want := int64(len("Be" + "brief" + "Hello" + tool)); m.Usage.InputTokens != want {
		t.Errorf("%d input tokens, want %d", m.Usage.InputTokens, want)
	}

	req := model.requests[0]
	if req.Model != p.Model || req.System != "Be\nbrief" || req.LastText() != "Hello" || !req.HasTool("look") || req.HasTool("memory") {
		t.Errorf("the model saw %+v", req)
	}
	if req.Stream || !model.requests[1].Stream {
		t.Error("the model does not know what is streamed")
	}
	if want := []string{"one-2026-01-01", "two-2026-01-01"}; !slices.Equal(req.Betas, want) {
		t.Errorf("betas %q", req.Betas)
	}

	got := api.Requests()
	for i := range got {
		if len(got[i].Body) == 0 {
			t.Error("a body is missing")
		}
		got[i].Body = nil
	}
	tokens := int(m.Usage.InputTokens)
	betas := []string{"one-2026-01-01", "two-2026-01-01"}
	said := len("All right.")
	want := []claudetest.Recorded{
		{Method: "POST", Path: "/v1/messages", ID: "req_1", Betas: betas, Status: 200, MessageID: "msg_1", InputTokens: tokens, OriginalInputTokens: tokens, OutputTokens: said},
		{Method: "POST", Path: "/v1/messages", ID: "req_2", Betas: betas, Status: 200, MessageID: "msg_2", InputTokens: tokens, OriginalInputTokens: tokens, OutputTokens: said},
		{Method: "POST", Path: "/v1/messages/count_tokens", ID: "req_3", Betas: got[2].Betas, Status: 200, InputTokens: 5, OriginalInputTokens: 5},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// Whatever the model does with a request, the next one is not changed by it.
func TestRequestBelongsToModel(t *testing.T) {
	model := claudetest.ModelFunc(func(_ context.Context, req *claudetest.Request) (claudetest.Turn, error) {
		text := req.Messages[0].Content[0].Text
		for i := range req.Messages {
			for j := range req.Messages[i].Content {
				req.Messages[i].Content[j] = claudetest.Text("changed")
			}
		}
		for i := range req.Tools {
			req.Tools[i] = claudetest.Tool{}
		}
		return claudetest.Say(text), nil
	})
	api := claudetest.New(t, model)
	client := api.Client()
	thread := client.Beta.Messages.NewThread(anthropic.BetaMessageThreadCreateParams{
		Model: anthropic.ModelClaudeSonnet5_5, MaxTokens: 10, Tools: []anthropic.BetaToolUnionParam{toolParam("look")},
	})
	for _, text := range []string{"one", "two", "three"} {
		m, err := thread.Send(t.Context(), anthropic.BetaMessageThreadSendParams{Messages: []anthropic.BetaMessageParam{userText(text)}})
		if err != nil {
			t.Fatal(err)
		}
		if m.Content[0].Text != "one" {
			t.Errorf("the first message has become %q", m.Content[0].Text)
		}
	}
}

func TestAnyClient(t *testing.T) {
	api := claudetest.New(t, claudetest.ModelFunc(func(context.Context, *claudetest.Request) (claudetest.Turn, error) {
		return claudetest.Say("Hi <&> \u2028"), nil
	}))
	for _, tc := range []struct {
		name   string
		change []func(*http.Request)
		path   string
		body   string
		status int
		text   string // in the body
	}{
		{name: "message", status: 200, text: `"content":[{"type":"text","text":"Hi <&> ` + `\u2028"}],"stop_reason":"end_turn","stop_sequence":null,"stop_details":null,"container":null,"usage":{`},
		{name: "spaces around the body", body: " \n" + hello + "\n", status: 200, text: `"id":"msg_`},
		{name: "bearer", change: []func(*http.Request){withHeader("x-api-key", ""), withHeader("authorization", "Bearer x")}, status: 200, text: `"id":"msg_`},
		{name: "no key", change: []func(*http.Request){withHeader("x-api-key", "")}, status: 401, text: `"type":"authentication_error"`},
		{name: "empty bearer", change: []func(*http.Request){withHeader("x-api-key", ""), withHeader("authorization", "Bearer ")}, status: 401, text: "authentication_error"},
		{name: "no version", change: []func(*http.Request){withHeader("anthropic-version", "")}, status: 400, text: "anthropic-version: header is required"},
		{name: "unknown path", path: "/v1/complete", status: 404, text: "not_found_error"},
		{name: "path below", path: "/v1/messages/", status: 404, text: "not_found_error"},
		{name: "method", change: []func(*http.Request){func(r *http.Request) { r.Method = "GET" }}, status: 405, text: "Method Not Allowed: GET"},
		{name: "too large", body: strings.Repeat(" ", 32<<20) + hello, status: 413, text: "request_too_large"},
		{name: "not JSON", body: "{", status: 400, text: "not valid JSON"},
		{name: "count", path: "/v1/messages/count_tokens", body: `{"model":"m","messages":[{"role":"user","content":"12345678"}]}`, status: 200, text: `{"input_tokens":2}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			path, body := "/v1/messages", hello
			if tc.path != "" {
				path = tc.path
			}
			if tc.body != "" {
				body = tc.body
			}
			r := post(t, api, path, body, tc.change...)
			if r.status != tc.status || !strings.Contains(string(r.body), tc.text) {
				t.Errorf("%d %s", r.status, r.body)
			}
			requests := api.Requests()
			last := requests[len(requests)-1]
			if last.Status != tc.status || r.header.Get("request-id") != last.ID {
				t.Errorf("recorded %+v, request-id %q", last, r.header.Get("request-id"))
			}
			if tc.status == 405 && r.header.Get("allow") != "POST" {
				t.Error("no allow header")
			}
		})
	}
}

func TestBetaHeaders(t *testing.T) {
	api := claudetest.New(t, claudetest.Script(claudetest.Say("Yes")))
	post(t, api, "/v1/messages", hello, func(r *http.Request) {
		r.Header.Del("anthropic-beta")
		r.Header.Add("anthropic-beta", "a, b,")
		r.Header.Add("anthropic-beta", "b,c")
	})
	if got := api.Requests()[0].Betas; !slices.Equal(got, []string{"a", "b", "c"}) {
		t.Errorf("got %q", got)
	}
}

// Where there is no port to listen on, a program gets an error, and a test ends.
func TestNoPort(t *testing.T) {
	errNone := errors.New("no port is free")
	option := claudetest.WithListen(func(string, string) (net.Listener, error) { return nil, errNone })
	if api, err := claudetest.Start(claudetest.Script(), option); api != nil || !errors.Is(err, errNone) {
		t.Errorf("Start: got %v, %v", api, err)
	}
	rec := &recorder{}
	ended := make(chan bool)
	go func() {
		returned := false
		defer func() { ended <- !returned }()
		claudetest.New(rec, claudetest.Script(), option)
		returned = true
	}()
	if !<-ended {
		t.Error("New returned")
	}
	if errs := rec.end(); len(errs) != 1 || errs[0] != "claudetest: no port is free" {
		t.Errorf("reported %q", errs)
	}
}

func TestOptions(t *testing.T) {
	api := claudetest.New(t, claudetest.Script(claudetest.Use(claudetest.Call("look", struct{}{}))),
		claudetest.WithoutBodies(), claudetest.WithIDPrefix("b"))
	client := api.Client()
	p := params(userText("Hello"))
	p.Tools = []anthropic.BetaToolUnionParam{toolParam("look")}
	m, err := client.Beta.Messages.New(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	if m.ID != "msg_b1" || m.Content[0].ID != "toolu_b1" {
		t.Errorf("got %s", m.RawJSON())
	}
	if r := api.Requests()[0]; r.ID != "req_b1" || r.Body != nil || r.InputTokens == 0 {
		t.Errorf("recorded %+v", r)
	}
}

func TestConcurrentClients(t *testing.T) {
	api := claudetest.New(t, claudetest.ModelFunc(func(_ context.Context, req *claudetest.Request) (claudetest.Turn, error) {
		if len(req.ToolResults()) == 0 {
			return claudetest.Use(claudetest.Call("echo", map[string]string{"text": req.LastText()})), nil
		}
		return claudetest.Say(req.ToolResults()[0].Text), nil
	}))
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			client := api.Client()
			p := runnerParams(i%2 == 0)
			p.Messages = []anthropic.BetaMessageParam{userText(fmt.Sprintf("I am %d", i))}
			m, err := client.Beta.Messages.NewToolRunner([]anthropic.BetaTool{echoTool{}}, p).RunToCompletion(t.Context())
			if err != nil {
				t.Error(err)
				return
			}
			if m.Content[0].Text != fmt.Sprintf("I am %d", i) {
				t.Errorf("client %d was told %q", i, m.Content[0].Text)
			}
		})
	}
	wg.Wait()
	ids := map[string]bool{}
	for _, r := range api.Requests() {
		ids[r.MessageID], ids[r.ID] = true, true
	}
	if len(ids) != 32 {
		t.Errorf("%d ids of 16 messages and 16 requests", len(ids))
	}
}

// A model that waits is told when the client goes away, and when the API is closed.
func TestModelIsInterrupted(t *testing.T) {
	for _, how := range []string{"client", "close"} {
		t.Run(how, func(t *testing.T) {
			asked := make(chan struct{})
			var ended error
			rec := &recorder{}
			api := claudetest.New(rec, claudetest.ModelFunc(func(ctx context.Context, _ *claudetest.Request) (claudetest.Turn, error) {
				close(asked)
				<-ctx.Done()
				ended = ctx.Err()
				return claudetest.Turn{}, ctx.Err()
			}))
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			done := make(chan error)
			go func() {
				client := api.Client()
				_, err := client.Beta.Messages.New(ctx, params(userText("Hello")))
				done <- err
			}()
			<-asked
			if how == "client" {
				cancel()
			} else {
				go api.Close()
			}
			if err := <-done; err == nil {
				t.Error("got an answer")
			}
			if errs := rec.end(); len(errs) > 0 {
				t.Errorf("reported %q", errs)
			}
			if !errors.Is(ended, context.Canceled) {
				t.Errorf("the model ended with %v", ended)
			}
			if r := api.Requests()[0]; r.Status != 0 {
				t.Errorf("recorded status %d", r.Status)
			}
		})
	}
}

// Close returns once the model has.
func TestCloseWaits(t *testing.T) {
	asked, interrupted, release, closed := make(chan struct{}), make(chan struct{}), make(chan struct{}), make(chan struct{})
	api := claudetest.New(t, claudetest.ModelFunc(func(ctx context.Context, _ *claudetest.Request) (claudetest.Turn, error) {
		close(asked)
		<-ctx.Done()
		close(interrupted)
		<-release
		return claudetest.Turn{}, ctx.Err()
	}))
	client := api.Client()
	go func() { _, _ = client.Beta.Messages.New(t.Context(), params(userText("Hello"))) }()
	<-asked
	go func() {
		api.Close()
		close(closed)
	}()
	<-interrupted
	for range 10_000 { // a Close that does not wait would be back by now
		runtime.Gosched()
	}
	select {
	case <-closed:
		t.Error("Close did not wait for the model")
	default:
	}
	close(release)
	<-closed
}

// A model can close the API that asks it: Close comes back, the client gets no answer, and the next Close waits.
func TestCloseByModel(t *testing.T) {
	for _, depth := range []int{0, 200} { // of calls, which are more than are looked at at once
		var api *claudetest.API
		var closeAt func(depth int)
		closeAt = func(depth int) {
			if depth > 0 {
				closeAt(depth - 1)
				return
			}
			api.Close()
		}
		rec := &recorder{}
		closed := false
		api = claudetest.New(rec, claudetest.ModelFunc(func(context.Context, *claudetest.Request) (claudetest.Turn, error) {
			closeAt(depth)
			closed = true
			return claudetest.Say("Fine."), nil
		}))
		client := api.Client()
		if m, err := client.Beta.Messages.New(t.Context(), params(userText("Hello"))); err == nil {
			t.Errorf("got an answer: %s", m.RawJSON())
		}
		if errs := rec.end(); len(errs) > 0 || !closed {
			t.Errorf("closed: %v, reported %q", closed, errs)
		}
		if r := api.Requests()[0]; r.Status != 0 {
			t.Errorf("recorded status %d", r.Status)
		}
	}
}

func TestClosed(t *testing.T) {
	api := claudetest.New(t, claudetest.Script())
	api.Close()
	api.Close()
	client := api.Client()
	if _, err := client.Beta.Messages.New(t.Context(), params(userText("Hello"))); err == nil {
		t.Error("got an answer")
	}
}
