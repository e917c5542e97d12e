package claudetest_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"sync"
	"testing"

	"github.com/anthropics/anthropic-sdk-go/v2"
	"github.com/anthropics/anthropic-sdk-go/v2/option"
	"go.uber.org/goleak"

	"github.com/seed-7f2870e1/memoryd/client/claudetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// countBytes counts a token for every byte, so that tests can say numbers.
func countBytes(text string) int { return len(text) }

// allBetas are all the beta headers that the package knows.
var allBetas = []string{
	claudetest.BetaContextManagement, claudetest.BetaCompactEdit, claudetest.BetaCompaction, claudetest.BetaThreads,
	claudetest.BetaInlineTools,
}

// recorder is a testing.TB that records.
type recorder struct {
	mu       sync.Mutex
	errors   []string
	cleanups []func()
}

func (r *recorder) Helper() {}

func (r *recorder) Errorf(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.errors = append(r.errors, fmt.Sprintf(format, args...))
}

func (r *recorder) Fatalf(format string, args ...any) {
	r.Errorf(format, args...)
	runtime.Goexit()
}

func (r *recorder) Cleanup(fn func()) { r.cleanups = append(r.cleanups, fn) }

// end runs the cleanups, as the end of a test does, and returns the errors.
func (r *recorder) end() []string {
	for _, fn := range r.cleanups {
		fn()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.errors
}

// say is a model that always says the same and records what it was asked.
type say struct {
	mu       sync.Mutex
	requests []*claudetest.Request
}

func (s *say) turn(req *claudetest.Request) claudetest.Turn {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = append(s.requests, req)
	return claudetest.Say("All right.")
}

// reply is an answer to a request that was made by hand.
type reply struct {
	status int
	header http.Header
	body   []byte
	cut    bool // the body breaks off
}

// errorMessage returns the message of an error.
func (r reply) errorMessage(t *testing.T) string {
	t.Helper()
	var body struct {
		Type  string
		Error struct{ Type, Message string }
	}
	if err := json.Unmarshal(r.body, &body); err != nil || body.Type != "error" || body.Error.Type == "" {
		t.Fatalf("not the body of an error: %s", r.body)
	}
	return body.Error.Message
}

// post makes a request by hand, with all beta headers.
func post(t *testing.T, api *claudetest.API, path, body string, change ...func(*http.Request)) reply {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, api.URL()+path, bytes.NewBufferString(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("x-api-key", "key")
	req.Header.Set("anthropic-version", "2023-06-01")
	for _, beta := range allBetas {
		req.Header.Add("anthropic-beta", beta)
	}
	for _, fn := range change {
		fn(req)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	return reply{resp.StatusCode, resp.Header, answer, err != nil}
}

// withHeader sets or, if the value is empty, deletes a header.
func withHeader(name, value string) func(*http.Request) {
	return func(r *http.Request) {
		if value == "" {
			r.Header.Del(name)
			return
		}
		r.Header.Set(name, value)
	}
}

func userText(text string) anthropic.BetaMessageParam {
	return anthropic.NewBetaUserMessage(anthropic.NewBetaTextBlock(text))
}

func params(messages ...anthropic.BetaMessageParam) anthropic.BetaMessageNewParams {
	return anthropic.BetaMessageNewParams{Model: anthropic.ModelClaudeSonnet5_5, MaxTokens: 1024, Messages: messages}
}

func toolParam(name string) anthropic.BetaToolUnionParam {
	schema := anthropic.BetaToolInputSchemaParam{Properties: map[string]any{}}
	return anthropic.BetaToolUnionParam{OfTool: &anthropic.BetaToolParam{Name: name, InputSchema: schema}}
}

// stream reads a stream to its end.
func stream(t *testing.T, client anthropic.Client, p anthropic.BetaMessageNewParams, opts ...option.RequestOption) (anthropic.BetaMessage, error) {
	t.Helper()
	s := client.Beta.Messages.NewStreaming(t.Context(), p, opts...)
	defer s.Close()
	var m anthropic.BetaMessage
	for s.Next() {
		if err := m.Accumulate(s.Current()); err != nil {
			t.Fatal(err)
		}
	}
	return m, s.Err()
}
