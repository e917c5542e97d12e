package server

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/seed-7f2870e1/memoryd/server/internal/rpc"
)

func identifyUnary(
	ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler,
) (any, error) {
	c, ctx := callIn(ctx)
	resp, err := handler(ctx, req)
	return resp, c.identify(ctx, err)
}

func identifyStream(srv any, ss grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	c, ctx := callIn(ss.Context())
	return c.identify(ctx, handler(srv, &identifiedStream{ss, ctx}))
}

// identifiedStream is a stream whose context knows the call.
type identifiedStream struct {
	grpc.ServerStream
	ctx context.Context
}

// Context implements grpc.ServerStream.
func (s *identifiedStream) Context() context.Context { return s.ctx }

// identify tells the caller the request id of a call that ends with err, where it has one: the caller has chosen it, or
// the log or the audit trail has a line about the call. A call that fails always has one, and its error tells it too.
func (c *call) identify(ctx context.Context, err error) error {
	if err != nil {
		err = rpc.WithRequestID(err, c.id())
	}
	if id := c.knownID(); id != "" {
		_ = grpc.SetTrailer(ctx, metadata.Pairs(requestIDKey, id)) // It fails only where there is no connection.
	}
	return err
}
