package anthropictool

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/anthropics/anthropic-sdk-go/v2"
	"github.com/google/go-cmp/cmp"

	"github.com/seed-7f2870e1/memoryd/client"
	memoryv1 "github.com/seed-7f2870e1/memoryd/gen/memoryd/v1"
)

// messageOf returns a message that stopped for tool_use, with these blocks of JSON.
func messageOf(t *testing.T, blocks ...string) *anthropic.BetaMessage {
	t.Helper()
	message := new(anthropic.BetaMessage)
	data := `{"id":"msg_1","type":"message","role":"assistant","stop_reason":"tool_use","content":[` +
		strings.Join(blocks, ",") + `]}`
	if err := json.Unmarshal([]byte(data), message); err != nil {
		t.Fatal(err)
	}
	return message
}

// memoryCall is a call of the memory tool as JSON.
func memoryCall(id, input string) string {
	return fmt.Sprintf(`{"type":"tool_use","id":%q,"name":"memory","input":%s}`, id, input)
}

// turnOf returns a message with a call for every id, whose input is {"n":id}.
func turnOf(t *testing.T, ids ...string) *anthropic.BetaMessage {
	t.Helper()
	var blocks []string
	for _, id := range ids {
		blocks = append(blocks, memoryCall(id, inputOf(id)))
	}
	return messageOf(t, blocks...)
}

func inputOf(id string) string { return fmt.Sprintf(`{"n":%q}`, id) }

func textResult(text string) client.Result {
	return client.Result{Content: []*memoryv1.Content{{Block: &memoryv1.Content_Text{Text: text}}}}
}

// executions records what a handler was asked for. It takes a second for every call, or until ctx is done; then the
// service cannot be reached.
type executions struct {
	mu      sync.Mutex
	ids     []string
	answers map[string]client.Result // other than "done {id} {how often}"
}

func (e *executions) handle(ctx context.Context, id string, _ json.RawMessage) client.Result {
	unreachable := client.Result{IsError: true, Reason: memoryv1.Reason_REASON_SERVICE_UNREACHABLE}
	if ctx.Err() != nil {
		return unreachable
	}
	e.mu.Lock()
	e.ids = append(e.ids, id)
	n := 0
	for _, other := range e.ids {
		if other == id {
			n++
		}
	}
	answer, ok := e.answers[id]
	e.mu.Unlock()
	select {
	case <-time.After(time.Second):
	case <-ctx.Done():
		return unreachable
	}
	if ok {
		return answer
	}
	return textResult(fmt.Sprintf("done %s %d", id, n))
}

// visit is what the runner does for one call, in a goroutine, and returns where its result goes.
func visit(ctx context.Context, o *order, message *anthropic.BetaMessage, input string, e *executions) <-chan string {
	done := make(chan string, 1)
	go func() {
		result, ok := o.run(ctx, message, []byte(input), e.handle)
		switch {
		case !ok:
			done <- "no such call"
		case result.IsError:
			done <- result.Reason.String()
		default:
			done <- result.Text()
		}
	}()
	synctest.Wait()
	return done
}

func checkResult(t *testing.T, name string, result <-chan string, want string) {
	t.Helper()
	if got := <-result; got != want {
		t.Errorf("%s: got %q, want %q", name, got, want)
	}
}

func checkIDs(t *testing.T, e *executions, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, e.ids); diff != "" {
		t.Errorf("executed (-want +got):\n%s", diff)
	}
}

// Whatever the order in which the runner's goroutines come, the calls are executed in that of their blocks.
func TestOrder_AnyArrival(t *testing.T) {
	ids := []string{"a", "b", "c", "d"}
	for _, arrival := range permutations(ids) {
		t.Run(strings.Join(arrival, ""), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := order{arrivalTimeout: DefaultArrivalTimeout}
				e := &executions{}
				message := turnOf(t, ids...)
				results := make(map[string]<-chan string)
				for _, id := range arrival {
					results[id] = visit(t.Context(), &o, message, inputOf(id), e)
				}
				for _, id := range ids {
					checkResult(t, id, results[id], "done "+id+" 1")
				}
				checkIDs(t, e, ids...)
			})
		})
	}
}

