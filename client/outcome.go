package client

import (
	"fmt"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	memoryv1 "github.com/seed-7f2870e1/memoryd/gen/memoryd/v1"
)

// The texts of the service itself. Other texts are the server's.
const (
	textUnreachable = "Error: The memory service cannot be reached right now. Nothing was changed. Try again later."
	textUnknown     = "Error: The memory service did not answer in time. The change may or may not have been made. " +
		"View %s before you try again."
	textProblem       = "Error: The memory service has a problem. Nothing was changed. Try again later."
	textNotPermitted  = "Error: Access to this memory is not permitted"
	textReadOnly      = "Error: This memory is read-only"
	textTooManyCalls  = "Error: Too many memory calls. Wait %d seconds and try again."
	textRequestReused = "Error: This tool call id was already used for a different command"
	textBatchTooLarge = "Error: The batch has more than 16.0M. Split it into several."
	textFileTooLarge  = "Error: File %s exceeds the maximum size of %s. " +
		"Shorten the content or split it into several files."
)

// failedResult is what the model reads about a call that failed with err.
func failedResult(err error, input inputFacts) Result {
	if MayHaveBeenMade(err) {
		return unknownResult(input)
	}
	st := status.Convert(err)
	info := errorInfo(st)
	switch code := st.Code(); {
	case info.GetReason() == reasonStoreReadOnly || info.GetReason() == reasonNamespaceReadOnly:
		return errorResult(memoryv1.Reason_REASON_READ_ONLY, textReadOnly)
	case code == codes.PermissionDenied || code == codes.Unauthenticated:
		return errorResult(memoryv1.Reason_REASON_NOT_PERMITTED, textNotPermitted)
	case info.GetReason() == reasonRequestIDReused:
		return errorResult(memoryv1.Reason_REASON_REQUEST_ID_REUSED, textRequestReused)
	case code == codes.ResourceExhausted:
		if delay, ok := retryDelay(st); ok {
			seconds := max(1, int64((delay+time.Second-1)/time.Second))
			return errorResult(memoryv1.Reason_REASON_TOO_MANY_CALLS, fmt.Sprintf(textTooManyCalls, seconds))
		}
	case info == nil && isNoAnswer(code):
		return errorResult(memoryv1.Reason_REASON_SERVICE_UNREACHABLE, textUnreachable)
	}
	return errorResult(memoryv1.Reason_REASON_SERVICE_PROBLEM, textProblem)
}

// unknownResult is what the model reads about a change that may have been made.
func unknownResult(input inputFacts) Result {
	return errorResult(memoryv1.Reason_REASON_OUTCOME_UNKNOWN, fmt.Sprintf(textUnknown, input.path))
}

// isNoAnswer tells whether gRPC uses the code for an answer that did not come.
func isNoAnswer(code codes.Code) bool {
	switch code {
	case codes.Unavailable, codes.DeadlineExceeded, codes.Canceled, codes.Unknown:
		return true
	default:
		return false
	}
}

func errorResult(reason memoryv1.Reason, text string) Result {
	return Result{
		IsError: true,
		Reason:  reason,
		Content: []*memoryv1.Content{{Block: &memoryv1.Content_Text{Text: text}}},
	}
}
