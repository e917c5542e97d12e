package server

import (
	"context"
	"strings"
	"time"

	"google.golang.org/grpc"

	"github.com/seed-7f2870e1/memoryd/server/internal/rpc"
)

// streamAllowance is how many times longer than another call a stream of a file may take.
const streamAllowance = 10

// timeouts bounds how long calls take. The services of others, health and reflection, have streams that stay open; they
// have no time limit and end with the context ended, since a graceful stop would wait for them.
type timeouts struct {
	call  time.Duration
	ended context.Context
}

func (t timeouts) unary(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	ctx, cancel := context.WithTimeout(ctx, t.call)
	defer cancel()
	return handler(ctx, req)
}

func (t timeouts) stream(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	ctx, cancel := context.WithCancel(ss.Context())
	defer cancel()
	if isOwnService(strings.TrimPrefix(info.FullMethod, "/")) {
		ctx, cancel = context.WithTimeout(ctx, streamAllowance*t.call)
		defer cancel()
	} else {
		defer context.AfterFunc(t.ended, cancel)()
	}
	return handler(srv, &boundedStream{ServerStream: ss, ctx: ctx})
}

// boundedStream is a stream whose messages are waited for no longer than its context lasts. gRPC itself would wait as
// long as the client likes.
type boundedStream struct {
	grpc.ServerStream
	ctx context.Context
}

// Context implements grpc.ServerStream.
func (s *boundedStream) Context() context.Context { return s.ctx }

// RecvMsg implements grpc.ServerStream.
func (s *boundedStream) RecvMsg(m any) error {
	if err, ok := s.await(func() error { return s.ServerStream.RecvMsg(m) }); ok {
		return err
	}
	return rpc.StatusError(s.ctx.Err())
}

// SendMsg implements grpc.ServerStream.
func (s *boundedStream) SendMsg(m any) error {
	if err, ok := s.await(func() error { return s.ServerStream.SendMsg(m) }); ok {
		return err
	}
	return rpc.LateStatusError(s.ctx.Err()) // What is to be sent may tell of a change.
}

// await returns what fn does, or leaves it behind when the context is done. The stream then ends with the call, and so
// does fn.
func (s *boundedStream) await(fn func() error) (err error, ok bool) {
	done := make(chan error, 1)
	go func() { done <- fn() }()
	select {
	case err := <-done:
		return err, true
	case <-s.ctx.Done():
		return nil, false
	}
}