func permutations(s []string) [][]string {
	if len(s) == 0 {
		return [][]string{nil}
	}
	var all [][]string
	for i := range s {
		rest := slices.Delete(slices.Clone(s), i, i+1)
		for _, p := range permutations(rest) {
			all = append(all, append([]string{s[i]}, p...))
		}
	}
	return all
}

func TestOrder_WhichCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := order{arrivalTimeout: DefaultArrivalTimeout}
		e := &executions{}
		message := messageOf(
			t,
			memoryCall("refused", `{"n":1}`),
			`{"type":"fallback","from":{"model":"m"},"to":{"model":"n"}}`,
			`{"type":"text","text":"hello"}`,
			`{"type":"tool_use","id":"other","name":"search","input":{"n":1}}`,
			memoryCall("numbers", `{ "z": 1e2, "n": 1.0 }`),
		)
		// What the runner makes of `{ "z": 1e2, "n": 1.0 }`.
		if got := <-visit(t.Context(), &o, message, `{"n":1,"z":100}`, e); got != "done numbers 1" {
			t.Errorf("got %q", got)
		}
		for _, input := range []string{`{"n":1}`, `{ "z": 1e2, "n": 1.0 }`, ``} {
			if got := <-visit(t.Context(), &o, message, input, e); got != "no such call" {
				t.Errorf("%s: got %q, want none", input, got)
			}
		}
		if got := <-visit(t.Context(), &o, messageOf(t), `{}`, e); got != "no such call" {
			t.Errorf("got %q, want none", got)
		}
		checkIDs(t, e, "numbers")
	})
}

// The handler is given what the model sent, and not what the runner made of it.
func TestOrder_Input(t *testing.T) {
	o := order{arrivalTimeout: DefaultArrivalTimeout}
	input := `{ "z": 1e2, "z": 1.0, "a":"\u003c<\ud800" }`
	message := messageOf(t, memoryCall("a", input))
	given, err := json.Marshal(message.Content[0].AsToolUse().Input)
	if err != nil {
		t.Fatal(err)
	}
	_, ok := o.run(t.Context(), message, given, func(_ context.Context, _ string, got json.RawMessage) client.Result {
		if string(got) != input {
			t.Errorf("got %s, want %s", got, input)
		}
		return client.Result{}
	})
	if !ok {
		t.Error("the call was not found")
	}
}

// A call that does not come is waited for until the arrival timeout is over, once.
func TestOrder_CallThatDoesNotCome(t *testing.T) {
	for timeout, tool := range map[time.Duration]*Tool{
		DefaultArrivalTimeout: New(nil),
		time.Second:           New(nil, WithArrivalTimeout(time.Second)),
		24 * time.Hour:        New(nil, WithArrivalTimeout(24*time.Hour)), // a person
	} {
		t.Run(timeout.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := &order{arrivalTimeout: tool.order.arrivalTimeout}
				e := &executions{}
				message := turnOf(t, "a", "b", "c", "d")
				start := time.Now()
				c := visit(t.Context(), o, message, inputOf("c"), e)
				time.Sleep(timeout - 1)
				synctest.Wait()
				checkIDs(t, e)
				b := visit(t.Context(), o, message, inputOf("b"), e) // just in time; a is still missing
				checkResult(t, "b", b, "done b 1")
				checkResult(t, "c", c, "done c 1")
				if got, want := time.Since(start), timeout+2*time.Second; got != want {
					t.Errorf("b and c took %v, want %v", got, want)
				}
				checkResult(t, "d", visit(t.Context(), o, message, inputOf("d"), e), "done d 1")
				if got, want := time.Since(start), timeout+3*time.Second; got != want {
					t.Errorf("d, after a was given up, took until %v, want %v", got, want)
				}
				checkResult(t, "a", visit(t.Context(), o, message, inputOf("a"), e), "done a 1")
				checkIDs(t, e, "b", "c", "d", "a")
			})
		})
	}
}

// Without an arrival timeout a call is waited for as long as it takes.
func TestOrder_NoArrivalTimeout(t *testing.T) {
	for _, timeout := range []time.Duration{0, -1} {
		tool := New(nil, WithArrivalTimeout(timeout))
		synctest.Test(t, func(t *testing.T) {
			o := &order{arrivalTimeout: tool.order.arrivalTimeout}
			e := &executions{}
			message := turnOf(t, "a", "b")
			b := visit(t.Context(), o, message, inputOf("b"), e)
			time.Sleep(1000 * time.Hour)
			a := visit(t.Context(), o, message, inputOf("a"), e)
			checkResult(t, "a", a, "done a 1")
			checkResult(t, "b", b, "done b 1")
			checkIDs(t, e, "a", "b")
		})
	}
}

