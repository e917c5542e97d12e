package server

import (
	"context"
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	memoryv1 "github.com/seed-7f2870e1/memoryd/gen/memoryd/v1"
	"github.com/seed-7f2870e1/memoryd/server/internal/auth"
)

// wantOverloaded checks that an error asks the caller to come again.
func wantOverloaded(t *testing.T, err error) {
	t.Helper()
	wantStatus(t, err, codes.ResourceExhausted, "OVERLOADED")
	for _, d := range status.Convert(err).Details() {
		if retry, ok := d.(*errdetails.RetryInfo); ok && retry.GetRetryDelay().AsDuration() > 0 {
			return
		}
	}
	t.Errorf("%v does not say when to come again", err)
}

func requestOf(size int) *memoryv1.ExecuteRequest {
	req := &memoryv1.ExecuteRequest{Input: strings.Repeat("x", size)}
	req.Input = req.Input[:size-(proto.Size(req)-size)] // The rest is the tag and the length.
	return req
}

func TestLimiter_Bytes(t *testing.T) {
	l := newLimiter(10, 1000)
	call := func(size int, inner func() error) error {
		_, err := l.unary(t.Context(), requestOf(size), nil, func(context.Context, any) (any, error) {
			return nil, inner()
		})
		return err
	}
	fine := func() error { return nil }
	err := call(600, func() error {
		wantOverloaded(t, call(401, fine))
		return call(400, fine)
	})
	if err != nil {
		t.Error(err)
	}
	if err := call(1000, fine); err != nil {
		t.Errorf("what was held was not given back: %v", err)
	}
	if got := l.held.Load(); got != 0 {
		t.Errorf("%d bytes are held by nobody", got)
	}
}

// sizedStream is a stream on which messages of a size come.
type sizedStream struct {
	contextStream
	size int
	left int
}

func (s *sizedStream) RecvMsg(m any) error {
	if s.left == 0 {
		return io.EOF
	}
	s.left--
	proto.Merge(m.(*memoryv1.ExecuteRequest), requestOf(s.size))
	return nil
}

// put is a call of a method that takes a stream.
var put = &grpc.StreamServerInfo{FullMethod: memoryv1.FileService_Put_FullMethodName}

func TestLimiter_StreamBytes(t *testing.T) {
	l := newLimiter(10, 1000)
	// stream receives messages of 200 bytes up to an error, while another call holds bytes.
	stream := func(messages int) (received int, err error) {
		ss := &sizedStream{contextStream: contextStream{ctx: t.Context()}, size: 200, left: messages}
		err = l.stream(nil, ss, put, func(_ any, ss grpc.ServerStream) error {
			for {
				if err := ss.RecvMsg(&memoryv1.ExecuteRequest{}); err != nil {
					return err
				}
				received++
			}
		})
		return received, err
	}
	_, err := l.unary(t.Context(), requestOf(500), nil, func(context.Context, any) (any, error) {
		received, err := stream(3)
		if want := 2; received != want {
			t.Errorf("received %d messages, want %d", received, want)
		}
		wantOverloaded(t, err)
		return nil, nil
	})
	if err != nil {
		t.Error(err)
	}
	if received, err := stream(5); received != 5 || err != io.EOF { //nolint:errorlint // A stream ends with this very one.
		t.Errorf("received %d messages, %v; want 5: what was held was not given back", received, err)
	}
	if got := l.held.Load(); got != 0 {
		t.Errorf("%d bytes are held by nobody", got)
	}
}

func TestLimiter_MessageAfterTheEnd(t *testing.T) {
	l := newLimiter(1, 1000)
	ss := &limitedStream{ServerStream: &sizedStream{size: 200, left: 1}, limiter: l}
	ss.end()
	if err := ss.RecvMsg(&memoryv1.ExecuteRequest{}); err != nil {
		t.Fatal(err)
	}
	if got := l.held.Load(); got != 0 {
		t.Errorf("a message that came after the end holds %d bytes for ever", got)
	}
	if got := l.slots.taken; got != 0 {
		t.Errorf("a message that came after the end holds %d slots for ever", got)
	}
}

// callOf is the context of a call of a principal.
func callOf(t *testing.T, name string) context.Context {
	t.Helper()
	policy := parsePolicy(t, string(principalWith(name, "tokens: ['"+hashOf(name)+"']")))
	return auth.NewContext(t.Context(), principalOf(t, policy, name))
}

