package rpc

import (
	"context"
	"errors"
	"strconv"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/seed-7f2870e1/memoryd/server/internal/auth"
	"github.com/seed-7f2870e1/memoryd/server/kv"
	"github.com/seed-7f2870e1/memoryd/server/memory"
)

// Domain is the domain of the google.rpc.ErrorInfo of every status.
const Domain = "memoryd"

// Keys of the metadata of an ErrorInfo.
const (
	// MetadataNothingChanged is "true" where the service knows that the call changed nothing.
	MetadataNothingChanged = "nothing_changed"
	// MetadataField names the field of the request that is wrong.
	MetadataField = "field"
	// MetadataPath names the file or directory whose data are damaged.
	MetadataPath = "path"
	// MetadataNamespace names its namespace.
	MetadataNamespace = "namespace"
)

// retryAfter is what an overloaded service asks callers to wait.
const retryAfter = time.Second

// Errors of the service itself.
var (
	// ErrOverloaded means that the service has more calls to do than it takes on.
	ErrOverloaded = errors.New("too many calls at once")
	// ErrNotPermitted means that the caller may not do that, whether what it is about exists or not.
	ErrNotPermitted = errors.New("not permitted")
	// ErrNamespaceReadOnly means that the caller may read the namespace and not change it.
	ErrNamespaceReadOnly = errors.New("the caller may only read")
)

// outcome is what callers are told of an error: a short ASCII text that names no path of the host and no error of Go.
type outcome struct {
	code      codes.Code
	reason    string
	text      string
	unchanged bool // the service knows that nothing was changed
}

// outcomes is in order: the first whose error is found in the chain applies. ErrUnknown stands first, since an engine
// may wrap with it why the answer was lost.
var outcomes = []struct {
	err error
	outcome
}{
	{kv.ErrUnknown, outcome{
		codes.Unknown, "OUTCOME_UNKNOWN",
		"the answer of the store was lost; the change may or may not have been made", false,
	}},
	{kv.ErrBusy, outcome{codes.Unavailable, "STORE_BUSY", "the store is busy", true}},
	{kv.ErrClosed, outcome{codes.Unavailable, "STORE_CLOSED", "the service is stopping", true}},
	{kv.ErrFull, outcome{codes.ResourceExhausted, "STORE_FULL", "the store is full", true}},
	{kv.ErrReadOnly, outcome{codes.FailedPrecondition, "STORE_READ_ONLY", "the store is read-only", true}},
	{kv.ErrCorrupt, outcome{codes.DataLoss, "STORE_CORRUPT", "stored data are damaged", true}},
	{kv.ErrTooLarge, outcome{codes.Internal, "INTERNAL", "internal error", true}},
	{memory.ErrRequestIDReused, outcome{
		codes.InvalidArgument, "REQUEST_ID_REUSED", "the request_id was used before for a different command", true,
	}},
	{memory.ErrNoNamespace, outcome{codes.NotFound, "NAMESPACE_NOT_FOUND", "no such namespace", true}},
	{auth.ErrUnauthenticated, outcome{
		codes.Unauthenticated, "UNAUTHENTICATED", auth.ErrUnauthenticated.Error(), true,
	}},
	{ErrNotPermitted, outcome{codes.PermissionDenied, "NOT_PERMITTED", "the caller has no right to do that", true}},
	{ErrNamespaceReadOnly, outcome{
		codes.PermissionDenied, "NAMESPACE_READ_ONLY", "the caller may read the namespace and not change it", true,
	}},
	{ErrOverloaded, outcome{codes.ResourceExhausted, "OVERLOADED", "too many calls at once", true}},
	// A transaction gives the error of the context only where it was not begun.
	{context.DeadlineExceeded, outcome{codes.DeadlineExceeded, "DEADLINE_EXCEEDED", "the deadline passed", true}},
	{context.Canceled, outcome{codes.Canceled, "CANCELLED", "the call was cancelled", true}},
}