// A call whose input the runner cannot read is answered by the runner itself, and those after it do not wait for it.
func TestOrder_CallThatCannotCome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &order{}
		e := &executions{}
		message := messageOf(t, memoryCall("a", `{"n":1e400}`), memoryCall("b", inputOf("b")))
		ctx, cancel := context.WithCancel(t.Context())
		if calls := o.take(message); len(calls) != 2 || o.answer(ctx, calls, 0, e.handle).Text() != "done a 1" {
			t.Errorf("got %d calls, want the first to be answered when it is asked for", len(calls))
		}
		cancel()
		if _, at := o.visit(message, nil); at >= 0 {
			t.Errorf("the runner came for call %d with no input", at)
		}
		checkResult(t, "b", visit(t.Context(), o, message, inputOf("b"), e), "done b 1")
		checkIDs(t, e, "a", "b")
	})
	synctest.Test(t, func(t *testing.T) {
		o := &order{}
		e := &executions{answers: map[string]client.Result{
			"a": {IsError: true, Reason: memoryv1.Reason_REASON_TOO_MANY_CALLS},
		}}
		message := messageOf(t, memoryCall("a", `{"n":1e400}`), memoryCall("b", inputOf("b")))
		ctx, cancel := context.WithCancel(t.Context())
		o.answer(ctx, o.take(message), 0, e.handle)
		cancel()
		checkResult(t, "b", visit(t.Context(), o, message, inputOf("b"), e), "done b 1")
	})
}

// All calls are answered at once where the runner is gone: those that were answered with the same, the others in order.
func TestOrder_AllAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &order{arrivalTimeout: DefaultArrivalTimeout}
		failed := client.Result{IsError: true, Reason: memoryv1.Reason_REASON_CREATE_PATH_EXISTS}
		e := &executions{answers: map[string]client.Result{"a": failed}}
		message := turnOf(t, "a", "b", "c", "d")
		ctx, cancel := context.WithCancel(t.Context())
		a := visit(ctx, o, message, inputOf("a"), e)
		b := visit(ctx, o, message, inputOf("b"), e)
		d := visit(ctx, o, message, inputOf("d"), e) // waits for c, which has not come
		checkResult(t, "a", a, failed.Reason.String())
		synctest.Wait()
		cancel() // b is being executed
		checkResult(t, "b", b, memoryv1.Reason_REASON_SERVICE_UNREACHABLE.String())
		checkResult(t, "d", d, memoryv1.Reason_REASON_SERVICE_UNREACHABLE.String())

		delete(e.answers, "a") // it could be done now
		start := time.Now()
		for range 2 {
			calls := o.take(message)
			for at, want := range []string{"", "done b 2", "done c 1", "done d 1"} {
				got := o.answer(t.Context(), calls, at, e.handle)
				if got.Text() != want || got.IsError != (at == 0) {
					t.Errorf("%s: got %v, want %q", calls[at].id, got, want)
				}
			}
		}
		if got := time.Since(start); got != 3*time.Second {
			t.Errorf("it took %v, want no wait", got)
		}
		checkIDs(t, e, "a", "b", "b", "c", "d")
	})
}

// A call that has come is waited for, however long it takes.
func TestOrder_SlowCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := order{arrivalTimeout: DefaultArrivalTimeout}
		e := &executions{}
		message := turnOf(t, "a", "b")
		slow := func(ctx context.Context, id string, input json.RawMessage) client.Result {
			time.Sleep(10 * DefaultArrivalTimeout)
			return e.handle(ctx, id, input)
		}
		b := visit(t.Context(), &o, message, inputOf("b"), e)
		if _, ok := o.run(t.Context(), message, []byte(inputOf("a")), slow); !ok {
			t.Error("a was not found")
		}
		checkResult(t, "b", b, "done b 1")
		checkIDs(t, e, "a", "b")
	})
}

