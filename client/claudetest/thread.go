package claudetest

import "net/http"

// The kinds of threadParam.
const (
	threadCreate   = "create"
	threadContinue = "continue"
)

// threadParam is the thread member of a request; see
// https://platform.claude.com/docs/en/build-with-claude/message-threads.
type threadParam struct {
	kind     string // threadCreate, threadContinue, or empty
	previous string // previous_message_id
}

// A thread is a conversation up to a response, under whose id it is kept. A response can be continued once.
type thread struct {
	fixed
	messages []Message // the response included; nil once it was continued
	// continuing tells that a request is continuing it, continued that one has.
	continuing, continued bool
}

// fixed is what stays the same in a thread.
type fixed struct {
	model  string
	system []Block
	tools  []Tool
}

// threadParam reads the thread of a request.
func (r *reader) threadParam(o, request object) threadParam {
	t := threadParam{kind: o.text("type")}
	switch t.kind {
	case threadCreate:
	case threadContinue:
		o.require("previous_message_id")
		t.previous = o.text("previous_message_id")
		for _, key := range []string{"system", "tools"} {
			if request.has(key) {
				r.fail(key, "Extra inputs are not permitted where a thread is continued, which keeps its own")
			}
		}
	default:
		r.fail(o.at("type"), "Input should be 'create' or 'continue'")
	}
	return t
}

// takeThread writes out a request that continues a thread, and lets no other continue it until endThread.
func (a *API) takeThread(c *call) *Failure {
	if c.thread.kind == "" {
		return nil
	}
	if a.options.noThreads {
		f := ThreadUnsupported(a.options.unsupported...)
		return &f
	}
	if c.thread.kind == threadCreate {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	t := a.threads[c.thread.previous]
	var f Failure
	switch {
	case t == nil:
		f = ThreadNotFound()
	case t.continued:
		f = threadFailure("thread_already_continued", "this response has already been continued")
	case t.continuing:
		f = threadFailure("thread_continue_in_flight", "another request is continuing from this response")
	case t.model != c.model:
		f = threadFailure("thread_fingerprint_mismatch", "these fields differ from those of the thread: model")
	default:
		t.continuing = true
		c.fixed = t.fixed
		c.messages = append(t.messages[:len(t.messages):len(t.messages)], c.messages...)
		return nil
	}
	return &f
}

func threadFailure(code, message string) Failure {
	f := Invalid("thread.previous_message_id: " + message)
	f.ErrorCode = code
	return f
}

// ThreadNotFound is the answer to a request that continues a thread which the API does not hold, status 404.
func ThreadNotFound() Failure {
	f := threadFailure("thread_not_found", "no usable thread state was found")
	f.Status, f.Type = http.StatusNotFound, errNotFound
	return f
}

// ThreadUnsupported is the answer to a request that combines a thread with something that threads do not support, such
// as "context_management", status 400.
func ThreadUnsupported(features ...string) Failure {
	f := Invalid("thread: this request cannot be made on a thread; send the full conversation without it")
	f.ErrorCode, f.Unsupported = "thread_unsupported_request", features
	return f
}

// endThread keeps what became of a request that had a thread. Where there was no answer, m is nil, and a thread that
// was to be continued can still be.
func (a *API) endThread(c *call, m *message) {
	if c.thread.kind == "" {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if t := a.threads[c.thread.previous]; t != nil && c.thread.kind == threadContinue {
		t.continuing = false
		if m != nil {
			t.continued, t.messages = true, nil
		}
	}
	if m == nil {
		return
	}
	messages := c.messages
	if c.compaction != nil {
		messages = nil // the summary stands for them
	}
	a.threads[m.id] = &thread{fixed: c.fixed, messages: append(messages[:len(messages):len(messages)], m.sentBack())}
}
