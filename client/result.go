package client

import (
	"encoding/base64"
	"encoding/json"
	"strings"
	"unicode/utf8"

	memoryv1 "github.com/seed-7f2870e1/memoryd/gen/memoryd/v1"
)

// Result is what goes back to the model.
type Result struct {
	// IsError tells whether the command failed. Then nothing was changed, but for REASON_OUTCOME_UNKNOWN.
	IsError bool
	// Reason says why it failed; REASON_UNSPECIFIED on success.
	Reason memoryv1.Reason
	// Content is one text, or one image, or a text followed by a note.
	Content []*memoryv1.Content
}

// Text returns the texts of the result, one under the other; "" for an image.
func (r Result) Text() string {
	var texts []string
	for _, c := range r.Content {
		if text, ok := c.GetBlock().(*memoryv1.Content_Text); ok {
			texts = append(texts, text.Text)
		}
	}
	return strings.Join(texts, "\n")
}

// MarshalToolResult returns the tool_result block that answers the tool_use block with the given id: compact JSON with
// the keys type, tool_use_id, content and is_error, in this order, all always present. The content is a string where
// the result is one text, else a list of blocks. Only what JSON demands is escaped, so <, &, U+2028 and U+2029 stand
// for themselves; invalid UTF-8 becomes U+FFFD.
func MarshalToolResult(toolUseID string, r Result) json.RawMessage {
	b := []byte(`{"type":"tool_result","tool_use_id":`)
	b = appendString(b, toolUseID)
	b = append(b, `,"content":`...)
	b = appendContent(b, r.Content)
	b = append(b, `,"is_error":`...)
	if r.IsError {
		return append(b, `true}`...)
	}
	return append(b, `false}`...)
}

func appendContent(b []byte, content []*memoryv1.Content) []byte {
	if len(content) == 1 {
		if text, ok := content[0].GetBlock().(*memoryv1.Content_Text); ok {
			return appendString(b, text.Text)
		}
	}
	b = append(b, '[')
	open := len(b)
	for _, c := range content {
		if len(b) > open && c.GetBlock() != nil {
			b = append(b, ',')
		}
		switch block := c.GetBlock().(type) { // a kind of block that this version does not know is nil, and left out
		case *memoryv1.Content_Text:
			b = append(b, `{"type":"text","text":`...)
			b = appendString(b, block.Text)
			b = append(b, '}')
		case *memoryv1.Content_Image:
			b = append(b, `{"type":"image","source":{"type":"base64","media_type":`...)
			b = appendString(b, block.Image.GetMediaType())
			b = append(b, `,"data":"`...)
			b = base64.StdEncoding.AppendEncode(b, block.Image.GetData())
			b = append(b, `"}}`...)
		}
	}
	return append(b, ']')
}

// appendString appends s as a JSON string. It is here because encoding/json escapes U+2028 and U+2029 in any mode.
func appendString(b []byte, s string) []byte {
	const hex = "0123456789abcdef"
	b = append(b, '"')
	for _, r := range s { // an invalid byte is a U+FFFD
		switch {
		case r == '"' || r == '\\':
			b = append(b, '\\', byte(r))
		case r == '\n':
			b = append(b, `\n`...)
		case r == '\r':
			b = append(b, `\r`...)
		case r == '\t':
			b = append(b, `\t`...)
		case r == '\b':
			b = append(b, `\b`...)
		case r == '\f':
			b = append(b, `\f`...)
		case r < ' ':
			b = append(b, `\u00`...)
			b = append(b, hex[r>>4], hex[r&0xf])
		default:
			b = utf8.AppendRune(b, r)
		}
	}
	return append(b, '"')
}