// A turn that was cancelled and is run again: what was answered has its answer, the rest is executed in order, in
// whatever order the runner comes.
func TestOrder_TurnIsRunAgain(t *testing.T) {
	ids := []string{"a", "b", "c", "d"}
	for _, arrival := range permutations(ids) {
		t.Run(strings.Join(arrival, ""), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := order{arrivalTimeout: DefaultArrivalTimeout}
				e := &executions{}
				message := turnOf(t, ids...)

				ctx, cancel := context.WithCancel(t.Context())
				c := visit(ctx, &o, message, inputOf("c"), e)
				a := visit(ctx, &o, message, inputOf("a"), e)
				b := visit(ctx, &o, message, inputOf("b"), e)
				checkResult(t, "a", a, "done a 1")
				synctest.Wait()
				cancel() // b is being executed, c waits for it, d has not come
				checkResult(t, "b, cancelled", b, memoryv1.Reason_REASON_SERVICE_UNREACHABLE.String())
				checkResult(t, "c, cancelled", c, memoryv1.Reason_REASON_SERVICE_UNREACHABLE.String())
				checkIDs(t, e, "a", "b")

				results := make(map[string]<-chan string)
				for _, id := range arrival {
					results[id] = visit(t.Context(), &o, message, inputOf(id), e)
				}
				for id, want := range map[string]string{"a": "done a 1", "b": "done b 2", "c": "done c 1", "d": "done d 1"} {
					checkResult(t, id+", again", results[id], want)
				}
				checkIDs(t, e, "a", "b", "b", "c", "d")

				// And once more: nothing is executed anymore.
				for _, id := range arrival {
					if got := <-visit(t.Context(), &o, message, inputOf(id), e); !strings.HasPrefix(got, "done "+id) {
						t.Errorf("%s, once more: got %q", id, got)
					}
				}
				checkIDs(t, e, "a", "b", "b", "c", "d")
			})
		})
	}
}

// A call that had no answer to keep is waited for again by those after it, when the turn is run again.
func TestOrder_TurnIsRunAgainAfterTrouble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := order{arrivalTimeout: DefaultArrivalTimeout}
		e := &executions{answers: map[string]client.Result{
			"a": {IsError: true, Reason: memoryv1.Reason_REASON_TOO_MANY_CALLS},
		}}
		message := turnOf(t, "a", "b")
		ctx, cancel := context.WithCancel(t.Context())
		<-visit(ctx, &o, message, inputOf("a"), e)
		cancel() // b has not come

		delete(e.answers, "a")
		b := visit(t.Context(), &o, message, inputOf("b"), e)
		time.Sleep(DefaultArrivalTimeout / 2)
		a := visit(t.Context(), &o, message, inputOf("a"), e)
		checkResult(t, "a", a, "done a 2")
		checkResult(t, "b", b, "done b 1")
		checkIDs(t, e, "a", "a", "b")
	})
}

// What wraps the tool may give every call a context of its own. One that ends early lets nobody wait forever.
func TestOrder_ContextOfOneCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := order{arrivalTimeout: DefaultArrivalTimeout}
		e := &executions{}
		message := turnOf(t, "a", "b", "c")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second/2)
		defer cancel()
		deaf := func(_ context.Context, id string, input json.RawMessage) client.Result {
			return e.handle(context.Background(), id, input) // takes longer
		}
		c := visit(t.Context(), &o, message, inputOf("c"), e)
		a := make(chan struct{})
		go func() {
			defer close(a)
			o.run(ctx, message, []byte(inputOf("a")), deaf)
		}()
		<-ctx.Done()
		b := visit(t.Context(), &o, message, inputOf("b"), e)
		<-a
		checkResult(t, "b", b, "done b 1")
		checkResult(t, "c", c, "done c 1")
		checkIDs(t, e, "a", "b", "c")
	})
}

// A context that ends while a call waits ends the wait.
func TestOrder_CancelledWhileWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := order{arrivalTimeout: DefaultArrivalTimeout}
		e := &executions{}
		message := turnOf(t, "a", "b")
		ctx, cancel := context.WithCancel(t.Context())
		b := visit(ctx, &o, message, inputOf("b"), e)
		start := time.Now()
		cancel()
		if got, want := <-b, memoryv1.Reason_REASON_SERVICE_UNREACHABLE.String(); got != want || time.Since(start) != 0 {
			t.Errorf("got %q after %v, want %q at once", got, time.Since(start), want)
		}
		checkIDs(t, e)
	})
}

