package rpc

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/seed-7f2870e1/memoryd/server/kv"
	"github.com/seed-7f2870e1/memoryd/server/memory"
)

// told is what a caller is told of an error.
type told struct {
	Code       codes.Code
	Reason     string
	Metadata   map[string]string
	RetryDelay time.Duration
}

func toldOf(t *testing.T, err error) told {
	t.Helper()
	st, ok := status.FromError(err)
	if !ok {
		t.Fatalf("%v is no status", err)
	}
	got := told{Code: st.Code()}
	for _, d := range st.Details() {
		switch d := d.(type) {
		case *errdetails.ErrorInfo:
			got.Reason, got.Metadata = d.GetReason(), d.GetMetadata()
			if d.GetDomain() != "memoryd" {
				t.Errorf("got domain %q, want memoryd", d.GetDomain())
			}
		case *errdetails.RetryInfo:
			got.RetryDelay = d.GetRetryDelay().AsDuration()
		default:
			t.Errorf("got a detail %T", d)
		}
	}
	for _, c := range st.Message() {
		if c < ' ' || c > '~' {
			t.Errorf("message %q is not plain ASCII", st.Message())
		}
	}
	return got
}

// same tells whether two errors are one and the same, and not merely in one chain.
func same(a, b any) bool { return a == b }

var unchanged = map[string]string{"nothing_changed": "true"}

func field(name string) map[string]string {
	return map[string]string{"field": name, "nothing_changed": "true"}
}

func TestStatusError(t *testing.T) {
	disk := errors.New("write /var/lib/memoryd/memoryd.db: input/output error")
	tests := []struct {
		name string
		err  error
		want told
	}{
		{"unknown", fmt.Errorf("commit: %w", kv.ErrUnknown), told{codes.Unknown, "OUTCOME_UNKNOWN", nil, 0}},
		{
			"unknown because of the deadline", fmt.Errorf("%w: %w", context.DeadlineExceeded, kv.ErrUnknown),
			told{codes.Unknown, "OUTCOME_UNKNOWN", nil, 0},
		},
		{"busy", fmt.Errorf("update: %w", kv.ErrBusy), told{codes.Unavailable, "STORE_BUSY", unchanged, 0}},
		{"closed", kv.ErrClosed, told{codes.Unavailable, "STORE_CLOSED", unchanged, 0}},
		{"full", fmt.Errorf("%w: %w", kv.ErrFull, disk), told{codes.ResourceExhausted, "STORE_FULL", unchanged, 0}},
		{"read-only", kv.ErrReadOnly, told{codes.FailedPrecondition, "STORE_READ_ONLY", unchanged, 0}},
		{"corrupt", fmt.Errorf("%w: page 7", kv.ErrCorrupt), told{codes.DataLoss, "STORE_CORRUPT", unchanged, 0}},
		{
			"damaged", fmt.Errorf("view: %w", &memory.DamagedError{Namespace: "n", Path: "/memories/é", Text: "x"}),
			told{codes.DataLoss, "STORE_CORRUPT", map[string]string{"nothing_changed": "true", "path": "/memories/é", "namespace": "n"}, 0},
		},
		{"too large", kv.ErrTooLarge, told{codes.Internal, "INTERNAL", unchanged, 0}},
		{"no namespace", memory.ErrNoNamespace, told{codes.NotFound, "NAMESPACE_NOT_FOUND", unchanged, 0}},
		{"overloaded", ErrOverloaded, told{codes.ResourceExhausted, "OVERLOADED", unchanged, time.Second}},
		{
			"deadline", fmt.Errorf("view: %w", context.DeadlineExceeded),
			told{codes.DeadlineExceeded, "DEADLINE_EXCEEDED", unchanged, 0},
		},
		{"cancelled", context.Canceled, told{codes.Canceled, "CANCELLED", unchanged, 0}},
		{
			"namespace", fmt.Errorf("do: %w", memory.ValidateNamespace("A")),
			told{codes.InvalidArgument, "INVALID_NAMESPACE", field("namespace"), 0},
		},
		{
			"field", invalid("page_size", "page_size must be 0 or more"),
			told{codes.InvalidArgument, "INVALID_REQUEST", field("page_size"), 0},
		},
		{"nobody expected it", disk, told{codes.Internal, "INTERNAL", nil, 0}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := StatusError(tt.err)
			if diff := cmp.Diff(tt.want, toldOf(t, got)); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
			if cause := Cause(fmt.Errorf("call: %w", got)); !same(cause, tt.err) {
				t.Errorf("got cause %v, want %v", cause, tt.err)
			}
		})
	}
}

func TestStatusError_Fixed(t *testing.T) {
	err := StatusError(errors.New("open /secret/place: permission denied"))
	if got, want := status.Convert(err).Message(), "internal error"; got != want {
		t.Errorf("got message %q, want %q", got, want)
	}
}

func TestStatusError_Passes(t *testing.T) {
	if err := StatusError(nil); err != nil {
		t.Errorf("got %v, want nil", err)
	}
	want := status.Error(codes.Unauthenticated, "who are you?")
	if got := StatusError(want); !same(got, want) {
		t.Errorf("got %v, want the same status", got)
	}
	if got := StatusError(StatusError(kv.ErrBusy)); !same(Cause(got), kv.ErrBusy) {
		t.Errorf("got cause %v, want %v: the error was mapped twice", Cause(got), kv.ErrBusy)
	}
}

func TestLateStatusError(t *testing.T) {
	// The first transactions of the call may have changed something.
	want := told{codes.Unavailable, "STORE_BUSY", nil, 0}
	if diff := cmp.Diff(want, toldOf(t, LateStatusError(kv.ErrBusy))); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	want = told{codes.NotFound, "NAMESPACE_NOT_FOUND", unchanged, 0}
	if diff := cmp.Diff(want, toldOf(t, LateStatusError(memory.ErrNoNamespace))); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}
