package server

import (
	"context"

	"google.golang.org/grpc"

	"github.com/seed-7f2870e1/memoryd/server/internal/rpc"
)

// limiter bounds how many calls run at once. A call too many is refused rather than queued, so that its caller learns
// soon that it has to wait.
type limiter struct{ slots chan struct{} }

func newLimiter(calls int) limiter { return limiter{slots: make(chan struct{}, calls)} }

func (l limiter) acquire() error {
	select {
	case l.slots <- struct{}{}:
		return nil
	default:
		return rpc.StatusError(rpc.ErrOverloaded)
	}
}

func (l limiter) release() { <-l.slots }

func (l limiter) unary(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	if err := l.acquire(); err != nil {
		return nil, err
	}
	defer l.release()
	return handler(ctx, req)
}

func (l limiter) stream(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	if err := l.acquire(); err != nil {
		return err
	}
	defer l.release()
	return handler(srv, stream)
}
