package claudetest

import (
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"
)

const (
	// maxRequestBytes is the most bytes of a request; see https://platform.claude.com/docs/en/api/errors.
	maxRequestBytes = 32 << 20
	// readHeaderTimeout is how long a client may take for the header of a request.
	readHeaderTimeout = time.Minute
)

const (
	pathMessages = "/v1/messages"
	pathCount    = "/v1/messages/count_tokens"
)

// An exchange is a request and its answer.
type exchange struct {
	api      *API
	w        http.ResponseWriter
	r        *http.Request
	recorded *Recorded
}

// serve answers a request.
func (a *API) serve(w http.ResponseWriter, r *http.Request) {
	if !a.begin() {
		panic(http.ErrAbortHandler) // closed
	}
	defer a.running.Done()

	body, tooLarge, err := readBody(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler) // the client is gone
	}
	x := &exchange{api: a, w: w, r: r}
	x.recorded = a.record(&Recorded{Method: r.Method, Path: r.URL.Path, Betas: betaHeaders(r.Header), Body: body})
	defer x.recoverCounter()
	w.Header().Set("request-id", x.recorded.ID)
	if failure := x.refuse(tooLarge); failure != nil {
		x.fail(*failure)
		return
	}
	counting := r.URL.Path == pathCount
	c, failure := readCall(body, x.recorded.Betas, counting)
	switch {
	case failure != nil:
		x.fail(*failure)
	case counting:
		x.count(c)
	default:
		x.message(c)
	}
}

// recoverCounter answers where the counter of the test panicked, which it does before anything is sent.
func (x *exchange) recoverCounter() {
	switch p := recover().(type) {
	case nil:
	case counterError:
		x.mistake(p)
	default:
		panic(p)
	}
}

// betaHeaders returns the values of the anthropic-beta headers, each of which may be a list.
func betaHeaders(h http.Header) []string {
	var betas []string
	for _, header := range h.Values("anthropic-beta") {
		for beta := range strings.SplitSeq(header, ",") {
			if beta = strings.TrimSpace(beta); beta != "" && !slices.Contains(betas, beta) {
				betas = append(betas, beta)
			}
		}
	}
	return betas
}

// readBody reads a body. One that is too large is read to its end, or far beyond the limit, but not kept, so that the
// client gets to read the answer.
func readBody(r io.Reader) (body json.RawMessage, tooLarge bool, err error) {
	body, err = io.ReadAll(io.LimitReader(r, maxRequestBytes+1))
	if len(body) <= maxRequestBytes {
		return body, false, err
	}
	_, err = io.Copy(io.Discard, io.LimitReader(r, maxRequestBytes))
	return nil, true, err
}

// refuse returns what is wrong with a request besides its body, or the failure that is due.
func (x *exchange) refuse(tooLarge bool) *Failure {
	if f := x.api.takePlanned(); f != nil {
		return f
	}
	var f Failure
	switch path := x.r.URL.Path; {
	case path != pathMessages && path != pathCount:
		f = Failure{Status: http.StatusNotFound, Type: errNotFound, Message: "Not found: " + path}
	case x.r.Method != http.MethodPost:
		x.w.Header().Set("allow", http.MethodPost)
		f = Invalid("Method Not Allowed: " + x.r.Method)
		f.Status = http.StatusMethodNotAllowed
	case !authenticated(x.r.Header):
		f = Failure{Status: http.StatusUnauthorized, Type: errAuthentication, Message: "x-api-key header is required"}
	case x.r.Header.Get("anthropic-version") == "":
		f = Invalid("anthropic-version: header is required")
	case tooLarge:
		f = Failure{
			Status: http.StatusRequestEntityTooLarge, Type: errRequestTooLarge,
			Message: "Request exceeds the maximum allowed number of bytes",
		}
	case path == pathMessages && !x.api.allow():
		f = RateLimited(rateLimitRetryAfter)
	default:
		return nil
	}
	return &f
}

func authenticated(h http.Header) bool {
	token, isBearer := strings.CutPrefix(h.Get("authorization"), "Bearer ")
	return h.Get("x-api-key") != "" || isBearer && token != ""
}