// Only what the command itself had for an answer is kept.
func TestOrder_WhatIsKept(t *testing.T) {
	for reason, kept := range map[memoryv1.Reason]bool{
		memoryv1.Reason_REASON_UNSPECIFIED:          true,
		memoryv1.Reason_REASON_STR_REPLACE_NO_MATCH: true,
		memoryv1.Reason_REASON_READ_ONLY:            true,
		memoryv1.Reason_REASON_NOT_PERMITTED:        true,
		memoryv1.Reason_REASON_SERVICE_UNREACHABLE:  false,
		memoryv1.Reason_REASON_OUTCOME_UNKNOWN:      false,
		memoryv1.Reason_REASON_SERVICE_PROBLEM:      false,
		memoryv1.Reason_REASON_TOO_MANY_CALLS:       false,
	} {
		t.Run(reason.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := order{arrivalTimeout: DefaultArrivalTimeout}
				e := &executions{answers: map[string]client.Result{
					"a": {IsError: reason != memoryv1.Reason_REASON_UNSPECIFIED, Reason: reason},
				}}
				message := turnOf(t, "a", "b", "c")
				start := time.Now()
				b := visit(t.Context(), &o, message, inputOf("b"), e)
				<-visit(t.Context(), &o, message, inputOf("a"), e)
				if got := <-b; got != "done b 1" || time.Since(start) != 2*time.Second {
					t.Errorf("b: got %q after %v, want it right after a", got, time.Since(start))
				}
				if got := <-visit(t.Context(), &o, message, inputOf("c"), e); got != "done c 1" || time.Since(start) != 3*time.Second {
					t.Errorf("c, which comes late: got %q after %v, want it right after b", got, time.Since(start))
				}
				<-visit(t.Context(), &o, message, inputOf("a"), e)
				if kept {
					checkIDs(t, e, "a", "b", "c")
				} else {
					checkIDs(t, e, "a", "b", "c", "a")
				}
			})
		})
	}
}

// Calls with equal inputs are all executed, each at its place, and have their own results again.
func TestOrder_EqualInputs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := order{arrivalTimeout: DefaultArrivalTimeout}
		e := &executions{}
		const view = `{"command":"view"}`
		message := messageOf(t, memoryCall("v1", view), memoryCall("a", inputOf("a")), memoryCall("v2", view), memoryCall("v3", view))
		for range 2 {
			var views []<-chan string
			for range 2 {
				views = append(views, visit(t.Context(), &o, message, view, e))
			}
			a := visit(t.Context(), &o, message, inputOf("a"), e)
			views = append(views, visit(t.Context(), &o, message, view, e))
			var got []string
			for _, result := range views {
				got = append(got, <-result)
			}
			slices.Sort(got)
			if diff := cmp.Diff([]string{"done v1 1", "done v2 1", "done v3 1"}, got); diff != "" {
				t.Errorf("results (-want +got):\n%s", diff)
			}
			checkResult(t, "a", a, "done a 1")
			checkIDs(t, e, "v1", "a", "v2", "v3")
		}
	})
}

// Of calls with equal inputs, one that had no answer to keep is executed when the turn is run again, and the other is
// not.
func TestOrder_EqualInputsAfterTrouble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := order{arrivalTimeout: DefaultArrivalTimeout}
		e := &executions{answers: map[string]client.Result{
			"v1": {IsError: true, Reason: memoryv1.Reason_REASON_TOO_MANY_CALLS},
		}}
		const view = `{"command":"view"}`
		message := messageOf(t, memoryCall("v1", view), memoryCall("v2", view))
		ctx, cancel := context.WithCancel(t.Context())
		checkResult(t, "v1", visit(ctx, &o, message, view, e), memoryv1.Reason_REASON_TOO_MANY_CALLS.String())
		checkResult(t, "v2", visit(ctx, &o, message, view, e), "done v2 1")
		cancel()
		delete(e.answers, "v1")
		first, second := visit(t.Context(), &o, message, view, e), visit(t.Context(), &o, message, view, e)
		checkResult(t, "v1, again", first, "done v1 2")
		checkResult(t, "v2, again", second, "done v2 1")
		checkIDs(t, e, "v1", "v2", "v1")
	})
}

