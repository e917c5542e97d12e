package main

import (
	"context"
	"time"

	memoryv1 "github.com/seed-7f2870e1/memoryd/gen/memoryd/v1"
)

// ratePause is how long to wait after a call that was one too many: rates are counted by the second.
const ratePause = time.Second

// withinRate makes one of the many calls of a command, and makes it again after a pause where the namespace has had too
// many: who asked for all of them wants to wait.
func withinRate[R interface{ GetResult() *memoryv1.ToolResult }](
	ctx context.Context, call func() (R, error),
) (R, error) {
	for {
		resp, err := call()
		if err != nil || resp.GetResult().GetReason() != memoryv1.Reason_REASON_TOO_MANY_CALLS {
			return resp, err
		}
		pause := time.NewTimer(ratePause)
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			return resp, ctx.Err()
		}
	}
}
