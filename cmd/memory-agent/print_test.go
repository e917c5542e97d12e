package main

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/anthropics/anthropic-sdk-go/v2"
	"github.com/google/go-cmp/cmp"

	"github.com/seed-7f2870e1/memoryd/client/claudetest"
	memoryv1 "github.com/seed-7f2870e1/memoryd/gen/memoryd/v1"
	"github.com/seed-7f2870e1/memoryd/server/servertest"
)

// What a session prints, whatever the model and the memory have in them.
func TestPrinter(t *testing.T) {
	s := servertest.New(t)
	png := "\x89PNG\r\n\x1a\n"
	if _, err := s.Client.Put(t.Context(), &memoryv1.PutHeader{Path: "/memories/a.png"}, strings.NewReader(png)); err != nil {
		t.Fatal(err)
	}
	api := claudetest.New(t, claudetest.Script(
		claudetest.Say("Two\nlines.").With(claudetest.Text(" \n"), create("/memories/\u009b", "x")),
		claudetest.Say("\x1b[2J").With(view("/memories/a.png")),
		claudetest.Use(create("/memories/b", strings.Repeat("x", 9)), view("/memories/b")),
		claudetest.Use(call(toolRead, readInput{Name: strings.Repeat("long", 30)})),
		claudetest.Say("Done."),
	), claudetest.WithTokenCounter(func(string) int { return 0 }))
	a, out := newAgent(t, s.Client, api, "x")
	if err := a.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := "        new: a checklist and a progress log were laid down\n" +
		// An answer has a token at least, and an image is counted by itself.
		"turn 1 · 0 tokens in, 1 out\n" +
		"  Two\n  lines.\n" +
		"  memory create /memories/\ufffd ✗ Path contains invalid characters: \"/memories/\\u009b\"\n" +
		"turn 2 · 0 tokens in, 1 out\n" +
		"  \ufffd[2J\n" +
		"  memory view /memories/a.png → [an image]\n" +
		"turn 3 · 1334 tokens in, 1 out\n" +
		"  memory create /memories/b → File created successfully at: /memories/b\n" +
		"  memory view /memories/b → Here's the content of /memories/b with line number… (+1 line)\n" +
		"turn 4 · 1334 tokens in, 1 out\n" +
		"  read_document " + strings.Repeat("long", 25) + "… ✗ there is no document \"" + strings.Repeat("long", 30) +
		"\". Use a name as list_documents gives it\n" +
		"turn 5 · 1334 tokens in, 1 out\n" +
		"  Done.\n"
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Tools run at the same time; their calls are printed in the order of the blocks.
func TestPrinter_Order(t *testing.T) {
	var m anthropic.BetaMessage
	err := json.Unmarshal([]byte(`{"content":[
		{"type":"tool_use","id":"a","name":"f","input":{"name":"<1>"}},
		{"type":"tool_use","id":"b","name":"f","input":{"name":"2"}},
		{"type":"tool_use","id":"c","name":"f","input":{"name":"2"}},
		{"type":"tool_use","id":"d","name":"f","input":{"name":"4"}}]}`), &m)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	p := &printer{w: &out}
	done := func(input, answer string) { p.toolCall("f", json.RawMessage(input), answer, nil) }
	p.turn(&m)
	done(`{"name":"2"}`, "b")
	done(`{"name":"4"}`, "d")
	done(`{"name":"\u003c1\u003e"}`, "a") // as the runner gives it to the tool
	got := out.String()
	want := "turn 1 · 0 tokens in, 0 out\n  f <1> → a\n  f 2 → b\n"
	if got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	done(`{"name":"other"}`, "x")
	want += "  f other → x\n"
	p.turn(&m) // c was never done
	want += "  f 4 → d\nturn 2 · 0 tokens in, 0 out\n"
	done(`{"name":"4"}`, "d")
	p.flush()
	p.flush()
	want += "  f 4 → d\n"
	if got := out.String(); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// After an error nothing is written any more.
func TestPrinter_Fails(t *testing.T) {
	broken := errors.New("broken")
	p := &printer{w: errorWriter{broken}}
	p.printf("a")
	p.w = &strings.Builder{}
	p.printf("b")
	if got := p.w.(*strings.Builder).String(); got != "" || !errors.Is(p.failed(), broken) {
		t.Errorf("got %q, %v, want nothing and the error", got, p.failed())
	}
}
