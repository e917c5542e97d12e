package agentkit

import (
	"errors"
	"fmt"
	"strings"

	"github.com/anthropics/anthropic-sdk-go/v2"
)

// Outcome is what comes of a session. The zero Outcome is recorded with the files that changed in the session.
type Outcome struct {
	// Done is what the session did.
	Done string
	// Next is what comes next.
	Next string
	// Err is why the session ended before its time; nil where it did not. Its text goes into memory, on one line and up
	// to 500 bytes.
	Err error
}

// ErrStopped is in the error of an Outcome whose model stopped before it came to the end of its turn.
var ErrStopped = errors.New("the model stopped")

// OutcomeOf returns what a session has come to, given the last message of a tool runner, which may be nil, and its
// error:
//
//	last, err := runner.RunToCompletion(ctx)
//	err = session.Close(ctx, agentkit.OutcomeOf(last, err))
//
// Where the model came to the end of its turn (the stop reasons end_turn and stop_sequence), Done is how its last text
// begins: the first paragraph; empty if it said nothing. Else the work is not done, whatever the model wrote: Err is
// err, or an ErrStopped that says why the model stopped. So it is where the last message is the summary of a
// compaction. Next is left to the caller.
func OutcomeOf(last *anthropic.BetaMessage, err error) Outcome {
	switch {
	case err != nil:
		return Outcome{Err: err}
	case last == nil:
		return Outcome{Err: errors.New("there is no message of the model")}
	}
	if err := checkStop(last.StopReason); err != nil {
		return Outcome{Err: err}
	}
	return Outcome{Done: firstParagraph(last)}
}

// checkStop returns an error unless a reason to stop is that the model came to the end of its turn. A tool runner ends
// with a turn that wants to go on only where it has no turn left.
func checkStop(reason anthropic.BetaStopReason) error {
	switch reason {
	case anthropic.BetaStopReasonEndTurn, anthropic.BetaStopReasonStopSequence:
		return nil
	case anthropic.BetaStopReasonRefusal:
		return fmt.Errorf("%w: it refused to go on", ErrStopped)
	case anthropic.BetaStopReasonMaxTokens:
		return fmt.Errorf("%w: its answer was cut off at max_tokens, and the tool calls in it were not made", ErrStopped)
	case anthropic.BetaStopReasonModelContextWindowExceeded:
		return fmt.Errorf("%w: the conversation is too long for it", ErrStopped)
	case anthropic.BetaStopReasonToolUse, anthropic.BetaStopReasonPauseTurn:
		return fmt.Errorf("%w: it has had all its turns", ErrStopped)
	case anthropic.BetaStopReasonCompaction:
		return fmt.Errorf("%w: the conversation was summarized, and it has had no turn since", ErrStopped)
	default:
		return fmt.Errorf("%w: the reason is %q", ErrStopped, reason)
	}
}

// firstParagraph returns how the last text of a message begins.
func firstParagraph(m *anthropic.BetaMessage) string {
	text := ""
	for _, block := range m.Content {
		if block.Type == "text" && strings.TrimSpace(block.Text) != "" {
			text = strings.TrimSpace(block.Text)
		}
	}
	text, _, _ = strings.Cut(text, "\n\n")
	return text
}
