package claudetest

import (
	"encoding/json"
	"fmt"
	"slices"
)

// Recorded is a request that was made.
type Recorded struct {
	Method, Path string
	// ID is the request-id of the answer.
	ID string
	// Betas are the values of the anthropic-beta headers, in their order.
	Betas []string
	// Body is the body as it was sent. It is nil with WithoutBodies, and where it was too large.
	Body json.RawMessage
	// Status is what was answered; 0 while there is no answer, and where the connection was closed without one.
	Status int
	// MessageID is the id of the message that was the answer, if one was.
	MessageID string
	// AppliedEdits are the context edits that were made. Not nil where the request asked for any.
	AppliedEdits []AppliedEdit
	// InputTokens and OutputTokens are those of the usage of the answer. OriginalInputTokens is the size of the prompt
	// before context edits.
	InputTokens, OriginalInputTokens, OutputTokens int
}

// Requests returns all requests so far, in the order in which they came.
func (a *API) Requests() []Recorded {
	a.mu.Lock()
	defer a.mu.Unlock()
	requests := make([]Recorded, len(a.recorded))
	for i, r := range a.recorded {
		requests[i] = *r
		requests[i].AppliedEdits = slices.Clone(r.AppliedEdits)
	}
	return requests
}

// record keeps a request and gives it its id.
func (a *API) record(r *Recorded) *Recorded {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.recorded = append(a.recorded, r)
	r.ID = fmt.Sprintf("req_%s%d", a.options.idPrefix, len(a.recorded))
	if a.options.noBodies {
		r.Body = nil
	}
	return r
}
