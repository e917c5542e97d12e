package auth

import (
	"errors"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// ErrUnauthenticated is the one error of Authenticate. Its text goes to callers and tells nobody what was nearly right.
var ErrUnauthenticated = errors.New("no valid credential: send the metadata \"authorization: Bearer TOKEN\" with a " +
	"token that is known here, or connect with a client certificate that is trusted here")

// unauthenticatedError is ErrUnauthenticated with its cause, which is for the log and never holds a credential.
type unauthenticatedError struct {
	cause     error
	throttled bool
}

// Error returns the text of ErrUnauthenticated.
func (e *unauthenticatedError) Error() string { return ErrUnauthenticated.Error() }

// Is tells that the error is ErrUnauthenticated.
func (e *unauthenticatedError) Is(target error) bool { return target == ErrUnauthenticated }

// Unwrap returns the cause.
func (e *unauthenticatedError) Unwrap() error { return e.cause }

// GRPCStatus returns the status that a call ends with.
func (e *unauthenticatedError) GRPCStatus() *status.Status {
	return status.New(codes.Unauthenticated, e.Error())
}

// IsThrottled tells whether a failure of Authenticate was one too many from its address, so that there is no line in
// the log for each of them.
func IsThrottled(err error) bool {
	var failure *unauthenticatedError
	return errors.As(err, &failure) && failure.throttled
}
