package server

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/seed-7f2870e1/memoryd/server/internal/rpc"
)

// limiter bounds how many calls run at once, and how many bytes of requests they hold. What is too much is refused
// rather than queued, so that its caller learns soon that it has to wait.
//
// gRPC has read and decoded a message before its size is known here. What is being read is bounded by the number of
// connections, of calls on each, and the size of a message.
type limiter struct {
	slots chan struct{}

	mostBytes int64
	held      atomic.Int64 // bytes of requests
}

func newLimiter(calls int, bytes int64) *limiter {
	return &limiter{slots: make(chan struct{}, calls), mostBytes: bytes}
}

func (l *limiter) acquire() error {
	select {
	case l.slots <- struct{}{}:
		return nil
	default:
		return rpc.StatusError(rpc.ErrOverloaded)
	}
}

func (l *limiter) release() { <-l.slots }

// hold takes bytes of a request in, unless they would be too many.
func (l *limiter) hold(bytes int64) error {
	if held := l.held.Add(bytes); held > l.mostBytes {
		l.held.Add(-bytes)
		return rpc.StatusError(fmt.Errorf("%w: a request of %d bytes, while others hold %d of %d", rpc.ErrOverloaded,
			bytes, held-bytes, l.mostBytes))
	}
	return nil
}

func (l *limiter) unary(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	if err := l.acquire(); err != nil {
		return nil, err
	}
	defer l.release()
	size := messageBytes(req)
	if err := l.hold(size); err != nil {
		return nil, err
	}
	defer l.held.Add(-size)
	return handler(ctx, req)
}

func (l *limiter) stream(srv any, ss grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	if err := l.acquire(); err != nil {
		return err
	}
	defer l.release()
	limited := &limitedStream{ServerStream: ss, limiter: l}
	defer limited.release()
	return handler(srv, limited)
}

func messageBytes(m any) int64 {
	if m, ok := m.(proto.Message); ok {
		return int64(proto.Size(m))
	}
	return 0
}

// limitedStream is a stream that holds all that was received on it until it ends, as Put does.
type limitedStream struct {
	grpc.ServerStream
	limiter *limiter

	mu    sync.Mutex // a receive that was left behind may come to its end after the stream
	ended bool
	held  int64
}

// RecvMsg implements grpc.ServerStream.
func (s *limitedStream) RecvMsg(m any) error {
	if err := s.ServerStream.RecvMsg(m); err != nil {
		return err
	}
	size := messageBytes(m)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return nil
	}
	if err := s.limiter.hold(size); err != nil {
		return err
	}
	s.held += size
	return nil
}

func (s *limitedStream) release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	s.limiter.held.Add(-s.held)
}
