package client

import (
	"context"
	"sync/atomic"

	"google.golang.org/grpc/stats"
)

// sent tells whether the request of an attempt may have reached the server. Without an answer that makes the difference
// between "nothing was changed" and "may or may not have been made".
type sent struct{ flag atomic.Bool }

func (s *sent) get() bool { return s.flag.Load() }

func (s *sent) set() { s.flag.Store(true) }

type sentKey struct{}

// withSent returns a context whose one attempt reports to the returned sent.
func withSent(ctx context.Context) (context.Context, *sent) {
	s := new(sent)
	return context.WithValue(ctx, sentKey{}, s), s
}

// sentRecorder is the stats handler that sets the sent of a call.
type sentRecorder struct{}

// HandleRPC implements stats.Handler.
func (sentRecorder) HandleRPC(ctx context.Context, event stats.RPCStats) {
	s, ok := ctx.Value(sentKey{}).(*sent)
	if !ok {
		return
	}
	switch e := event.(type) {
	case *stats.Begin:
		// gRPC repeats a call by itself only where the server has surely not looked at the attempt before.
		if e.IsTransparentRetryAttempt {
			s.flag.Store(false)
		}
	case *stats.OutPayload:
		s.flag.Store(true)
	}
}

// TagRPC implements stats.Handler.
func (sentRecorder) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context { return ctx }

// TagConn implements stats.Handler.
func (sentRecorder) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }

// HandleConn implements stats.Handler.
func (sentRecorder) HandleConn(context.Context, stats.ConnStats) {}
