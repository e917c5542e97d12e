package client

import (
	"context"
	"encoding/json"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	memoryv1 "github.com/seed-7f2870e1/memoryd/gen/memoryd/v1"
)

func rateRefusal() *memoryv1.ExecuteResponse {
	return &memoryv1.ExecuteResponse{Result: &memoryv1.ToolResult{
		IsError: true, Reason: memoryv1.Reason_REASON_TOO_MANY_CALLS,
		Content: textContent("Error: Too many memory calls. Wait 1 seconds and try again."),
	}}
}

// The answer of a change is lost, and the call that asks for it again is one too many. "Try again" would be read as if
// nothing had been changed.
func TestHandle_TooManyCallsAfterALostAnswer(t *testing.T) {
	for name, tt := range map[string]struct {
		refusals int
		want     memoryv1.Reason
	}{
		"until it is known":            {2, memoryv1.Reason_REASON_UNSPECIFIED},
		"for as long as there is time": {1000, memoryv1.Reason_REASON_OUTCOME_UNKNOWN},
	} {
		t.Run(name, func(t *testing.T) {
			calls := 0
			c, _ := start(t, &fake{execute: func(context.Context, *memoryv1.ExecuteRequest) (*memoryv1.ExecuteResponse, error) {
				calls++
				switch {
				case calls == 1:
					return nil, status.Error(codes.Unavailable, "the connection is gone") // made on the way
				case calls <= 1+tt.refusals:
					return rateRefusal(), nil
				default:
					return textResponse("done"), nil
				}
			}})
			got := c.Handler("").Handle(t.Context(), json.RawMessage(createInput))
			if got.Reason != tt.want {
				t.Errorf("got %s after %d calls: %s; want %s", got.Reason, calls, got.Text(), tt.want)
			}
		})
	}
}

// A first call that is one too many is the model's to repeat.
func TestHandle_TooManyCalls(t *testing.T) {
	calls := 0
	c, _ := start(t, &fake{execute: func(context.Context, *memoryv1.ExecuteRequest) (*memoryv1.ExecuteResponse, error) {
		calls++
		return rateRefusal(), nil
	}})
	got := c.Handler("").Handle(t.Context(), json.RawMessage(createInput))
	if got.Reason != memoryv1.Reason_REASON_TOO_MANY_CALLS || calls != 1 {
		t.Errorf("got %s after %d calls, want %s after one", got.Reason, calls, memoryv1.Reason_REASON_TOO_MANY_CALLS)
	}
}
