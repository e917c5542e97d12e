package client

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	memoryv1 "github.com/seed-7f2870e1/memoryd/gen/memoryd/v1"
)

func imageContent(mediaType string, data []byte) *memoryv1.Content {
	return &memoryv1.Content{Block: &memoryv1.Content_Image{Image: &memoryv1.Image{MediaType: mediaType, Data: data}}}
}

func TestMarshalToolResult(t *testing.T) {
	image := imageContent("image/png", []byte("\x89PNG\xff\xfe"))
	for _, tt := range []struct {
		name, id string
		result   Result
		want     string
		text     string // of Result.Text
	}{
		{
			"text", "toolu_1",
			Result{Content: textContent("File created successfully at: /memories/a")},
			`{"type":"tool_result","tool_use_id":"toolu_1","content":"File created successfully at: /memories/a",` +
				`"is_error":false}`,
			"File created successfully at: /memories/a",
		},
		{
			"error", "toolu_1",
			Result{IsError: true, Content: textContent("Error: no")},
			`{"type":"tool_result","tool_use_id":"toolu_1","content":"Error: no","is_error":true}`,
			"Error: no",
		},
		{
			"empty text", "1",
			Result{Content: textContent("")},
			`{"type":"tool_result","tool_use_id":"1","content":"","is_error":false}`, "",
		},
		{
			"text and note", "1",
			Result{Content: textContent("done", "Note: look")},
			`{"type":"tool_result","tool_use_id":"1","content":[{"type":"text","text":"done"},` +
				`{"type":"text","text":"Note: look"}],"is_error":false}`,
			"done\nNote: look",
		},
		{
			"image", "1",
			Result{Content: []*memoryv1.Content{image}},
			`{"type":"tool_result","tool_use_id":"1","content":[{"type":"image","source":{"type":"base64",` +
				`"media_type":"image/png","data":"iVBOR//+"}}],"is_error":false}`,
			"",
		},
		{
			"image and text", "1",
			Result{Content: append([]*memoryv1.Content{image}, textContent("x")...)},
			`{"type":"tool_result","tool_use_id":"1","content":[{"type":"image","source":{"type":"base64",` +
				`"media_type":"image/png","data":"iVBOR//+"}},{"type":"text","text":"x"}],"is_error":false}`,
			"x",
		},
		{
			"unknown blocks", "1",
			Result{Content: []*memoryv1.Content{{}, textContent("a")[0], nil, textContent("b")[0]}},
			`{"type":"tool_result","tool_use_id":"1","content":[{"type":"text","text":"a"},` +
				`{"type":"text","text":"b"}],"is_error":false}`,
			"a\nb",
		},
		{
			"nothing", "",
			Result{},
			`{"type":"tool_result","tool_use_id":"","content":[],"is_error":false}`, "",
		},
		{
			"escapes", `<&>"\/` + "\u2028",
			Result{Content: textContent("<b>&amp; \"q\" \\ / \x00\x1f\b\f\n\r\t\x7f é 😀 \u2028\u2029\xff")},
			`{"type":"tool_result","tool_use_id":"<&>\"\\/` + "\u2028" + `","content":"<b>&amp; \"q\" \\ / ` +
				`\u0000\u001f\b\f\n\r\t` + "\x7f é 😀 \u2028\u2029\uFFFD" + `","is_error":false}`,
			"<b>&amp; \"q\" \\ / \x00\x1f\b\f\n\r\t\x7f é 😀 \u2028\u2029\xff",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := MarshalToolResult(tt.id, tt.result)
			if diff := cmp.Diff(tt.want, string(got)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if !json.Valid(got) {
				t.Error("not valid JSON")
			}
			if got := tt.result.Text(); got != tt.text {
				t.Errorf("Text() = %q, want %q", got, tt.text)
			}
		})
	}
}

// appendString escapes what encoding/json escapes, but for U+2028 and U+2029.
func FuzzAppendString(f *testing.F) {
	f.Add("plain")
	f.Add("\x00\x1f\b\f\n\r\t\x7f\"\\/<>&\ufffd\xff\\u2028")
	f.Add("\u2028\u2029\xff")
	f.Fuzz(func(t *testing.T, s string) {
		got := appendString(nil, s)
		s = string([]rune(s)) // every invalid byte becomes a U+FFFD

		var back string
		if err := json.Unmarshal(got, &back); err != nil || back != s {
			t.Errorf("%s is read as %q, %v, want %q", got, back, err, s)
		}
		if strings.ContainsAny(s, "\u2028\u2029") {
			return
		}
		var want bytes.Buffer
		e := json.NewEncoder(&want)
		e.SetEscapeHTML(false)
		if err := e.Encode(s); err != nil {
			t.Fatal(err)
		}
		if string(got)+"\n" != want.String() {
			t.Errorf("appendString(%q) = %s, want %s", s, got, want.String())
		}
	})
}

// Any bytes give valid JSON or an error, and nothing panics.
func FuzzMarshalToolResult(f *testing.F) {
	f.Add([]byte(`{"type":"tool_use","id":"toolu_1","name":"memory","input":{"command":"view"}}`), "<&>\xff", true)
	f.Add([]byte(`{"type":"tool_use","id":"toolu_1"}`), "", false)
	f.Add([]byte(`{"type":"tool_use","id":"\ud800","input":"{}"}`), "\u2028", false)
	f.Add([]byte(`[]`), "\x00", true)
	f.Fuzz(func(t *testing.T, block []byte, text string, isError bool) {
		id, _, err := parseToolUse(block)
		if (err == nil) != (id != "") {
			t.Fatalf("parseToolUse(%q) = %q, %v", block, id, err)
		}
		content := append(textContent(text), imageContent(text, block))
		got := MarshalToolResult(id, Result{IsError: isError, Content: content})
		var back struct {
			Type      string            `json:"type"`
			ToolUseID string            `json:"tool_use_id"`
			Content   []json.RawMessage `json:"content"`
			IsError   bool              `json:"is_error"`
		}
		if err := json.Unmarshal(got, &back); err != nil {
			t.Fatalf("%s: %v", got, err)
		}
		if back.Type != "tool_result" || back.ToolUseID != id || len(back.Content) != 2 || back.IsError != isError {
			t.Errorf("got %s of id %q, is_error %v", got, id, isError)
		}
	})
}
