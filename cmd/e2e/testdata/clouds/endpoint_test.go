package clouds

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws/protocol/eventstream"
	"github.com/seed-7f2870e1/memoryd/client/claudetest"
)

// bedrockEndpoint returns what plays the runtime of Amazon Bedrock: the model is in the path, the version and the beta
// headers are in the body, and a stream has the framing of AWS. See
// https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_InvokeModel.html.
func bedrockEndpoint(t *testing.T, api *claudetest.API) http.Handler {
	endpoint := func(stream bool) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if got := r.Header.Get("authorization"); !strings.HasPrefix(got, "AWS4-HMAC-SHA256 Credential=AKIDTEST/") {
				t.Errorf("authorization %q, want a signature of AWS", got)
			}
			if r.Header.Get("anthropic-version") != "" || r.Header.Get("anthropic-beta") != "" {
				t.Errorf("headers %v, want those of Anthropic in the body", r.Header)
			}
			body := readBody(t, r)
			var betas []string
			if err := json.Unmarshal(body["anthropic_beta"], &betas); err != nil {
				t.Errorf("anthropic_beta: %v", err)
			}
			delete(body, "anthropic_beta")
			resp := forward(t, api, body, r.PathValue("model"), stream, betas)
			defer resp.Body.Close()
			if stream && resp.StatusCode == http.StatusOK {
				w.Header().Set("content-type", "application/vnd.amazon.eventstream")
				encodeEvents(t, w, resp.Body)
				return
			}
			reply(w, resp)
		}
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /model/{model}/invoke", endpoint(false))
	mux.HandleFunc("POST /model/{model}/invoke-with-response-stream", endpoint(true))
	return mux
}

// vertexEndpoint returns what plays Google Vertex AI: the model is in the path and the version in the body. See
// https://docs.cloud.google.com/vertex-ai/generative-ai/docs/partner-models/claude/use-claude.
func vertexEndpoint(t *testing.T, api *claudetest.API) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/projects/project/locations/europe-north1/publishers/anthropic/models/{call}",
		func(w http.ResponseWriter, r *http.Request) {
			if got := r.Header.Get("authorization"); got != "Bearer token" {
				t.Errorf("authorization %q, want the token", got)
			}
			if r.Header.Get("anthropic-version") != "" {
				t.Error("the version is in a header, want it in the body")
			}
			model, method, _ := strings.Cut(r.PathValue("call"), ":")
			if method != "rawPredict" && method != "streamRawPredict" {
				t.Errorf("method %q", method)
			}
			resp := forward(t, api, readBody(t, r), model, method == "streamRawPredict", r.Header.Values("anthropic-beta"))
			defer resp.Body.Close()
			reply(w, resp)
		})
	return mux
}

// readBody returns the members of the body of a request.
func readBody(t *testing.T, r *http.Request) map[string]json.RawMessage {
	body := make(map[string]json.RawMessage)
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		t.Errorf("read body: %v", err)
	}
	if _, ok := body["model"]; ok {
		t.Error("the body has a model, want it in the path")
	}
	return body
}

// forward sends what a cloud got to the API, in the API's own form.
func forward(
	t *testing.T, api *claudetest.API, body map[string]json.RawMessage, model string, stream bool, betas []string,
) *http.Response {
	var version string
	if err := json.Unmarshal(body["anthropic_version"], &version); err != nil {
		t.Errorf("anthropic_version: %v", err)
	}
	delete(body, "anthropic_version")
	body["model"] = fmt.Appendf(nil, "%q", model)
	body["stream"] = fmt.Appendf(nil, "%t", stream)
	data, err := json.Marshal(body)
	if err != nil {
		t.Errorf("write body: %v", err)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, api.URL()+"/v1/messages", bytes.NewReader(data))
	if err != nil {
		t.Error(err)
		panic(http.ErrAbortHandler)
	}
	req.Header = http.Header{
		"Anthropic-Version": {version}, "Anthropic-Beta": betas, "X-Api-Key": {"key"}, "Content-Type": {"application/json"},
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Error(err)
		panic(http.ErrAbortHandler)
	}
	return resp
}

func reply(w http.ResponseWriter, resp *http.Response) {
	w.Header().Set("content-type", resp.Header.Get("content-type"))
	w.WriteHeader(resp.StatusCode)
	_, _ = io.Copy(w, resp.Body)
}

// encodeEvents writes the events of a stream of the API as Bedrock frames them.
func encodeEvents(t *testing.T, w io.Writer, events io.Reader) {
	encoder := eventstream.NewEncoder()
	lines := bufio.NewScanner(events)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok {
			continue
		}
		payload := fmt.Sprintf(`{"bytes":%q}`, base64.StdEncoding.EncodeToString([]byte(data)))
		message := eventstream.Message{Payload: []byte(payload)}
		message.Headers.Set(":message-type", eventstream.StringValue("event"))
		message.Headers.Set(":event-type", eventstream.StringValue("chunk"))
		if err := encoder.Encode(w, message); err != nil {
			t.Errorf("encode event: %v", err)
		}
	}
	if err := lines.Err(); err != nil {
		t.Errorf("read events: %v", err)
	}
}

// tools returns the tools of a request, as they were sent.
func tools(t *testing.T, body json.RawMessage) string {
	t.Helper()
	var request struct{ Tools json.RawMessage }
	if err := json.Unmarshal(body, &request); err != nil {
		t.Fatal(err)
	}
	return string(request.Tools)
}
