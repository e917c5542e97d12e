package client

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	memoryv1 "github.com/seed-7f2870e1/memoryd/gen/memoryd/v1"
)

// fake is a memoryd whose answers are functions.
type fake struct {
	memoryv1.UnimplementedMemoryServiceServer
	memoryv1.UnimplementedAdminServiceServer
	fakeFiles
	// unary answers all methods that are not streams. nil: an empty response.
	unary func(ctx context.Context, method string, req proto.Message) (proto.Message, error)
	// execute, if set, answers Execute.
	execute func(ctx context.Context, req *memoryv1.ExecuteRequest) (*memoryv1.ExecuteResponse, error)
}

type fakeFiles struct {
	memoryv1.UnimplementedFileServiceServer
	put func(grpc.ClientStreamingServer[memoryv1.PutRequest, memoryv1.PutResponse]) error
	get func(*memoryv1.GetRequest, grpc.ServerStreamingServer[memoryv1.GetResponse]) error
}

func (f *fakeFiles) Put(stream grpc.ClientStreamingServer[memoryv1.PutRequest, memoryv1.PutResponse]) error {
	return f.put(stream)
}

func (f *fakeFiles) Get(req *memoryv1.GetRequest, stream grpc.ServerStreamingServer[memoryv1.GetResponse]) error {
	return f.get(req, stream)
}

func (f *fake) intercept(
	ctx context.Context, req any, info *grpc.UnaryServerInfo, _ grpc.UnaryHandler,
) (any, error) {
	if e, ok := req.(*memoryv1.ExecuteRequest); ok && f.execute != nil {
		return f.execute(ctx, e)
	}
	if f.unary != nil {
		return f.unary(ctx, info.FullMethod, req.(proto.Message))
	}
	return emptyResponse(info.FullMethod), nil
}

// emptyResponse returns an empty response of a method such as /memoryd.v1.MemoryService/View.
func emptyResponse(fullMethod string) proto.Message {
	name := protoreflect.FullName("memoryd.v1." + filepath.Base(fullMethod) + "Response")
	typ, err := protoregistry.GlobalTypes.FindMessageByName(name)
	if err != nil {
		panic(err)
	}
	return typ.New().Interface()
}

// serve serves f on a listener until the test ends or the server is stopped.
func serve(t *testing.T, l net.Listener, f *fake, opts ...grpc.ServerOption) *grpc.Server {
	t.Helper()
	s := grpc.NewServer(append([]grpc.ServerOption{
		grpc.UnaryInterceptor(f.intercept),
		grpc.MaxRecvMsgSize(maxRequestBytes),
		grpc.MaxSendMsgSize(maxResponseBytes),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 10e9, PermitWithoutStream: true}),
	}, opts...)...)
	memoryv1.RegisterMemoryServiceServer(s, f)
	memoryv1.RegisterFileServiceServer(s, f)
	memoryv1.RegisterAdminServiceServer(s, f)
	done := make(chan struct{})
	go func() {
		defer close(done)
		// A test without a call may be over before the server has begun.
		if err := s.Serve(l); err != nil && !errors.Is(err, grpc.ErrServerStopped) {
			t.Errorf("serve: %v", err)
		}
	}()
	t.Cleanup(func() {
		s.Stop()
		<-done
	})
	return s
}

func listen(t *testing.T, network, address string) net.Listener {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), network, address)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func dial(t *testing.T, target string, opts ...Option) *Client {
	t.Helper()
	c, err := Dial(target, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() }) // a test may have closed it
	c.timing = (&fakeClock{time: time.Now()}).timing()
	return c
}

// fakeClock is a clock that goes on while somebody sleeps, and only then.
type fakeClock struct {
	mu     sync.Mutex
	time   time.Time
	pauses []time.Duration
	woken  func() // runs at the end of every pause, if set
}

func (c *fakeClock) timing() timing {
	return timing{now: c.now, sleep: c.sleep, random: func() float64 { return 0.5 }}
}

func (c *fakeClock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.time
}

func (c *fakeClock) sleep(ctx context.Context, d time.Duration) error {
	c.mu.Lock()
	c.time = c.time.Add(d)
	c.pauses = append(c.pauses, d)
	c.mu.Unlock()
	if c.woken != nil {
		c.woken()
	}
	return ctx.Err()
}

// slept returns the pauses so far.
func (c *fakeClock) slept() []time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.pauses)
}

// start serves f on a free port and returns a client of it.
func start(t *testing.T, f *fake, opts ...Option) (*Client, *grpc.Server) {
	t.Helper()
	l := listen(t, "tcp", "127.0.0.1:0")
	s := serve(t, l, f)
	return dial(t, l.Addr().String(), opts...), s
}

// dead returns a client of a service that is not there.
func dead(t *testing.T) *Client {
	t.Helper()
	return dial(t, "unix://"+filepath.Join(t.TempDir(), "memoryd.sock"))
}

func textContent(texts ...string) []*memoryv1.Content {
	var content []*memoryv1.Content
	for _, text := range texts {
		content = append(content, &memoryv1.Content{Block: &memoryv1.Content_Text{Text: text}})
	}
	return content
}

func textResponse(texts ...string) *memoryv1.ExecuteResponse {
	return &memoryv1.ExecuteResponse{Result: &memoryv1.ToolResult{Content: textContent(texts...)}}
}

// serviceError is a status as the service sends it.
func serviceError(code codes.Code, reason string, unchanged bool, details ...protoadapt.MessageV1) error {
	info := &errdetails.ErrorInfo{Domain: "memoryd", Reason: reason}
	if unchanged {
		info.Metadata = map[string]string{"nothing_changed": "true"}
	}
	st, err := status.New(code, "the text of the status").WithDetails(append(details, info)...)
	if err != nil {
		panic(err)
	}
	return st.Err()
}
