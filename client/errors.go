package client

import (
	"errors"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// errorDomain is the domain of the ErrorInfo that every status of the service carries. A status without one was made
// on the way: by gRPC on either side, or by a proxy between them.
const errorDomain = "memoryd"

// Reasons of the service that the client acts on.
const (
	reasonNamespaceNotFound = "NAMESPACE_NOT_FOUND"
	reasonNamespaceReadOnly = "NAMESPACE_READ_ONLY" // for this caller
	reasonOutcomeUnknown    = "OUTCOME_UNKNOWN"
	reasonRequestIDReused   = "REQUEST_ID_REUSED"
	reasonStoreReadOnly     = "STORE_READ_ONLY"
)

// Reason returns the reason that the service gives for the error of a call, such as "INVALID_NAMESPACE"; "" where the
// error does not come from the service.
func Reason(err error) string {
	info := errorInfo(status.Convert(err))
	return info.GetReason()
}

// RequestID returns the id under which the log of the service, and its audit trail, have the call that failed with err;
// "" where the error does not come from the service. Whoever runs the service finds the call by it. It is not the
// request_id of a request, which makes a change happen once. It is at most 128 characters of printable ASCII.
func RequestID(err error) string {
	return printable(requestInfo(status.Convert(err)).GetRequestId())
}

// IsUnreachable tells whether the error of a call means that no answer came from the service: it could not be reached,
// the connection was lost, or the deadline passed without a word from it. A write may have been made nevertheless.
func IsUnreachable(err error) bool {
	st, ok := status.FromError(err)
	if !ok || errorInfo(st) != nil {
		return false
	}
	return st.Code() == codes.Unavailable || st.Code() == codes.DeadlineExceeded
}

// MayHaveBeenMade tells whether a change may have been made although its call failed with err: the request may have
// reached the service, in the last attempt or one before it, and what became of it is not known. Where it is false
// nothing was changed, and so always for what only reads.
func MayHaveBeenMade(err error) bool {
	var unsure *unsureError
	return errors.As(err, &unsure)
}

// unsureError is the error of a change that may have been made.
type unsureError struct{ error }

// Unwrap returns the error of the last attempt.
func (e *unsureError) Unwrap() error { return e.error }

// GRPCStatus is where gRPC finds the status, which else would get another text for an error that is wrapped.
func (e *unsureError) GRPCStatus() *status.Status { return status.Convert(e.error) }

// errorInfo returns what the service says about the error, nil where it was not the service that made it.
func errorInfo(st *status.Status) *errdetails.ErrorInfo {
	for _, d := range st.Details() {
		if info, ok := d.(*errdetails.ErrorInfo); ok && info.GetDomain() == errorDomain {
			return info
		}
	}
	return nil
}

// requestInfo returns what the service says about the call, nil where it was not the service that made the error.
func requestInfo(st *status.Status) *errdetails.RequestInfo {
	for _, d := range st.Details() {
		if info, ok := d.(*errdetails.RequestInfo); ok {
			return info
		}
	}
	return nil
}

// identifiedError is an error whose text tells the id of its call.
type identifiedError struct {
	error
	id string
}

// Error implements error.
func (e *identifiedError) Error() string { return e.error.Error() + " (request id " + e.id + ")" }

// Unwrap returns the error without the id.
func (e *identifiedError) Unwrap() error { return e.error }

// GRPCStatus is where gRPC finds the status, whose message has no id.
func (e *identifiedError) GRPCStatus() *status.Status { return status.Convert(e.error) }

// identified adds to the text of an error the id of its call, where it has one.
func identified(err error) error {
	id := RequestID(err)
	if id == "" {
		return err
	}
	return &identifiedError{err, id}
}

// printable returns the beginning of an id with a "?" for all that is not printable ASCII: it may be written to a
// terminal, whoever made it.
func printable(id string) string {
	const most = 128
	visible := func(r rune) rune {
		if r < '!' || r > '~' {
			return '?'
		}
		return r
	}
	return strings.Map(visible, id[:min(len(id), most)])
}

// retryDelay returns how long the service asks to wait before the next try.
func retryDelay(st *status.Status) (delay time.Duration, ok bool) {
	for _, d := range st.Details() {
		if info, ok := d.(*errdetails.RetryInfo); ok {
			return info.GetRetryDelay().AsDuration(), true
		}
	}
	return 0, false
}
