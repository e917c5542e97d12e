package memtest

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// ParseToolResult reads a tool_result block, as strictly as an agent may: the keys type, tool_use_id, content and
// is_error and no others, and content as a text or as a list of text and image blocks.
func ParseToolResult(block []byte, toolUseID string) (Result, error) {
	var parsed struct {
		Type      string          `json:"type"`
		ToolUseID string          `json:"tool_use_id"`
		Content   json.RawMessage `json:"content"`
		IsError   *bool           `json:"is_error"`
	}
	if err := decodeStrictly(block, &parsed); err != nil {
		return Result{}, fmt.Errorf("parse tool_result %.300q: %w", block, err)
	}
	if parsed.Type != "tool_result" || parsed.ToolUseID != toolUseID || parsed.IsError == nil {
		return Result{}, fmt.Errorf("not the tool_result of %s: %.300q", toolUseID, block)
	}
	result := Result{IsError: *parsed.IsError}
	if json.Unmarshal(parsed.Content, &result.Text) == nil {
		return result, nil
	}
	var blocks []struct {
		Type   string `json:"type"`
		Text   string `json:"text"`
		Source struct {
			Type      string `json:"type"`
			MediaType string `json:"media_type"`
			Data      []byte `json:"data"`
		} `json:"source"`
	}
	if err := decodeStrictly(parsed.Content, &blocks); err != nil {
		return Result{}, fmt.Errorf("parse content %.300q: %w", parsed.Content, err)
	}
	for _, b := range blocks {
		switch {
		case b.Type == "text":
			result.Text += b.Text
		case b.Type == "image" && b.Source.Type == "base64":
			result.Images = append(result.Images, Image{MediaType: b.Source.MediaType, Data: b.Source.Data})
		default:
			return Result{}, fmt.Errorf("unknown block in %.300q", parsed.Content)
		}
	}
	return result, nil
}

func decodeStrictly(data []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	return d.Decode(v)
}
