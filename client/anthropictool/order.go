package anthropictool

import (
	"bytes"
	"context"
	"encoding/json"
	"sync"
	"time"

	"github.com/anthropics/anthropic-sdk-go/v2"

	"github.com/seed-7f2870e1/memoryd/client"
	memoryv1 "github.com/seed-7f2870e1/memoryd/gen/memoryd/v1"
)

// ArrivalTimeout is how long a call waits for the runner to bring the calls before it in the same turn. The runner
// brings them all at once, so only what stands between it and the tool can keep one back. A call that has come is
// waited for until it is answered.
const ArrivalTimeout = 10 * time.Second

// order executes the memory calls of a message one after the other. Its zero value is ready.
type order struct {
	mu      sync.Mutex
	message *anthropic.BetaMessage // of the turn that runs
	calls   []*call                // of the message, in the order of their blocks
}

// call is a memory call of a message.
type call struct {
	id    string
	input json.RawMessage // as the model sent it
	given []byte          // as the runner gives it to tools

	visits  int            // how often the runner came for it
	answer  *client.Result // nil: there is none to keep
	attempt *attempt       // the latest
}

// attempt is an attempt to answer a call. The calls after it wait until it is over.
type attempt struct {
	begun bool
	turn  <-chan struct{} // closed when the runner is through with the turn in which it began
	over  chan struct{}   // closed when it ended, or did not begin in time
}

func newAttempt() *attempt { return &attempt{over: make(chan struct{})} }

func (a *attempt) end() {
	if !isClosed(a.over) {
		close(a.over)
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// handleFunc executes a call.
type handleFunc func(ctx context.Context, id string, input json.RawMessage) client.Result

// run answers the call of the message whose input the runner gave to the tool, after those before it. It returns false
// if there is none.
func (o *order) run(
	ctx context.Context, message *anthropic.BetaMessage, given []byte, handle handleFunc,
) (client.Result, bool) {
	c, answer, earlier := o.arrive(ctx, message, given)
	if c == nil {
		return client.Result{}, false
	}
	if answer != nil {
		return *answer, true
	}
	o.wait(ctx, earlier)
	result := handle(ctx, c.id, c.input) // which has a text for a context that is done, too
	o.leave(c, result)
	return result, true
}

// arrive returns the call that the runner has come for, or nil, with its answer if there is one to keep, or else with
// the attempts to wait for.
func (o *order) arrive(
	ctx context.Context, message *anthropic.BetaMessage, given []byte,
) (c *call, answer *client.Result, earlier []*attempt) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if message != o.message {
		o.message, o.calls = message, callsOf(message)
	}
	at := -1
	for i := range o.calls { // of those with equal inputs, the one that the runner has come for least
		if bytes.Equal(o.calls[i].given, given) && (at < 0 || o.calls[i].visits < o.calls[at].visits) {
			at = i
		}
	}
	if at < 0 {
		return nil, nil, nil
	}
	c = o.calls[at]
	c.visits++
	if c.answer != nil {
		return c, c.answer, nil
	}
	if isClosed(c.attempt.over) { // without an answer to keep, or before the runner came
		c.attempt = newAttempt()
	}
	c.attempt.begun, c.attempt.turn = true, ctx.Done()
	for _, before := range o.calls[:at] {
		if before.answer == nil && isClosed(before.attempt.over) && isClosed(before.attempt.turn) {
			before.attempt = newAttempt() // the turn is run again, and the runner will come for this one too
		}
		earlier = append(earlier, before.attempt)
	}
	return c, nil, earlier
}

// wait returns when the attempts are over, or ctx is done.
func (o *order) wait(ctx context.Context, attempts []*attempt) {
	arrival := time.NewTimer(ArrivalTimeout)
	defer arrival.Stop()
	for _, a := range attempts {
		for !isClosed(a.over) {
			select {
			case <-a.over:
			case <-arrival.C:
				o.skip(attempts)
			case <-ctx.Done():
				return
			}
		}
	}
}

// skip ends the attempts that have not begun.
func (o *order) skip(attempts []*attempt) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, a := range attempts {
		if !a.begun {
			a.end()
		}
	}
}

// leave ends the attempt to answer a call, and keeps the answer if there is one. The calls after it go on in any case.
func (o *order) leave(c *call, result client.Result) {
	o.mu.Lock()
	defer o.mu.Unlock()
	c.attempt.end()
	if isAnswer(result) {
		c.answer = &result
	}
}

// isAnswer tells whether a result is that of the command. The others say that the service did not execute it, or did
// not tell, which may be different the next time.
func isAnswer(r client.Result) bool {
	switch r.Reason {
	case memoryv1.Reason_REASON_SERVICE_UNREACHABLE, memoryv1.Reason_REASON_OUTCOME_UNKNOWN,
		memoryv1.Reason_REASON_SERVICE_PROBLEM, memoryv1.Reason_REASON_TOO_MANY_CALLS:
		return false
	default:
		return true
	}
}

// callsOf returns the memory calls of a message, with the input that the runner makes of what the model sent.
func callsOf(message *anthropic.BetaMessage) []*call {
	var calls []*call
	for _, block := range memoryBlocks(message) {
		use := block.AsToolUse()
		given, err := json.Marshal(use.Input)
		if err != nil {
			continue // the runner answers it by itself, for the same reason
		}
		calls = append(calls, &call{
			id: use.ID, input: json.RawMessage(use.JSON.Input.Raw()), given: given, attempt: newAttempt(),
		})
	}
	return calls
}
