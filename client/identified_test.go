package client

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	memoryv1 "github.com/seed-7f2870e1/memoryd/gen/memoryd/v1"
)

// withRequestID is an error of the service that tells the id of its call.
func withRequestID(id string) error {
	return serviceError(codes.FailedPrecondition, reasonStoreReadOnly, true, &errdetails.RequestInfo{RequestId: id})
}

func TestErrorRequestID(t *testing.T) {
	for _, test := range []struct {
		err  error
		want string
	}{
		{nil, ""},
		{errors.New("of this side"), ""},
		{status.Error(codes.Unavailable, "gone"), ""},
		{withRequestID("4f3c"), "4f3c"},
		{fmt.Errorf("view: %w", withRequestID("4f3c")), "4f3c"},
		{withRequestID("a b\n\x1b[2Jé"), "a?b??[2J?"},
		{withRequestID(strings.Repeat("x", 10_000)), strings.Repeat("x", 128)},
	} {
		if got := RequestID(test.err); got != test.want {
			t.Errorf("%v: got %q, want %q", test.err, got, test.want)
		}
	}
}

// The error of a call tells in its text by which id the service finds the call, and its status is what the service sent.
func TestErrorsTellTheRequestID(t *testing.T) {
	const suffix = " (request id 4f3c)"
	for _, test := range []struct {
		name string
		call func(c *Client) error
	}{
		{"View", func(c *Client) error {
			_, err := c.View(t.Context(), &memoryv1.ViewRequest{})
			return err
		}},
		{"Create", func(c *Client) error {
			_, err := c.Create(t.Context(), &memoryv1.CreateRequest{})
			return err
		}},
		{"Handle", func(c *Client) (err error) {
			c.Handler("n", WithErrorFunc(func(e error) { err = e })).Handle(t.Context(), []byte(`{"command":"view"}`))
			return err
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			c, _ := start(t, &fake{unary: func(context.Context, string, proto.Message) (proto.Message, error) {
				return nil, withRequestID("4f3c")
			}})
			err := test.call(c)
			if err == nil || !strings.HasSuffix(err.Error(), suffix) || strings.Count(err.Error(), suffix) != 1 {
				t.Fatalf("got %v, want it to end with%s", err, suffix)
			}
			if got := status.Convert(err).Message(); strings.Contains(got, "request id") {
				t.Errorf("got the message %q, want that of the service", got)
			}
			if got := status.Code(err); got != codes.FailedPrecondition || Reason(err) != reasonStoreReadOnly {
				t.Errorf("got the code %v and the reason %q", got, Reason(err))
			}
			if got := RequestID(err); got != "4f3c" {
				t.Errorf("got the id %q", got)
			}
		})
	}
}
