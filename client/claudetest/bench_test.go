package claudetest_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/seed-7f2870e1/memoryd/client/claudetest"
)

// BenchmarkRequest answers a request of a long run: 100 tool calls with results of 4 kB, of which 97 are cleared.
func BenchmarkRequest(b *testing.B) {
	messages := []string{uHello}
	result := strings.Repeat("Some text with a \\\"quote\\\" in it.\\n", 120)
	for i := range 100 {
		messages = append(messages,
			fmt.Sprintf(`{"role":"assistant","content":[{"type":"tool_use","id":"toolu_%d","name":"look","input":{"page":%d}}]}`, i, i),
			fmt.Sprintf(`{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_%d","content":[{"type":"text","text":"%s"}]}]}`, i, result))
	}
	body := requestBody(join(messages...), fmt.Sprintf(edits, `{"type":"clear_tool_uses_20250919","trigger":{"type":"input_tokens","value":30000}}`))
	api := claudetest.New(b, claudetest.ModelFunc(func(context.Context, *claudetest.Request) (claudetest.Turn, error) {
		return claudetest.Say("All right."), nil
	}), claudetest.WithoutBodies())
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		req := httptest.NewRequest(http.MethodPost, "/v1/messages", strings.NewReader(body))
		req.Header.Set("x-api-key", "key")
		req.Header.Set("anthropic-version", "2023-06-01")
		req.Header.Set("anthropic-beta", strings.Join(allBetas, ","))
		resp := httptest.NewRecorder()
		api.Serve(resp, req)
		if resp.Code != http.StatusOK {
			b.Fatal(resp.Body)
		}
	}
}