// internal is what callers are told of an error that nobody expected.
var internal = outcome{codes.Internal, "INTERNAL", "internal error", false}

// StatusError maps any error to one whose status is meant for callers; the error itself is its cause, for the log (see
// Cause). An error that is a status already, and nil, pass.
func StatusError(err error) error { return statusError(err, true) }

// LateStatusError is StatusError for an error after which something may have changed nevertheless, since it came after
// the transaction, or after the first of several.
func LateStatusError(err error) error { return statusError(err, false) }

func statusError(err error, early bool) error {
	if _, ok := status.FromError(err); ok && !errors.Is(err, auth.ErrUnauthenticated) { // which lacks an ErrorInfo
		return err
	}
	var inv *memory.InvalidError
	if errors.As(err, &inv) {
		o := outcome{codes.InvalidArgument, "INVALID_REQUEST", inv.Text, true}
		if inv.Field == fieldNamespace {
			o.reason = "INVALID_NAMESPACE"
		}
		return o.because(err, map[string]string{MetadataField: inv.Field})
	}
	metadata := map[string]string{}
	for _, known := range outcomes {
		if errors.Is(err, known.err) {
			o := known.outcome
			var damaged *memory.DamagedError
			if errors.As(err, &damaged) {
				metadata[MetadataPath] = damaged.Path
				metadata[MetadataNamespace] = damaged.Namespace
				o.text = "stored data of " + strconv.QuoteToASCII(damaged.Path) + " in namespace " + damaged.Namespace +
					" are damaged"
			}
			o.unchanged = o.unchanged && (early || o.code == codes.NotFound)
			return o.because(err, metadata)
		}
	}
	return internal.because(err, metadata)
}

// because makes the error of an outcome.
func (o outcome) because(cause error, metadata map[string]string) error {
	if o.unchanged {
		metadata[MetadataNothingChanged] = "true"
	}
	details := []protoadapt.MessageV1{
		&errdetails.ErrorInfo{Reason: o.reason, Domain: Domain, Metadata: metadata},
	}
	if o.reason == "OVERLOADED" {
		details = append(details, &errdetails.RetryInfo{RetryDelay: durationpb.New(retryAfter)})
	}
	st, err := status.New(o.code, o.text).WithDetails(details...)
	if err != nil { // Only for a code of OK, which no outcome has.
		st = status.New(o.code, o.text)
	}
	return &callError{status: st, cause: cause}
}

// WithRequestID adds to the status of an error the id by which its call is found again, as a google.rpc.RequestInfo.
// One that it has already stays. An error that is no status becomes the one that gRPC would make of it.
func WithRequestID(err error, id string) error {
	st, ok := status.FromError(err)
	if !ok {
		st = status.FromContextError(err)
	}
	for _, detail := range st.Proto().GetDetails() {
		if detail.MessageIs((*errdetails.RequestInfo)(nil)) {
			return err
		}
	}
	with, detailErr := st.WithDetails(&errdetails.RequestInfo{RequestId: id})
	if detailErr != nil { // Only for a code of OK, which no error has.
		return err
	}
	var known *callError
	if errors.As(err, &known) {
		err = known.cause
	}
	return &callError{status: with, cause: err}
}

// callError is a status for the caller, and its cause for the log.
type callError struct {
	status *status.Status
	cause  error
}

// Error implements error with the text that the caller sees.
func (e *callError) Error() string { return e.status.Message() }

// GRPCStatus is where gRPC finds the status.
func (e *callError) GRPCStatus() *status.Status { return e.status }

// Unwrap returns the cause.
func (e *callError) Unwrap() error { return e.cause }

// Cause returns what the log should say of the error of a call: the cause that the caller is not told, else the error.
func Cause(err error) error {
	var e *callError
	if !errors.As(err, &e) {
		return err
	}
	if cause := errors.Unwrap(e.cause); cause != nil && errors.Is(e.cause, auth.ErrUnauthenticated) {
		return cause // The error itself says only what everybody is told.
	}
	return e.cause
}
