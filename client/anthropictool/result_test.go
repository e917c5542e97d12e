package anthropictool

import (
	"encoding/json"
	"testing"

	"github.com/anthropics/anthropic-sdk-go/v2"
	"github.com/google/go-cmp/cmp"

	"github.com/seed-7f2870e1/memoryd/client"
	memoryv1 "github.com/seed-7f2870e1/memoryd/gen/memoryd/v1"
)

func text(s string) *memoryv1.Content {
	return &memoryv1.Content{Block: &memoryv1.Content_Text{Text: s}}
}

func image(mediaType, data string) *memoryv1.Content {
	return &memoryv1.Content{Block: &memoryv1.Content_Image{
		Image: &memoryv1.Image{MediaType: mediaType, Data: []byte(data)},
	}}
}

// Every kind of result, as a tool_result block of both families of types, and as what a runner makes of it.
func TestResults(t *testing.T) {
	const imageBlock = `{"type":"image","source":{"type":"base64","media_type":"image/png","data":"iVBOR//+"}}`
	for _, tt := range []struct {
		name    string
		result  client.Result
		content string // of the tool_result block
		err     string // what Execute returns, if it is an error
	}{
		{
			name:    "text",
			result:  client.Result{Content: []*memoryv1.Content{text("<b>&amp; \"q\" \\ \x00\t\r\n é 😀 \u2028")}},
			content: `[{"type":"text","text":"<b>&amp; \"q\" \\ \u0000\t\r\n é 😀 \u2028"}]`,
		},
		{
			name:    "text and note",
			result:  client.Result{Content: []*memoryv1.Content{text("The file /memories/a has been edited."), text("Note: b")}},
			content: `[{"type":"text","text":"The file /memories/a has been edited."},{"type":"text","text":"Note: b"}]`,
		},
		{
			name:    "image",
			result:  client.Result{Content: []*memoryv1.Content{image("image/png", "\x89PNG\xff\xfe")}},
			content: `[` + imageBlock + `]`,
		},
		{
			name:    "image and text",
			result:  client.Result{Content: []*memoryv1.Content{image("image/png", "\x89PNG\xff\xfe"), text("x")}},
			content: `[` + imageBlock + `,{"type":"text","text":"x"}]`,
		},
		{
			name:    "kinds that are not known",
			result:  client.Result{Content: []*memoryv1.Content{{}, text("a"), nil}},
			content: `[{"type":"text","text":"a"}]`,
		},
		{
			name:    "error",
			result:  client.Result{IsError: true, Content: []*memoryv1.Content{text("Error: The path /memories/a does not exist")}},
			content: `[{"type":"text","text":"Error: The path /memories/a does not exist"}]`,
			err:     "The path /memories/a does not exist",
		},
		{
			name:    "error without a prefix",
			result:  client.Result{IsError: true, Content: []*memoryv1.Content{text("No replacement was performed.")}},
			content: `[{"type":"text","text":"No replacement was performed."}]`,
			err:     "No replacement was performed.",
		},
		{
			name:    "error that speaks of one",
			result:  client.Result{IsError: true, Content: []*memoryv1.Content{text("Error: Error: x")}},
			content: `[{"type":"text","text":"Error: Error: x"}]`,
			err:     "Error: x",
		},
		{
			name:    "error with a prefix in the middle, and a note",
			result:  client.Result{IsError: true, Content: []*memoryv1.Content{text("No. Error: x"), text("Error: y")}},
			content: `[{"type":"text","text":"No. Error: x"},{"type":"text","text":"Error: y"}]`,
			err:     "No. Error: x\nError: y",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			isError := "false"
			if tt.result.IsError {
				isError = "true"
			}
			want := `{"type":"tool_result","tool_use_id":"toolu_1","is_error":` + isError + `,"content":` + tt.content + `}`
			checkJSON(t, toolResult("toolu_1", tt.result), want)
			checkJSON(t, betaToolResult("toolu_1", tt.result), want)

			content, err := runnerResult(tt.result)
			if tt.err != "" {
				if err == nil || err.Error() != tt.err || content != nil {
					t.Errorf("got %v, %v, want the error %q", content, err, tt.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			checkJSON(t, content, tt.content)
		})
	}
}

// checkJSON checks how a value goes on the wire.
func checkJSON(t *testing.T, value any, want string) {
	t.Helper()
	data, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(decode(t, []byte(want)), decode(t, data)); diff != "" {
		t.Errorf("%T (-want +got):\n%s", value, diff)
	}
}

func decode(t *testing.T, data []byte) (value any) {
	t.Helper()
	if err := json.Unmarshal(data, &value); err != nil {
		t.Fatalf("%s: %v", data, err)
	}
	return value
}

// The input of a beta block is what was sent, unless the program has changed it since.
func TestBetaInput(t *testing.T) {
	var block anthropic.BetaToolUseBlock
	sent := `{ "view_range" : [1.0, 1e1], "path":"/memories/\u003c", "path":"/memories/a" }`
	if err := json.Unmarshal([]byte(memoryCall("a", sent)), &block); err != nil {
		t.Fatal(err)
	}
	if got := betaInput(block); string(got) != sent {
		t.Errorf("got %s, want %s", got, sent)
	}
	block.Input = map[string]any{"command": "view"}
	if got, want := string(betaInput(block)), `{"command":"view"}`; got != want {
		t.Errorf("changed: got %s, want %s", got, want)
	}
	made := anthropic.BetaToolUseBlock{ID: "a", Input: json.RawMessage(`{"command":"view"}`)}
	if got, want := string(betaInput(made)), `{"command":"view"}`; got != want {
		t.Errorf("made: got %s, want %s", got, want)
	}
	made.Input = func() {}
	if got := betaInput(made); got != nil {
		t.Errorf("no JSON: got %s, want nothing", got)
	}
}
