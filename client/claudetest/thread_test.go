package claudetest_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/anthropics/anthropic-sdk-go/v2"

	"github.com/seed-7f2870e1/memoryd/client/claudetest"
)

func threadParams() anthropic.BetaMessageThreadCreateParams {
	return anthropic.BetaMessageThreadCreateParams{
		Model: anthropic.ModelClaudeSonnet5_5, MaxTokens: 1024,
		System: []anthropic.BetaTextBlockParam{{Text: "Be brief."}},
		Tools:  []anthropic.BetaToolUnionParam{toolParam("look")},
	}
}

func sendText(text string) anthropic.BetaMessageThreadSendParams {
	return anthropic.BetaMessageThreadSendParams{Messages: []anthropic.BetaMessageParam{userText(text)}}
}

// errorCode returns the code of an error of the API.
func errorCode(t *testing.T, err error) string {
	t.Helper()
	var apiErr *anthropic.Error
	if !errors.As(err, &apiErr) {
		t.Fatalf("not an error of the API: %v", err)
	}
	var body struct {
		Error struct {
			Details struct {
				ErrorCode string `json:"error_code"`
			}
		}
	}
	if err := json.Unmarshal([]byte(apiErr.RawJSON()), &body); err != nil {
		t.Fatal(err)
	}
	return body.Error.Details.ErrorCode
}

func TestThread(t *testing.T) {
	var seen []*claudetest.Request
	api := claudetest.New(t, claudetest.ModelFunc(func(_ context.Context, req *claudetest.Request) (claudetest.Turn, error) {
		seen = append(seen, req)
		return claudetest.Say(fmt.Sprintf("Answer %d", len(seen))), nil
	}), claudetest.WithTokenCounter(countBytes))
	client := api.Client()
	thread := client.Beta.Messages.NewThread(threadParams())
	if _, err := thread.Send(t.Context(), sendText("One")); err != nil {
		t.Fatal(err)
	}
	s := thread.SendStreaming(t.Context(), sendText("Two"))
	for s.Next() { // to its end
	}
	if err := s.Close(); err != nil || s.Err() != nil {
		t.Fatal(err, s.Err())
	}
	m, err := thread.Send(t.Context(), sendText("Three"))
	if err != nil {
		t.Fatal(err)
	}
	last := seen[2]
	var said []string
	for _, message := range last.Messages {
		said = append(said, message.Role+" "+message.Content[0].Text)
	}
	if got, want := strings.Join(said, ", "), "user One, assistant Answer 1, user Two, assistant Answer 2, user Three"; got != want {
		t.Errorf("the model saw %s", got)
	}
	if last.System != "Be brief." || !last.HasTool("look") {
		t.Errorf("the model saw %+v", last)
	}
	want := len("Be brief.") + len(last.Tools[0].Raw) + len("One"+"Answer 1"+"Two"+"Answer 2"+"Three")
	if int(m.Usage.InputTokens) != want {
		t.Errorf("%d input tokens, want %d", m.Usage.InputTokens, want)
	}
	if body := string(api.Requests()[2].Body); strings.Contains(body, "One") {
		t.Errorf("the thread sends %s", body)
	}
}

func TestThreadErrors(t *testing.T) {
	release, asked := make(chan struct{}), make(chan struct{}, 1)
	api := claudetest.New(t, claudetest.ModelFunc(func(_ context.Context, req *claudetest.Request) (claudetest.Turn, error) {
		if req.LastText() == "wait" {
			asked <- struct{}{}
			<-release
		}
		if req.LastText() == "fail" {
			return claudetest.Fail(claudetest.Overloaded()), nil
		}
		return claudetest.Say("All right."), nil
	}))
	client := api.Client()
	send := func(text string, change func(p *anthropic.BetaMessageNewParams)) (string, error) {
		p := params(userText(text))
		p.Betas = []anthropic.AnthropicBeta{anthropic.AnthropicBetaMessageThreads2026_08_12}
		change(&p)
		m, err := client.Beta.Messages.New(t.Context(), p)
		if err != nil {
			return "", err
		}
		return m.ID, nil
	}
	create := func(p *anthropic.BetaMessageNewParams) {
		p.Thread = anthropic.BetaMessageThreadParamUnion{OfCreate: &anthropic.BetaThreadCreateParams{}}
	}
	from := func(id string) func(p *anthropic.BetaMessageNewParams) {
		return func(p *anthropic.BetaMessageNewParams) { p.Thread = anthropic.BetaMessageThreadParamOfContinue(id) }
	}
	expect := func(what string, err error, code string) {
		t.Helper()
		if got := errorCode(t, err); got != code {
			t.Errorf("%s: error code %q, want %q", what, got, code)
		}
	}

	first, err := send("Hello", create)
	if err != nil {
		t.Fatal(err)
	}
	_, err = send("Hello", from("msg_unknown"))
	expect("unknown thread", err, "thread_not_found")
	_, err = send("Hello", func(p *anthropic.BetaMessageNewParams) { from(first)(p); p.Model = "claude-other" })
	expect("another model", err, "thread_fingerprint_mismatch")
	_, err = send("Hello", func(p *anthropic.BetaMessageNewParams) {
		from(first)(p)
		p.System = []anthropic.BetaTextBlockParam{{Text: "x"}}
	})
	expect("system sent again", err, "")
	_, err = send("fail", from(first)) // leaves the thread as it is
	expect("failure", err, "")

	second := make(chan error)
	go func() {
		_, err := send("wait", from(first))
		second <- err
	}()
	<-asked
	_, err = send("Hello", from(first))
	expect("in flight", err, "thread_continue_in_flight")
	close(release)
	if err := <-second; err != nil {
		t.Fatal(err)
	}
	_, err = send("Hello", from(first))
	expect("continued", err, "thread_already_continued")

	alone, err := send("Hello", func(*anthropic.BetaMessageNewParams) {})
	if err != nil {
		t.Fatal(err)
	}
	_, err = send("Hello", from(alone))
	expect("no thread", err, "thread_not_found")

	if r := post(t, api, "/v1/messages", `{"model":"m","max_tokens":1,"messages":[],"thread":{"type":"fork"}}`); r.status != 400 || !strings.Contains(r.errorMessage(t), "thread.type: Input should be 'create' or 'continue'") {
		t.Errorf("%d %s", r.status, r.body)
	}
	if r := post(t, api, "/v1/messages", `{"model":"m","max_tokens":1,"messages":[],"thread":{"type":"continue"}}`); r.errorMessage(t) != "thread.previous_message_id: Field required" {
		t.Errorf("%d %s", r.status, r.body)
	}
}