// count answers count_tokens.
func (x *exchange) count(c *call) {
	c.compaction = nil // is ignored
	p, failure := x.api.prepare(c)
	if failure != nil {
		x.fail(*failure)
		return
	}
	x.note(func(r *Recorded) {
		r.Status, r.AppliedEdits = http.StatusOK, p.applied
		r.InputTokens, r.OriginalInputTokens = p.input, p.original
	})
	answer := map[string]any{"input_tokens": p.input}
	if c.edits != nil {
		answer["context_management"] = map[string]int{"original_input_tokens": p.original}
	}
	x.writeJSON(appendJSON(nil, answer))
}

// message answers with a message of the model.
func (x *exchange) message(c *call) {
	if failure := x.api.takeThread(c); failure != nil {
		x.fail(*failure)
		return
	}
	var sent *message
	defer func() { x.api.endThread(c, sent) }()
	p, failure := x.api.prepare(c)
	if failure != nil {
		x.fail(*failure)
		return
	}
	x.note(func(r *Recorded) { r.AppliedEdits, r.OriginalInputTokens = p.applied, p.original })

	how := p.summarizing()
	if how == nil {
		sent = x.respond(p, nil)
		return
	}
	t, ok := x.ask(p.summaryRequest(how))
	if !ok {
		return
	}
	s := x.api.summary(p, how, t)
	if how.pause {
		sent = x.send(c, x.api.summaryMessage(p, s), t)
		return
	}
	sent = x.respond(p.after(x.api.options.count, s), s)
}

// respond answers with a turn of the model, after the summary that was made for it, if one was. It returns the message
// if all of it was sent.
func (x *exchange) respond(p *prompt, s *summary) *message {
	t, ok := x.ask(p.request())
	if !ok {
		return nil
	}
	m, err := x.api.finish(p, t)
	if err != nil {
		x.mistake(err)
		return nil
	}
	m.follow(s)
	return x.send(p.call, m, t)
}

// ask asks the model. If what came of it was answered already, ok is false.
func (x *exchange) ask(req *Request) (t Turn, ok bool) {
	t, err := x.api.ask(x.r.Context(), req)
	switch {
	case x.r.Context().Err() != nil || x.api.isClosed():
		panic(http.ErrAbortHandler) // there is nobody to answer
	case err != nil:
		x.mistake(err)
	case t.Failure != nil && (t.CutAfter == 0 || !req.Stream):
		x.fail(*t.Failure)
	case t.CutAfter > 0 && !req.Stream:
		panic(http.ErrAbortHandler) // closes the connection
	default:
		return t, true
	}
	return Turn{}, false
}

// send answers with the message of a turn, and returns it if all of it was sent.
func (x *exchange) send(c *call, m *message, t Turn) *message {
	x.note(func(r *Recorded) {
		r.Status, r.MessageID = http.StatusOK, m.id
		r.InputTokens, r.OutputTokens = m.usage.InputTokens, m.usage.OutputTokens
	})
	if c.stream {
		if !x.stream(m, t) {
			return nil
		}
		return m
	}
	x.writeJSON(m.json())
	return m
}

func (x *exchange) writeJSON(body []byte) {
	x.w.Header().Set("content-type", "application/json")
	_, _ = x.w.Write(body) // the client may be gone
}

// fail answers with a failure.
func (x *exchange) fail(f Failure) {
	if err := f.check(); err != nil {
		x.mistake(err)
		return
	}
	x.note(func(r *Recorded) { r.Status = f.filled().Status })
	f.write(x.w, x.recorded.ID)
}

// mistake answers what only a mistake in the test can cause, and reports it.
func (x *exchange) mistake(err error) {
	x.api.report("claudetest: %s: %v", x.recorded.ID, err)
	x.fail(Failure{Message: "claudetest: " + err.Error()})
}

// note changes what is recorded.
func (x *exchange) note(fn func(r *Recorded)) {
	x.api.mu.Lock()
	defer x.api.mu.Unlock()
	fn(x.recorded)
}
