package claudetest_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/anthropics/anthropic-sdk-go/v2"

	"github.com/seed-7f2870e1/memoryd/client/claudetest"
)

const helloStream = `{"model":"claude-x","max_tokens":10,"stream":true,"messages":[{"role":"user","content":"Hello"}],` +
	`"tools":[{"name":"look","input_schema":{"type":"object"}}],"context_management":{"edits":[]}}`

// The events of a message, byte for byte.
func TestStreamEvents(t *testing.T) {
	api := claudetest.New(t, claudetest.Script(
		claudetest.Say("Grüße!").With(claudetest.CallWithID("toolu_a", "look", json.RawMessage(`{"q": "\u00fc\n"}`))),
	), claudetest.WithTokenCounter(countBytes))
	r := post(t, api, "/v1/messages", helloStream)
	const tokens = `"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"cache_creation":{"ephemeral_1h_input_tokens":0,"ephemeral_5m_input_tokens":0},"service_tier":"standard"`
	want := `event: message_start
data: {"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"claude-x","content":[],"stop_reason":null,"stop_sequence":null,"stop_details":null,"container":null,"usage":{"input_tokens":53,"output_tokens":1,` + tokens + `}}}

event: content_block_start
data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}

event: ping
data: {"type":"ping"}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Grü"}}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"ße!"}}

event: content_block_stop
data: {"type":"content_block_stop","index":0}

event: content_block_start
data: {"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"toolu_a","name":"look","input":{}}}

event: content_block_delta
data: {"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":""}}

event: content_block_delta
data: {"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"{\"q"}}

event: content_block_delta
data: {"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"\": \"\\u"}}

event: content_block_delta
data: {"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"0"}}

event: content_block_delta
data: {"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"0fc"}}

event: content_block_delta
data: {"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"\\n\"}"}}

event: content_block_stop
data: {"type":"content_block_stop","index":1}

event: message_delta
data: {"type":"message_delta","delta":{"stop_reason":"tool_use","stop_sequence":null,"stop_details":null,"container":null},"usage":{"input_tokens":53,"output_tokens":29,` + tokens + `},"context_management":{"applied_edits":[]}}

event: message_stop
data: {"type":"message_stop"}

`
	if got := string(r.body); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if got := r.header.Get("content-type"); !strings.HasPrefix(got, "text/event-stream") {
		t.Errorf("content-type %q", got)
	}
}

// Inputs arrive byte for byte, whatever is in them and however long they are.
func TestStreamedInputs(t *testing.T) {
	inputs := []string{
		`{}`,
		`{"a":1}`,
		`{"a":"\\u00fc"}`,
		`{"path":"/memories/ä","file_text":"\ud83d\ude00 \u0000 <&>\u2028"}`,
		`{"file_text":"` + strings.Repeat(`日本 \"\u00e9\" \n`, 4000) + `"}`,
	}
	var turns []claudetest.Turn
	for _, input := range inputs {
		turns = append(turns, claudetest.Use(claudetest.Call("look", json.RawMessage(input))))
	}
	api := claudetest.New(t, claudetest.Script(turns...))
	client := api.Client()
	p := params(userText("Hello"))
	p.Tools = []anthropic.BetaToolUnionParam{toolParam("look")}
	for _, want := range inputs {
		s := client.Beta.Messages.NewStreaming(t.Context(), p)
		var got strings.Builder
		pieces := 0
		for s.Next() {
			delta, ok := s.Current().AsAny().(anthropic.BetaRawContentBlockDeltaEvent)
			if !ok {
				continue
			}
			if piece := delta.Delta.PartialJSON; piece != "" {
				pieces++
				got.WriteString(piece)
				if !utf8.ValidString(piece) || strings.ContainsRune(piece, utf8.RuneError) {
					t.Errorf("a character is cut: %q", piece)
				}
			}
		}
		if err := s.Close(); err != nil || s.Err() != nil {
			t.Fatal(err, s.Err())
		}
		if got.String() != want {
			t.Errorf("an input of %d bytes came as %d bytes", len(want), got.Len())
		}
		if pieces < 2 && len(want) > 3 {
			t.Errorf("an input of %d bytes came in %d pieces", len(want), pieces)
		}
	}
}