// A thread that is forgotten, and one that is not supported, make the runner send the whole history, and the agent does
// not notice.
func TestThreadIsLost(t *testing.T) {
	for _, tc := range []struct {
		name string
		opts []claudetest.Option
		lose func(*claudetest.API)
		want []int
	}{
		{"forgotten", nil, (*claudetest.API).ForgetThreads, []int{200, 404, 200}},
		{"unsupported", []claudetest.Option{claudetest.WithoutThreads("context_management")}, func(*claudetest.API) {}, []int{400, 200, 200}},
		{"unsupported once", nil, func(a *claudetest.API) { a.FailNext(1, claudetest.ThreadUnsupported("thinking")) }, []int{200, 400, 200}},
	} {
		for _, streaming := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, streaming %t", tc.name, streaming), func(t *testing.T) {
				api := claudetest.New(t, claudetest.Script(claudetest.Use(echo("x")), claudetest.Say("Done")), tc.opts...)
				last, err := runWith{streaming: streaming}.run(t, api, nil, func(_ runner, m *anthropic.BetaMessage) {
					if m.StopReason == "tool_use" {
						tc.lose(api)
					}
				})
				if err != nil {
					t.Fatal(err)
				}
				if last.Content[0].Text != "Done" {
					t.Errorf("the end is %s", last.RawJSON())
				}
				for i, r := range api.Requests() {
					if i >= len(tc.want) || r.Status != tc.want[i] {
						t.Errorf("request %d answered %d, want %v", i, r.Status, tc.want)
					}
				}
			})
		}
	}
}

// A message that was cut off is not part of its thread, and the one before can be continued again.
func TestThreadAfterCut(t *testing.T) {
	api := claudetest.New(t, claudetest.Script(
		claudetest.Say("One"), claudetest.Say("Two, but not all").Cut(5), claudetest.Say("Two"), claudetest.Say("Three"),
	))
	ids := []string{}
	for _, stream := range []bool{false, true, false, false} {
		thread := `{"type":"create"}`
		if len(ids) > 0 {
			thread = fmt.Sprintf(`{"type":"continue","previous_message_id":%q}`, ids[len(ids)-1])
		}
		body := fmt.Sprintf(`{"model":"m","max_tokens":9,"stream":%t,"thread":%s,"messages":[{"role":"user","content":"Hello"}]}`, stream, thread)
		r := post(t, api, "/v1/messages", body)
		if stream {
			if !r.cut {
				t.Error("the answer does not break off")
			}
			continue
		}
		var m struct{ ID string }
		if err := json.Unmarshal(r.body, &m); err != nil || r.status != 200 {
			t.Fatalf("%d %s", r.status, r.body)
		}
		ids = append(ids, m.ID)
	}
	if got := fmt.Sprint(ids); got != "[msg_1 msg_3 msg_4]" {
		t.Errorf("messages %s", got)
	}
}

// The response to a compaction request can be continued: the thread begins with the summary.
func TestThreadAfterCompaction(t *testing.T) {
	var saw string
	api := claudetest.New(t, claudetest.ModelFunc(func(_ context.Context, req *claudetest.Request) (claudetest.Turn, error) {
		saw = shown(req)
		return claudetest.Say("Short."), nil
	}))
	r := post(t, api, "/v1/messages", requestBody(join(uHello, aHello, uHello), `"compaction":{"type":"summarize"}`, `"thread":{"type":"create"}`))
	if r.status != 200 {
		t.Fatalf("%d %s", r.status, r.body)
	}
	r = post(t, api, "/v1/messages", `{"model":"m","max_tokens":1,"messages":[`+uHello+`],"thread":{"type":"continue","previous_message_id":"msg_1"}}`)
	if want := "assistant (Short.), user Hello"; r.status != 200 || saw != want {
		t.Errorf("%d %s, the model saw %q, want %q", r.status, r.body, saw, want)
	}
}
