package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/seed-7f2870e1/memoryd/cmd/internal/connect"
	memoryv1 "github.com/seed-7f2870e1/memoryd/gen/memoryd/v1"
)

// runMain makes the test binary memoryctl itself.
const runMain = "MEMORYCTL_TEST_RUN_MAIN"

func TestMain(m *testing.M) {
	if os.Getenv(runMain) != "" {
		main()
	}
	for _, name := range append(connect.Variables(), "MEMORYCTL_ADDR", "MEMORYCTL_NAMESPACE") {
		if err := os.Unsetenv(name); err != nil {
			panic(err)
		}
	}
	goleak.VerifyTestMain(m)
}

// service is a memoryd whose answers the test gives.
type service struct {
	memoryv1.UnimplementedMemoryServiceServer
	memoryv1.UnimplementedFileServiceServer
	memoryv1.UnimplementedAdminServiceServer

	addr string
	// unary answers all methods but Put and Get.
	unary func(ctx context.Context, req proto.Message) (proto.Message, error)
	put   func(header *memoryv1.PutHeader, content io.Reader) (*memoryv1.PutResponse, error)
	get   func(req *memoryv1.GetRequest) (header *memoryv1.GetHeader, chunks []string, err error)

	mu   sync.Mutex
	seen []proto.Message // requests, without their request ids
}

// startService starts a service; its functions are set before the first call.
func startService(t *testing.T, opts ...grpc.ServerOption) *service {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &service{addr: listener.Addr().String()}
	opts = append(opts, grpc.UnaryInterceptor(s.answer), grpc.MaxRecvMsgSize(16<<20))
	server := grpc.NewServer(opts...)
	memoryv1.RegisterMemoryServiceServer(server, s)
	memoryv1.RegisterFileServiceServer(server, s)
	memoryv1.RegisterAdminServiceServer(server, s)
	done := make(chan error, 1)
	go func() { done <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-done; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	return s
}

func (s *service) answer(ctx context.Context, req any, _ *grpc.UnaryServerInfo, _ grpc.UnaryHandler) (any, error) {
	m := req.(proto.Message)
	s.record(m)
	return s.unary(ctx, m)
}

// record keeps a copy of a request without its request id, which is random and must be there in a write.
func (s *service) record(req proto.Message) {
	req = proto.Clone(req)
	m := req.ProtoReflect()
	if id := m.Descriptor().Fields().ByName("request_id"); id != nil && m.Get(id).String() != "" {
		m.Clear(id)
	} else if id != nil {
		m.Set(id, protoreflect.ValueOfString("missing"))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen = append(s.seen, req)
}

func (s *service) requests() []proto.Message {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.seen
}

// Put implements memoryv1.FileServiceServer.
func (s *service) Put(stream grpc.ClientStreamingServer[memoryv1.PutRequest, memoryv1.PutResponse]) error {
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	s.record(first.GetHeader())
	resp, err := s.put(first.GetHeader(), &chunkReader{stream: stream})
	if err != nil {
		return err
	}
	return stream.SendAndClose(resp)
}

type chunkReader struct {
	stream grpc.ClientStreamingServer[memoryv1.PutRequest, memoryv1.PutResponse]
	rest   []byte
}

func (r *chunkReader) Read(p []byte) (int, error) {
	for len(r.rest) == 0 {
		part, err := r.stream.Recv()
		if err != nil {
			return 0, err
		}
		r.rest = part.GetChunk()
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

// Get implements memoryv1.FileServiceServer.
func (s *service) Get(req *memoryv1.GetRequest, stream grpc.ServerStreamingServer[memoryv1.GetResponse]) error {
	s.record(req)
	header, chunks, err := s.get(req)
	if header != nil {
		if err := stream.Send(&memoryv1.GetResponse{Part: &memoryv1.GetResponse_Header{Header: header}}); err != nil {
			return err
		}
	}
	for _, chunk := range chunks {
		part := &memoryv1.GetResponse_Chunk{Chunk: []byte(chunk)}
		if err := stream.Send(&memoryv1.GetResponse{Part: part}); err != nil {
			return err
		}
	}
	return err
}

// always answers every call alike.
func always(resp proto.Message, err error) func(context.Context, proto.Message) (proto.Message, error) {
	return func(context.Context, proto.Message) (proto.Message, error) { return resp, err }
}

func text(s string) *memoryv1.ToolResult {
	return &memoryv1.ToolResult{Content: []*memoryv1.Content{{Block: &memoryv1.Content_Text{Text: s}}}}
}

func errorText(reason memoryv1.Reason, s string) *memoryv1.ToolResult {
	result := text(s)
	result.IsError, result.Reason = true, reason
	return result
}

// statusError is an error as memoryd gives it.
func statusError(code codes.Code, reason, message string, nothingChanged bool) error {
	info := &errdetails.ErrorInfo{Domain: "memoryd", Reason: reason}
	if nothingChanged {
		info.Metadata = map[string]string{"nothing_changed": "true"}
	}
	st, err := status.New(code, message).WithDetails(info)
	if err != nil {
		panic(err)
	}
	return st.Err()
}

// outcome is what a run of the program leaves.
type outcome struct {
	Status         int
	Stdout, Stderr string
}

// run runs a command line against the service.
func (s *service) run(t *testing.T, stdin string, args ...string) outcome {
	t.Helper()
	return run(t, strings.NewReader(stdin), append([]string{"--addr", s.addr}, args...)...)
}

// runOnTerminal is run by a person.
func (s *service) runOnTerminal(t *testing.T, stdin string, args ...string) outcome {
	t.Helper()
	var stdout, stderr bytes.Buffer
	c := &cli{
		stdin: strings.NewReader(stdin), stdout: &stdout, stderr: &stderr,
		isTerminal: func(any) bool { return true },
	}
	code := c.run(t.Context(), append([]string{"--addr", s.addr}, args...))
	return outcome{code, stdout.String(), stderr.String()}
}

func run(t *testing.T, stdin io.Reader, args ...string) outcome {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code := Run(t.Context(), args, stdin, &stdout, &stderr)
	return outcome{code, stdout.String(), stderr.String()}
}

// errorWriter fails with err.
type errorWriter struct{ err error }

func (w errorWriter) Write([]byte) (int, error) { return 0, w.err }

var errBroken = errors.New("broken")
