package main

import (
	"context"
	"sync/atomic"

	"google.golang.org/grpc/stats"
)

// sentRecorder remembers whether the request of a change may have reached the service: without an answer that makes
// the difference between "nothing was changed" and "may or may not have been made". It is a stats.Handler of gRPC.
type sentRecorder struct{ sent atomic.Bool }

// HandleRPC implements stats.Handler.
func (s *sentRecorder) HandleRPC(_ context.Context, event stats.RPCStats) {
	switch event.(type) {
	case *stats.Begin:
		// A new call, or gRPC's own repetition of one that the service has surely not looked at. A command makes one
		// call at a time.
		s.sent.Store(false)
	case *stats.OutPayload:
		s.sent.Store(true)
	}
}

// TagRPC implements stats.Handler.
func (s *sentRecorder) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context { return ctx }

// TagConn implements stats.Handler.
func (s *sentRecorder) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }

// HandleConn implements stats.Handler.
func (s *sentRecorder) HandleConn(context.Context, stats.ConnStats) {}
