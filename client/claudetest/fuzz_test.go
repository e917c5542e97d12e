package claudetest_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/seed-7f2870e1/memoryd/client/claudetest"
)

// FuzzRequest: whatever a client sends, it gets a message, a stream that is whole, a count or an error, all of them
// JSON, and nothing is reported as a mistake of the test.
func FuzzRequest(f *testing.F) {
	f.Add(hello)
	f.Add(helloStream)
	f.Add(requestBody(join(uHello, aCallAB, uABText, aHello, uHello)))
	f.Add(requestBody(join(uHello, aCallA, uA, aCallB, uB), fmt.Sprintf(edits, `{"type":"clear_tool_uses_20250919","trigger":{"type":"tool_uses","value":1},"keep":{"type":"tool_uses","value":0},"clear_tool_inputs":["look"],"exclude_tools":["memory"]}`)))
	f.Add(requestBody(join(uHello, aHello), `"stream":true`, `"thinking":{"type":"adaptive"}`, fmt.Sprintf(edits, `{"type":"clear_thinking_20251015","keep":"all"},{"type":"clear_tool_uses_20250919","trigger":{"type":"input_tokens","value":1}},{"type":"compact_20260112","pause_after_compaction":true}`)))
	f.Add(requestBody(uHello, `"thread":{"type":"create"}`))
	f.Add(requestBody(uHello, `"thread":{"type":"continue","previous_message_id":"msg_1"}`))
	f.Add(requestBody(join(`{"role":"assistant","content":[{"type":"compaction","content":"x","tool_changes":[{"type":"tool_addition","tool":{"type":"tool_definition","definition":{"name":"x","input_schema":{"type":"object"}}}}]}]}`, `{"role":"system","content":[{"type":"tool_removal","tool":{"type":"tool_reference","name":"x"}}]}`), `"compaction":{"type":"summarize"}`))
	f.Add(`{"model":"m","max_tokens":1,"messages":[{"role":"user","content":[{"type":"tool_result","content":[{"type":"tool_result","content":[]}]}]}]}`)
	f.Add(requestBody(`{"role":"user","content":"\ud83d\ude00\\\u00fc\ud83d"}`, `"temperature":0.5`, `"thinking":{"type":"enabled","budget_tokens":2e3}`))
	f.Add(requestBody(`{"role":"user","content":[{"type":"image","source":{"type":"file","file_id":"x"}}]}`, `"tool_choice":{"type":"any"}`))
	f.Add("\x00")

	api := claudetest.New(f, claudetest.ModelFunc(func(_ context.Context, req *claudetest.Request) (claudetest.Turn, error) {
		for _, tool := range req.Tools {
			if tool.Name != "" && len(req.ToolResults()) == 0 {
				return claudetest.Use(claudetest.Call(tool.Name, json.RawMessage(`{"a": "\u00fc"}`))), nil
			}
		}
		return claudetest.Say("All right.", req.LastText()), nil
	}), claudetest.WithoutBodies())
	f.Fuzz(func(t *testing.T, body string) {
		for _, path := range []string{"/v1/messages", "/v1/messages/count_tokens"} {
			req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, strings.NewReader(body))
			req.Header.Set("x-api-key", "key")
			req.Header.Set("anthropic-version", "2023-06-01")
			req.Header.Set("anthropic-beta", strings.Join(allBetas, ","))
			resp := httptest.NewRecorder()
			api.Serve(resp, req)
			checkAnswer(t, path, resp)
		}
	})
}

func checkAnswer(t *testing.T, path string, resp *httptest.ResponseRecorder) {
	t.Helper()
	answer := resp.Body.Bytes()
	if strings.HasPrefix(resp.Header().Get("content-type"), "text/event-stream") {
		events := bytes.Split(bytes.TrimSuffix(answer, []byte("\n\n")), []byte("\n\n"))
		for _, event := range events {
			_, data, _ := bytes.Cut(event, []byte("\ndata: "))
			if !json.Valid(data) {
				t.Errorf("an event is not JSON: %s", event)
			}
		}
		if !bytes.Equal(events[len(events)-1], []byte("event: message_stop\ndata: {\"type\":\"message_stop\"}")) {
			t.Errorf("the stream ends with %s", events[len(events)-1])
		}
		return
	}
	var m struct {
		Type        string
		InputTokens *int `json:"input_tokens"`
		Error       struct{ Type, Message string }
	}
	if err := json.Unmarshal(answer, &m); err != nil {
		t.Fatalf("%v: %s", err, answer)
	}
	switch resp.Code {
	case http.StatusOK:
		if path == "/v1/messages" && m.Type != "message" || path != "/v1/messages" && m.InputTokens == nil {
			t.Errorf("got %s", answer)
		}
	case http.StatusBadRequest, http.StatusNotFound:
		if m.Type != "error" || m.Error.Type == "" || m.Error.Message == "" {
			t.Errorf("got %s", answer)
		}
	default:
		t.Errorf("%d %s", resp.Code, answer)
	}
}
