package transcript

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/anthropics/anthropic-sdk-go/v2"
	"github.com/google/go-cmp/cmp"
)

const header = `{"type":"header","version":1,"model":"claude-test","system":[{"text":"Be brief.","type":"text"}]}` + "\n"

// answer makes a response of the API.
func answer(t *testing.T, raw string) *anthropic.BetaMessage {
	t.Helper()
	m := &anthropic.BetaMessage{}
	if err := json.Unmarshal([]byte(raw), m); err != nil {
		t.Fatal(err)
	}
	return m
}

const (
	firstAnswer = `{"id":"msg_1","type":"message","role":"assistant","model":"claude-test","content":[` +
		`{"type":"text","text":"Let me see."},{"type":"tool_use","id":"toolu_1","name":"search","input":{"query":"a < b"}}],` +
		`"stop_reason":"tool_use","usage":{"input_tokens":10,"cache_read_input_tokens":200,"cache_creation_input_tokens":3000,"output_tokens":7}}`
	lastAnswer = `{"id":"msg_2","type":"message","role":"assistant","model":"claude-test","content":[{"type":"text","text":"Done."}],` +
		`"stop_reason":"end_turn","usage":{"input_tokens":3333,"output_tokens":2},` +
		`"context_management":{"applied_edits":[{"type":"clear_tool_uses_20250919","cleared_tool_uses":1,"cleared_input_tokens":40}]}}`
)

func user(text string) anthropic.BetaMessageParam {
	return anthropic.NewBetaUserMessage(anthropic.NewBetaTextBlock(text))
}

func result(id, text string) anthropic.BetaMessageParam {
	block := anthropic.NewBetaToolResultTextBlockParam(id, text, false)
	return anthropic.NewBetaUserMessage(anthropic.BetaContentBlockParamUnion{OfToolResult: &block})
}

