package server

import (
	"context"
	"fmt"
	"net/netip"
	"sync"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/peer"
	"google.golang.org/protobuf/proto"

	"github.com/seed-7f2870e1/memoryd/server/internal/auth"
	"github.com/seed-7f2870e1/memoryd/server/internal/rpc"
)

// maxWatches is how many streams of health and reflection are open at once. They stay open and do next to nothing, so
// that they have no slot.
const maxWatches = 1000

// limiter bounds how many calls run at once, and how many bytes of requests they hold. What is too much is refused
// rather than queued, so that its caller learns soon that it has to wait. One principal has at most half of the slots;
// where identity is off, everyone together may have all.
//
// gRPC has read and decoded a message before its size is known here. What is being read is bounded by the number of
// connections, of calls on each, and the size of a message; and nothing is read for a caller who is not known.
type limiter struct {
	slots   *shares[string]     // by the name of the principal
	watches *shares[netip.Addr] // by the address of the caller

	mostBytes int64
	held      atomic.Int64 // bytes of requests
	refused   atomic.Int64 // requests for their bytes
}

func newLimiter(calls int, bytes int64) *limiter {
	return &limiter{
		slots:     newShares[string](calls, calls/2),
		watches:   newShares[netip.Addr](maxWatches, maxWatches/addressShare),
		mostBytes: bytes,
	}
}

// take takes a share of s. Its error is a status.
func take[K comparable](s *shares[K], by K, who string) error {
	switch s.take(by) {
	case noneLeft:
		return rpc.StatusError(fmt.Errorf("%w: all %d are taken", rpc.ErrOverloaded, s.most))
	case shareUsed:
		return rpc.StatusError(fmt.Errorf("%w: one %s may have %d of %d", rpc.ErrOverloaded, who, s.each, s.most))
	default:
		return nil
	}
}

// acquire takes a slot for a call, unless there is none for its caller, under whose name it is to be given back.
func (l *limiter) acquire(ctx context.Context) (name string, err error) {
	name = auth.FromContext(ctx).Name
	return name, take(l.slots, name, "principal")
}

// hold takes bytes of a request in, unless they would be too many.
func (l *limiter) hold(bytes int64) error {
	if held := l.held.Add(bytes); held > l.mostBytes {
		l.held.Add(-bytes)
		l.refused.Add(1)
		return rpc.StatusError(fmt.Errorf("%w: a request of %d bytes, while others hold %d of %d", rpc.ErrOverloaded,
			bytes, held-bytes, l.mostBytes))
	}
	return nil
}

func (l *limiter) unary(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	name, err := l.acquire(ctx)
	if err != nil {
		return nil, err
	}
	defer l.slots.give(name)
	size := messageBytes(req)
	if err := l.hold(size); err != nil {
		return nil, err
	}
	defer l.held.Add(-size)
	return handler(ctx, req)
}

// stream gives a stream its slot once its first message has come and may be acted upon, so that whoever opens streams
// and says nothing on them takes nobody's slot; and at once where it is not about a namespace.
func (l *limiter) stream(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	if !isOwn(info.FullMethod) {
		return l.watch(srv, ss, handler)
	}
	limited := &limitedStream{ServerStream: ss, limiter: l}
	defer limited.end()
	if !accessTo(info.FullMethod).namespaced() {
		if err := limited.begin(); err != nil {
			return err
		}
	}
	return handler(srv, limited)
}

func (l *limiter) watch(srv any, ss grpc.ServerStream, handler grpc.StreamHandler) error {
	var address netip.Addr
	if p, ok := peer.FromContext(ss.Context()); ok {
		address = remoteAddress(p.Addr)
	}
	if err := take(l.watches, address, "address"); err != nil {
		return err
	}
	defer l.watches.give(address)
	return handler(srv, ss)
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
	name  string     // of the principal
	begun bool       // it has its slot
	ended bool
	held  int64
}

// begin takes the slot of the stream.
func (s *limitedStream) begin() (err error) {
	s.name, err = s.limiter.acquire(s.Context())
	s.begun = err == nil
	return err
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
	if !s.begun {
		if err := s.begin(); err != nil {
			return err
		}
	}
	if err := s.limiter.hold(size); err != nil {
		return err
	}
	s.held += size
	return nil
}

func (s *limitedStream) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	s.limiter.held.Add(-s.held)
	if s.begun {
		s.limiter.slots.give(s.name)
	}
}