// One principal has at most half of the slots, in unary calls and streams.
func TestLimiter_HalfForOne(t *testing.T) {
	l := newLimiter(4, 1000)
	unary := func(name string, inner func()) error {
		_, err := l.unary(callOf(t, name), requestOf(10), nil, func(context.Context, any) (any, error) {
			inner()
			return nil, nil
		})
		return err
	}
	stream := func(name string, inner func()) error {
		ss := &sizedStream{contextStream: contextStream{ctx: callOf(t, name)}, size: 10, left: 1}
		return l.stream(nil, ss, put, func(_ any, ss grpc.ServerStream) error {
			if err := ss.RecvMsg(&memoryv1.ExecuteRequest{}); err != nil {
				return err
			}
			inner()
			return nil
		})
	}
	within := 0
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Error(err)
		}
	}
	must(unary("a", func() {
		must(stream("a", func() {
			wantOverloaded(t, unary("a", func() {}))
			wantOverloaded(t, stream("a", func() {}))
			must(unary("b", func() {
				must(stream("b", func() {
					within++
					wantOverloaded(t, unary("c", func() {}))
				}))
			}))
		}))
	}))
	if within != 1 || l.slots.taken != 0 || len(l.slots.by) != 0 {
		t.Errorf("got there %d times, and %d slots are left with %v", within, l.slots.taken, l.slots.by)
	}
	// Where identity is off, everyone together has all.
	ctx := auth.NewContext(t.Context(), auth.Everyone())
	for range 4 {
		if _, err := l.acquire(ctx); err != nil {
			t.Error(err)
		}
	}
}

// A stream has a slot when its first message has come, and one without a namespace from the start.
func TestLimiter_SilentStreams(t *testing.T) {
	l := newLimiter(1, 1000)
	ss := &sizedStream{contextStream: contextStream{ctx: t.Context()}, size: 10, left: 1}
	err := l.stream(nil, ss, put, func(_ any, ss grpc.ServerStream) error {
		if got := l.slots.taken; got != 0 {
			t.Errorf("a stream on which nothing was said has %d slots", got)
		}
		if err := ss.RecvMsg(&memoryv1.ExecuteRequest{}); err != nil {
			return err
		}
		if got := l.slots.taken; got != 1 {
			t.Errorf("a stream has %d slots, want 1", got)
		}
		backup := &grpc.StreamServerInfo{FullMethod: memoryv1.AdminService_Backup_FullMethodName}
		wantOverloaded(t, l.stream(nil, ss, backup, nil))
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// Streams of health and reflection have no slot and are bounded, in all and of one address.
func TestLimiter_Watches(t *testing.T) {
	l := newLimiter(1, 1000)
	watch := &grpc.StreamServerInfo{FullMethod: healthpb.Health_Watch_FullMethodName}
	from := func(address string) *contextStream {
		addr := net.TCPAddrFromAddrPort(netip.MustParseAddrPort(address))
		return &contextStream{ctx: peer.NewContext(t.Context(), &peer.Peer{Addr: addr})}
	}
	open := func(address string, inner func() error) error {
		return l.stream(nil, from(address), watch, func(any, grpc.ServerStream) error { return inner() })
	}
	fine := func() error { return nil }
	for range maxWatches / addressShare {
		l.watches.take(remoteAddress(net.TCPAddrFromAddrPort(netip.MustParseAddrPort("192.0.2.1:1"))))
	}
	wantOverloaded(t, open("192.0.2.1:2", fine))
	if err := open("192.0.2.2:1", fine); err != nil {
		t.Error(err)
	}
	for range maxWatches - maxWatches/addressShare - 1 {
		l.watches.take(netip.Addr{})
	}
	err := open("127.0.0.1:1", func() error {
		wantOverloaded(t, open("127.0.0.1:2", fine))
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	if got := l.slots.taken; got != 0 {
		t.Errorf("watches have %d slots", got)
	}
}

// TestServer_ByteLimit fills the limit with files on their way, each below the size of a request.
func TestServer_ByteLimit(t *testing.T) {
	r := start(t, Config{MaxConcurrentBytes: MaxRequestBytes})
	files := memoryv1.NewFileServiceClient(r.conn)
	send := func(put grpc.ClientStreamingClient[memoryv1.PutRequest, memoryv1.PutResponse]) error {
		header := &memoryv1.PutHeader{Namespace: "n", Path: "/memories/f"}
		err := put.Send(&memoryv1.PutRequest{Part: &memoryv1.PutRequest_Header{Header: header}})
		for chunk := make([]byte, 1<<20); err == nil && len(chunk) > 0; chunk = chunk[:len(chunk)/2] {
			for range 3 { // 6 MiB in all
				if err == nil {
					err = put.Send(&memoryv1.PutRequest{Part: &memoryv1.PutRequest_Chunk{Chunk: chunk}})
				}
			}
		}
		return err
	}
	const puts = 3 // 18 MiB: one of them is too much, whichever it is.
	refused := make(chan error, puts)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for range puts {
		stream, err := files.Put(ctx)
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			_ = send(stream) // It fails where the call was refused.
			refused <- stream.RecvMsg(&memoryv1.PutResponse{})
		}()
	}
	wantOverloaded(t, <-refused)
}