func newWriter(t *testing.T, out *bytes.Buffer) *Writer {
	t.Helper()
	w, err := NewWriter(out, anthropic.BetaMessageNewParams{
		Model:  "claude-test",
		System: []anthropic.BetaTextBlockParam{{Text: "Be brief."}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func read(t *testing.T, text string) *Transcript {
	t.Helper()
	got, err := Read(strings.NewReader(text))
	if err != nil {
		t.Fatalf("Read: %v\n%s", err, text)
	}
	return got
}

func TestRoundTrip(t *testing.T) {
	first, last := answer(t, firstAnswer), answer(t, lastAnswer)
	var out bytes.Buffer
	w := newWriter(t, &out)

	history := []anthropic.BetaMessageParam{user("What is known?")}
	if err := w.Call(history, first); err != nil {
		t.Fatal(err)
	}
	// As a tool runner has it: with the answer at the end.
	history = append(history, first.ToParam(), result("toolu_1", "much"), last.ToParam())
	if err := w.Call(history, last); err != nil {
		t.Fatal(err)
	}

	want := header +
		`{"type":"call","messages":[{"content":[{"text":"What is known?","type":"text"}],"role":"user"}],"response":` + firstAnswer + "}\n" +
		`{"type":"call","messages":[{"content":[{"tool_use_id":"toolu_1","content":[{"text":"much","type":"text"}],"type":"tool_result"}],"role":"user"}],"response":` + lastAnswer + "}\n"
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Fatalf("lines differ (-want +got)\n%s", diff)
	}

	got := read(t, out.String())
	if got.Model != "claude-test" || !strings.Contains(string(got.System), "Be brief.") || len(got.Calls) != 2 {
		t.Fatalf("got %+v", got)
	}
	one, two := got.Calls[0], got.Calls[1]
	if one.Line != 2 || two.Line != 3 || one.Reset || two.Reset {
		t.Errorf("got lines %d and %d, reset %t and %t", one.Line, two.Line, one.Reset, two.Reset)
	}
	call := one.Response.Content[1]
	if call.Type != "tool_use" || call.ID != "toolu_1" || call.Name != "search" {
		t.Errorf("got call %+v", call)
	}
	var input struct{ Query string }
	if err := json.Unmarshal(call.Input, &input); err != nil || input.Query != "a < b" {
		t.Errorf("got input %s, error %v", call.Input, err)
	}
	if id := two.Messages[0].Content[0].ToolUseID; id != "toolu_1" {
		t.Errorf("got result of %q, want that of toolu_1", id)
	}
	if got, want := one.Response.Usage.Prompt(), 3210; got != want {
		t.Errorf("got prompt of %d tokens, want %d", got, want)
	}
	if got, want := two.Response.OriginalPrompt(), 3373; got != want {
		t.Errorf("got prompt of %d tokens before edits, want %d", got, want)
	}
}

func TestCall_ReplacedHistory(t *testing.T) {
	first, last := answer(t, firstAnswer), answer(t, lastAnswer)
	var out bytes.Buffer
	w := newWriter(t, &out)
	if err := w.Call([]anthropic.BetaMessageParam{user("What is known?")}, first); err != nil {
		t.Fatal(err)
	}
	// As long as the conversation that was written, but another.
	if err := w.Call([]anthropic.BetaMessageParam{user("A summary."), user("Go on.")}, last); err != nil {
		t.Fatal(err)
	}
	if err := w.Call([]anthropic.BetaMessageParam{user("A summary."), user("Go on."), last.ToParam(), user("And?")}, answer(t, lastAnswer)); err != nil {
		t.Fatal(err)
	}
	got := read(t, out.String()).Calls
	for i, want := range []struct {
		reset    bool
		messages int
	}{{false, 1}, {true, 2}, {false, 1}} {
		if got[i].Reset != want.reset || len(got[i].Messages) != want.messages {
			t.Errorf("call %d: got reset %t and %d messages, want %t and %d", i, got[i].Reset, len(got[i].Messages), want.reset, want.messages)
		}
	}
}

func TestCall_Fails(t *testing.T) {
	w := newWriter(t, &bytes.Buffer{})
	if err := w.Call([]anthropic.BetaMessageParam{user("Hello.")}, &anthropic.BetaMessage{}); err == nil {
		t.Error("Call took a response that was not from the API")
	}
	if err := w.Call(nil, answer(t, lastAnswer)); err == nil {
		t.Error("Call took an empty history")
	}
	full := errors.New("disk full")
	if _, err := NewWriter(brokenWriter{full}, anthropic.BetaMessageNewParams{}); !errors.Is(err, full) {
		t.Errorf("NewWriter: got error %v, want %v", err, full)
	}
	w.lines = json.NewEncoder(brokenWriter{full})
	if err := w.Call([]anthropic.BetaMessageParam{user("Hello.")}, answer(t, lastAnswer)); !errors.Is(err, full) {
		t.Errorf("Call: got error %v, want %v", err, full)
	}
}

type brokenWriter struct{ err error }

func (w brokenWriter) Write([]byte) (int, error) { return 0, w.err }

const (
	hello  = `"messages":[{"role":"user","content":"Hello."}]`
	usage  = `"usage":{"input_tokens":5}`
	good   = `{"type":"call",` + hello + `,"response":{"content":[{"type":"text","text":"Hi."}],` + usage + `}}` + "\n"
	asking = `{"type":"call",` + hello + `,"response":{"content":[{"type":"tool_use","id":"a","name":"f","input":{}}],` + usage + `}}` + "\n"
)

func TestRead_Tolerant(t *testing.T) {
	text := `{"type":"header","version":1,"model":"m","color":"red"}` + "\r\n\n" +
		`{"type":"call","mood":{"x":1},"messages":[{"role":"user","content":"Hello.","x":[]}],` +
		`"response":{"content":[{"type":"new_kind","x":1}],"usage":{"input_tokens":5,"x":2},"context_management":null}}` + "\n  \n"
	got := read(t, text)
	if len(got.Calls) != 1 || got.Calls[0].Line != 3 {
		t.Fatalf("got %+v", got)
	}
	if b := got.Calls[0].Response.Content[0]; b.Type != "new_kind" || string(b.Raw) != `{"type":"new_kind","x":1}` {
		t.Errorf("got block %+v", b)
	}
	if b := got.Calls[0].Messages[0].Content; len(b) != 1 || b[0].Type != "text" {
		t.Errorf("got content %+v, want one text", b)
	}
}

// Of a run that was killed, all calls but the one that was being written can be used.
func TestRead_CutOff(t *testing.T) {
	for end := range good {
		got := read(t, header+good+"\n"+good[:end])
		want := 4
		if end == 0 || end == len(good)-1 { // without its newline it is whole nevertheless
			want = 0
		}
		calls := 1
		if end == len(good)-1 {
			calls = 2
		}
		if got.CutOff != want || len(got.Calls) != calls {
			t.Errorf("%q: got %d calls, and line %d cut off, want %d and %d", good[:end], len(got.Calls), got.CutOff, calls, want)
		}
	}
}

func TestRead_Compaction(t *testing.T) {
	got := read(t, header+`{"type":"call",`+hello+`,"response":{"content":[{"type":"compaction","content":"x"}],"usage":{"input_tokens":0}}}`+"\n"+good)
	if prompt := got.Calls[0].Response.Usage.Prompt(); prompt != 0 {
		t.Errorf("got prompt of %d tokens, want none", prompt)
	}
}

func TestRead_Fails(t *testing.T) {
	for _, test := range []struct{ name, text, want string }{
		{"nothing", "", "the transcript is empty"},
		{"blanks", "\n \n", "the transcript is empty"},
		{"header only", header, "the transcript has no calls of the API, only a header"},
		{"something else", `{"name":"x"}` + "\n", `line 1: is of type "", but a transcript begins with a header: is this one?`},
		{"no header", good, `line 1: is of type "call", but a transcript begins with a header: is this one?`},
		{"not JSON", "hello\n", "line 1: is not valid JSON: invalid character 'h' looking for beginning of value"},
		{"two headers", header + header, "line 2: is a second header: a transcript has one run"},
		{"no version", `{"type":"header"}` + "\n", "line 1: is of version 0, want 1"},
		{"newer", `{"type":"header","version":2}` + "\n", "line 1: is of version 2; this memory-agent reads version 1: use a newer one"},
		{"another line", header + "\n" + `{"type":"note"}` + "\n", `line 3: is of type "note", want call`},
		{"header cut off", header[:20], "the transcript is empty"},
		{"first call cut off", header + good[:40], "the transcript has no calls of the API, only a header"},
		{"cut off in between", header + good[:40] + "\n" + good, "line 2: is not valid JSON: unexpected end of JSON input"},
		{"not JSON, and not cut off", header + good + "hello\n", "line 3: is not valid JSON: invalid character 'h' looking for beginning of value"},
		{"no messages", header + `{"type":"call","response":{` + usage + `}}` + "\n", "line 2: the call has no messages"},
		{"no response", header + `{"type":"call",` + hello + "}\n", "line 2: the call has no response"},
		{"no usage", header + `{"type":"call",` + hello + `,"response":{}}` + "\n", "line 2: the response has no usage: it does not say how many tokens the prompt had"},
		{"negative", header + `{"type":"call",` + hello + `,"response":{"usage":{"input_tokens":-5}}}` + "\n", "line 2: the response counts -5 tokens, which cannot be"},
		{"too many", header + `{"type":"call",` + hello + `,"response":{"usage":{"input_tokens":5000000000}}}` + "\n", "line 2: the response counts 5000000000 tokens, which cannot be"},
		{
			"negative edit",
			header + `{"type":"call",` + hello + `,"response":{` + usage + `,"context_management":{"applied_edits":[{"cleared_input_tokens":-1}]}}}` + "\n",
			"line 2: the response counts -1 tokens, which cannot be",
		},
		{"wrong type", header + `{"type":"call","messages":7}` + "\n", "line 2: messages is a number, which it cannot be"},
		{"wrong content", header + `{"type":"call","messages":[{"role":"user","content":7}]}` + "\n", "line 2: content is neither a string nor a list of blocks"},
		{"untyped block", header + `{"type":"call","messages":[{"role":"user","content":[{}]}]}` + "\n", "line 2: content: a block has no type"},
		{"block of a number", header + `{"type":"call","messages":[{"role":"user","content":[7]}]}` + "\n", "line 2: content: the value is a number, which it cannot be"},
		{"role", header + strings.Replace(good, `"user"`, `"tool"`, 1), `line 2: a message has the role "tool", want user, assistant or system`},
		{"call without id", header + strings.Replace(asking, `"id":"a",`, "", 1), "line 2: response: a tool_use block has no id or no name"},
		{"same id", header + asking + asking, `line 3: response: a second tool_use block has the id "a"`},
		{
			"result of nothing",
			header + strings.Replace(good, `"Hello."`, `[{"type":"tool_result","tool_use_id":"b"}]`, 1),
			`line 2: a tool_result block answers "b", but there is no such tool_use block before`,
		},
		{
			"two results",
			header + asking + strings.Replace(good, `"Hello."`, `[{"type":"tool_result","tool_use_id":"a"},{"type":"tool_result","tool_use_id":"a"}]`, 1),
			`line 3: a second tool_result block answers "a"`,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := Read(strings.NewReader(test.text))
			if err == nil || err.Error() != test.want {
				t.Errorf("got error %v\nwant %s", err, test.want)
			}
		})
	}
}

func TestRead_LongLine(t *testing.T) {
	long := header + `{"type":"call","x":"` + strings.Repeat("x", MaxLineBytes) + `"}` + "\n"
	_, err := Read(strings.NewReader(long))
	if want := "line 2: has more than 67108864 bytes"; err == nil || err.Error() != want {
		t.Errorf("got error %v, want %s", err, want)
	}
}

func TestRead_BrokenReader(t *testing.T) {
	broken := errors.New("broken")
	_, err := Read(brokenReader{broken})
	if !errors.Is(err, broken) {
		t.Errorf("got error %v, want %v", err, broken)
	}
}

type brokenReader struct{ err error }

func (r brokenReader) Read([]byte) (int, error) { return 0, r.err }

// FuzzRead: whatever the text, Read does not panic, an error says where, and what is read can be relied on.
func FuzzRead(f *testing.F) {
	f.Add(header + good + good)
	f.Add(header + asking + strings.Replace(good, `"Hello."`, `[{"type":"tool_result","tool_use_id":"a","content":[]}]`, 1))
	f.Add(header + strings.Replace(good, `{"type":"call",`, `{"type":"call","reset":true,`, 1))
	f.Add(header + strings.Replace(good, `"text","text":"Hi."}],"usage":{"input_tokens":5`, `"compaction"}],"usage":{"input_tokens":0`, 1))
	f.Add(header + good[:50])
	f.Add(`{"type":"header","version":99}` + "\n")
	f.Add("\x00\n\xff")
	f.Fuzz(func(t *testing.T, text string) {
		got, err := Read(strings.NewReader(text))
		if err != nil {
			if !strings.HasPrefix(err.Error(), "line ") && !strings.HasPrefix(err.Error(), "the transcript ") {
				t.Errorf("the error does not say where: %v", err)
			}
			return
		}
		if len(got.Calls) == 0 {
			t.Error("no calls and no error")
		}
		line := 1
		for _, c := range got.Calls {
			if c.Line <= line {
				t.Errorf("line %d after line %d", c.Line, line)
			}
			line = c.Line
			if len(c.Messages) == 0 || c.Response.Usage.Prompt() < 0 || c.Response.OriginalPrompt() < c.Response.Usage.Prompt() {
				t.Errorf("line %d: got %+v", c.Line, c)
			}
		}
	})
}
