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

// order executes the memory calls of a message one after the other. Its zero value is ready.
type order struct {
	arrivalTimeout time.Duration // see WithArrivalTimeout; 0 or less is no limit

	mu      sync.Mutex
	message *anthropic.BetaMessage // of the turn that runs
	calls   []*call                // of the message, in the order of their blocks
}

// call is a memory call of a message.
type call struct {
	id    string
	input json.RawMessage // as the model sent it
	given []byte          // as the runner gives it to tools; nil: it cannot, and answers the call itself

	visits  int            // how often the runner came for it
	answer  *client.Result // nil: there is none to keep
	attempt *attempt       // the latest
}

// comes tells whether the runner comes for the call with this input.
func (c *call) comes(given []byte) bool { return c.given != nil && bytes.Equal(c.given, given) }

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
	calls, at := o.visit(message, given)
	if at < 0 {
		return client.Result{}, false
	}
	return o.answer(ctx, calls, at, handle), true
}

// answer answers calls[at], unless that was done already, after those before it. One that is being answered is waited
// for, and answered again only if that leaves no answer.
func (o *order) answer(ctx context.Context, calls []*call, at int, handle handleFunc) client.Result {
	c := calls[at]
	answer, running, earlier := o.begin(ctx, calls, at)
	for running != nil {
		select {
		case <-running.over:
			answer, running, earlier = o.begin(ctx, calls, at)
		case <-ctx.Done():
			return handle(ctx, c.id, c.input) // only for its text; the attempt is not this one's to end
		}
	}
	if answer != nil {
		return *answer
	}
	o.wait(ctx, earlier)
	result := handle(ctx, c.id, c.input) // which has a text for a context that is done, too
	o.leave(c, result)
	return result
}

// take returns the calls of the message, with what is known of them.
func (o *order) take(message *anthropic.BetaMessage) []*call {
	o.mu.Lock()
	defer o.mu.Unlock()
	if message != o.message {
		o.message, o.calls = message, callsOf(message)
	}
	return o.calls
}

// visit returns the calls of the message, and which of them the runner has come for, or -1.
func (o *order) visit(message *anthropic.BetaMessage, given []byte) (calls []*call, at int) {
	calls, at = o.take(message), -1
	o.mu.Lock()
	defer o.mu.Unlock()
	for i := range calls { // of those with equal inputs, the one that the runner has come for least
		if calls[i].comes(given) && (at < 0 || calls[i].visits < calls[at].visits) {
			at = i
		}
	}
	if at >= 0 {
		calls[at].visits++
	}
	return calls, at
}

// begin begins an attempt to answer calls[at] and returns those of the calls before it, to wait for. It begins none if
// there is an answer to keep, or an attempt that is running, and returns that.
func (o *order) begin(
	ctx context.Context, calls []*call, at int,
) (answer *client.Result, running *attempt, earlier []*attempt) {
	o.mu.Lock()
	defer o.mu.Unlock()
	c := calls[at]
	if c.answer != nil {
		return c.answer, nil, nil
	}
	if isClosed(c.attempt.over) { // without an answer to keep, or before the runner came
		c.attempt = newAttempt()
	}
	if c.attempt.begun {
		return nil, c.attempt, nil
	}
	c.attempt.begun, c.attempt.turn = true, ctx.Done()
	for _, before := range calls[:at] {
		again := before.given != nil && isClosed(before.attempt.turn)
		if before.answer == nil && isClosed(before.attempt.over) && again {
			before.attempt = newAttempt() // the turn is run again, and the runner will come for this one too
		}
		earlier = append(earlier, before.attempt)
	}
	return nil, nil, earlier
}

// wait returns when the attempts are over, or ctx is done.
func (o *order) wait(ctx context.Context, attempts []*attempt) {
	var limit <-chan time.Time
	if o.arrivalTimeout > 0 {
		timer := time.NewTimer(o.arrivalTimeout)
		defer timer.Stop()
		limit = timer.C
	}
	for _, a := range attempts {
		for !isClosed(a.over) {
			select {
			case <-a.over:
			case <-limit:
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
		c := &call{id: use.ID, input: json.RawMessage(use.JSON.Input.Raw()), attempt: newAttempt()}
		if given, err := json.Marshal(use.Input); err == nil {
			c.given = given
		} else { // a number was too large for the runner
			c.attempt.end()
		}
		calls = append(calls, c)
	}
	return calls
}
