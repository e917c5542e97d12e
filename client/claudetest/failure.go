package claudetest

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"time"
)

// The types of errors that the API tells apart; see https://platform.claude.com/docs/en/api/errors.
const (
	errInvalidRequest  = "invalid_request_error"
	errAuthentication  = "authentication_error"
	errNotFound        = "not_found_error"
	errRequestTooLarge = "request_too_large"
	errRateLimit       = "rate_limit_error"
	errAPI             = "api_error"
	errOverloaded      = "overloaded_error"
)

// statusOverloaded is the status of an overloaded_error, which net/http has no name for.
const statusOverloaded = 529

// Failure is an error of the API. The zero values are those of an api_error, status 500.
type Failure struct {
	// Status is the HTTP status, 400 to 599; any other is a mistake of the test. In the middle of a stream, which has
	// one already, it has no meaning.
	Status int
	// Type is the type of the error, e.g. "overloaded_error".
	Type string
	// Message is for people.
	Message string
	// ErrorCode is error.details.error_code, e.g. "thread_not_found"; empty for an error without details.
	ErrorCode string
	// Unsupported is error.details.unsupported of a thread_unsupported_request: the fields that threads do not take.
	Unsupported []string
	// RetryAfter is when to try again, in the headers retry-after (whole seconds, rounded up) and retry-after-ms. 0
	// leaves them out.
	RetryAfter time.Duration
}

// Overloaded is the overloaded_error, status 529.
func Overloaded() Failure {
	return Failure{Status: statusOverloaded, Type: errOverloaded, Message: "Overloaded"}
}

// RateLimited is the rate_limit_error, status 429; see Failure.RetryAfter.
func RateLimited(retryAfter time.Duration) Failure {
	return Failure{
		Status: http.StatusTooManyRequests, Type: errRateLimit, RetryAfter: retryAfter,
		Message: "This request would exceed your organization's rate limit",
	}
}

// Invalid is an invalid_request_error, status 400.
func Invalid(message string) Failure {
	return Failure{Status: http.StatusBadRequest, Type: errInvalidRequest, Message: message}
}

// check returns what makes the failure none of the API.
func (f Failure) check() error {
	if f.Status != 0 && (f.Status < 400 || f.Status > 599) {
		return fmt.Errorf("a Failure has the status %d, and must have one of 400 to 599", f.Status)
	}
	return nil
}

// filled returns the failure with its zero values filled in.
func (f Failure) filled() Failure {
	if f.Status == 0 {
		f.Status = http.StatusInternalServerError
	}
	if f.Type == "" {
		f.Type = errAPI
	}
	if f.Message == "" {
		f.Message = "Internal server error"
	}
	return f
}

// body returns the JSON of the error, which is also the data of an error event.
func (f Failure) body(requestID string) []byte {
	f = f.filled()
	type details struct {
		ErrorCode   string   `json:"error_code"`
		Unsupported []string `json:"unsupported,omitempty"`
	}
	type apiError struct {
		Type    string   `json:"type"`
		Message string   `json:"message"`
		Details *details `json:"details,omitempty"`
	}
	e := apiError{Type: f.Type, Message: f.Message}
	if f.ErrorCode != "" {
		e.Details = &details{f.ErrorCode, f.Unsupported}
	}
	body, err := json.Marshal(struct {
		Type      string   `json:"type"`
		Error     apiError `json:"error"`
		RequestID string   `json:"request_id"`
	}{"error", e, requestID})
	if err != nil {
		panic(err) // strings only
	}
	return body
}

// write answers a request.
func (f Failure) write(w http.ResponseWriter, requestID string) {
	f = f.filled()
	if f.RetryAfter > 0 {
		w.Header().Set("retry-after", strconv.FormatInt(int64(math.Ceil(f.RetryAfter.Seconds())), 10))
		w.Header().Set("retry-after-ms", strconv.FormatInt(max(f.RetryAfter.Milliseconds(), 1), 10))
	}
	w.Header().Set("content-type", "application/json")
	w.WriteHeader(f.Status)
	_, _ = w.Write(f.body(requestID)) // the client may be gone
}