// The stream ends where it is cut, at every event that there is.
func TestStreamIsCut(t *testing.T) {
	turn := claudetest.Say("One two three").With(claudetest.Call("look", map[string]int{"n": 1}))
	whole := claudetest.New(t, claudetest.Script(turn))
	events := strings.Count(string(post(t, whole, "/v1/messages", helloStream).body), "event: ")

	for n := 1; n <= events; n++ {
		cut, failed := turn.Cut(n), turn.Cut(n)
		overloaded := claudetest.Overloaded()
		failed.Failure = &overloaded
		api := claudetest.New(t, claudetest.Script(cut, failed))
		client := api.Client()
		p := params(userText("Hello"))
		p.Tools = []anthropic.BetaToolUnionParam{toolParam("look")}
		for _, fails := range []bool{false, true} {
			s := client.Beta.Messages.NewStreaming(t.Context(), p)
			got, stopped := 0, false
			for s.Next() {
				got++
				stopped = s.Current().Type == "message_stop"
			}
			err := s.Err()
			_ = s.Close()
			if n == events { // nothing is left to be cut off
				if err != nil || !stopped {
					t.Errorf("cut after all events: %v", err)
				}
				continue
			}
			if stopped || err == nil {
				t.Errorf("cut after %d of %d events: %d events, stopped %t, error %v", n, events, got, stopped, err)
			}
			if strings.Contains(err.Error(), "overloaded_error") != fails {
				t.Errorf("cut after %d events: error %v", n, err)
			}
		}
	}
}

// A turn that is cut off, asked for without a stream.
func TestAnswerIsCut(t *testing.T) {
	failed := claudetest.Say("One").Cut(1)
	overloaded := claudetest.Overloaded()
	failed.Failure = &overloaded
	api := claudetest.New(t, claudetest.Script(claudetest.Say("One").Cut(1), failed))
	client := api.Client()
	_, err := client.Beta.Messages.New(t.Context(), params(userText("Hello")))
	var apiErr *anthropic.Error
	if err == nil || errors.As(err, &apiErr) {
		t.Errorf("a connection that is closed gives %v", err)
	}
	_, err = client.Beta.Messages.New(t.Context(), params(userText("Hello")))
	if !errors.As(err, &apiErr) || apiErr.StatusCode != 529 {
		t.Errorf("got %v", err)
	}
	if r := api.Requests(); r[0].Status != 0 || r[1].Status != 529 {
		t.Errorf("recorded %d and %d", r[0].Status, r[1].Status)
	}
}

// A runner ends where its stream is cut. Another one goes on from its messages.
func TestRunnerAfterCut(t *testing.T) {
	for _, disableThread := range []bool{false, true} {
		api := claudetest.New(t, claudetest.Script(
			claudetest.Use(echo("one")),
			claudetest.Say("Cut").With(echo("two")).Cut(4),
			claudetest.Use(echo("two")),
			claudetest.Say("Done"),
		))
		client := api.Client()
		p := runnerParams(disableThread)
		first := client.Beta.Messages.NewToolRunnerStreaming([]anthropic.BetaTool{echoTool{}}, p)
		for first.Err() == nil {
			for range first.NextStreaming(t.Context()) { // to its end
			}
		}
		p.Messages = first.Messages()
		last, err := client.Beta.Messages.NewToolRunner([]anthropic.BetaTool{echoTool{}}, p).RunToCompletion(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if last.Content[0].Text != "Done" {
			t.Errorf("the end is %s", last.RawJSON())
		}
	}
}

// A block that was given as JSON of several lines is an event of one.
func TestRawOfSeveralLines(t *testing.T) {
	for name, newline := range map[string]string{"LF": "\n", "CRLF": "\r\n", "CR": "\r"} {
		t.Run(name, func(t *testing.T) {
			block := strings.ReplaceAll("{\n  \"type\": \"text\",\n  \"text\": \"Two\\nlines <&>\"\n}", "\n", newline)
			block = strings.ReplaceAll(block, "\\"+newline, "\\n")
			api := claudetest.New(t, claudetest.Script(claudetest.Turn{Content: []claudetest.Block{claudetest.Text("One"), claudetest.Raw(block)}}))
			m, err := stream(t, api.Client(), params(userText("Hello")))
			if err != nil {
				t.Fatal(err)
			}
			if len(m.Content) != 2 || m.Content[1].Text != "Two\nlines <&>" || m.StopReason != "end_turn" {
				t.Errorf("got %s", m.RawJSON())
			}
		})
	}
}