// A call that comes again while it is executed is not executed a second time.
func TestOrder_CallComesTwiceAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := order{arrivalTimeout: DefaultArrivalTimeout}
		e := &executions{}
		message := turnOf(t, "a", "b")
		first := visit(t.Context(), &o, message, inputOf("a"), e)
		b := visit(t.Context(), &o, message, inputOf("b"), e)
		second := visit(t.Context(), &o, message, inputOf("a"), e)
		checkResult(t, "first", first, "done a 1")
		checkResult(t, "second", second, "done a 1")
		checkResult(t, "b", b, "done b 1")
		checkIDs(t, e, "a", "b")
	})
}

// All answers are asked for while the runner is at the turn: every call is executed once, in order, and both read the
// same.
func TestOrder_AllAnswersBesideTheRunner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := order{arrivalTimeout: DefaultArrivalTimeout}
		failed := client.Result{IsError: true, Reason: memoryv1.Reason_REASON_CREATE_PATH_EXISTS}
		e := &executions{answers: map[string]client.Result{"a": failed}}
		message := turnOf(t, "a", "b", "c")
		c := visit(t.Context(), &o, message, inputOf("c"), e)
		b := visit(t.Context(), &o, message, inputOf("b"), e)
		a := visit(t.Context(), &o, message, inputOf("a"), e)
		calls := o.take(message)
		for at, want := range []string{"", "done b 1", "done c 1"} {
			if got := o.answer(t.Context(), calls, at, e.handle); got.Text() != want || got.IsError != (at == 0) {
				t.Errorf("%s: got %v, want %q", calls[at].id, got, want)
			}
		}
		checkResult(t, "a", a, failed.Reason.String())
		checkResult(t, "b", b, "done b 1")
		checkResult(t, "c", c, "done c 1")
		checkIDs(t, e, "a", "b", "c")
	})
}

// A call that comes again while it is executed is executed after that, once, if there is no answer to keep.
func TestOrder_CallComesAgainAndHasTrouble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := order{arrivalTimeout: DefaultArrivalTimeout}
		e := &executions{}
		message := turnOf(t, "a")
		ctx, cancel := context.WithCancel(t.Context())
		first := visit(ctx, &o, message, inputOf("a"), e)
		second := visit(t.Context(), &o, message, inputOf("a"), e)
		third := visit(t.Context(), &o, message, inputOf("a"), e)
		cancel()
		checkResult(t, "first", first, memoryv1.Reason_REASON_SERVICE_UNREACHABLE.String())
		checkResult(t, "second", second, "done a 2")
		checkResult(t, "third", third, "done a 2")
		checkIDs(t, e, "a", "a")
	})
}

// A call that waits for itself waits no longer than its context lasts, and the calls after it still wait for the other.
func TestOrder_CancelledWhileItIsExecuted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := order{arrivalTimeout: DefaultArrivalTimeout}
		e := &executions{}
		message := turnOf(t, "a", "b")
		first := visit(t.Context(), &o, message, inputOf("a"), e)
		ctx, cancel := context.WithCancel(t.Context())
		second := visit(ctx, &o, message, inputOf("a"), e)
		start := time.Now()
		cancel()
		checkResult(t, "second", second, memoryv1.Reason_REASON_SERVICE_UNREACHABLE.String())
		if got := time.Since(start); got != 0 {
			t.Errorf("the second took %v, want no wait", got)
		}
		checkResult(t, "b", visit(t.Context(), &o, message, inputOf("b"), e), "done b 1")
		checkResult(t, "first", first, "done a 1")
		checkIDs(t, e, "a", "b")
	})
}

// The next message begins anew, even where it is the same in all but its address.
func TestOrder_NextMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := order{arrivalTimeout: DefaultArrivalTimeout}
		e := &executions{}
		for range 3 {
			message := turnOf(t, "a", "b")
			b := visit(t.Context(), &o, message, inputOf("b"), e)
			<-visit(t.Context(), &o, message, inputOf("a"), e)
			<-b
		}
		checkIDs(t, e, "a", "b", "a", "b", "a", "b")
	})
}
