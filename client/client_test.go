package client

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	memoryv1 "github.com/seed-7f2870e1/memoryd/gen/memoryd/v1"
)

// do adapts a method of Client to requests of any type.
func do[Req, Resp proto.Message](m func(context.Context, Req) (Resp, error)) func(
	context.Context, proto.Message,
) (proto.Message, error) {
	return func(ctx context.Context, req proto.Message) (proto.Message, error) { return m(ctx, req.(Req)) }
}

func TestMethods_FillTheRequest(t *testing.T) {
	var method string
	var got proto.Message
	c, _ := start(t, &fake{unary: func(_ context.Context, m string, req proto.Message) (proto.Message, error) {
		method, got = m, req
		return emptyResponse(m), nil
	}})
	c.newID = func() string { return "id-1" }
	const ns = DefaultNamespace

	for _, tt := range []struct {
		method    string
		do        func(context.Context, proto.Message) (proto.Message, error)
		req, want proto.Message
	}{
		{
			"MemoryService/View", do(c.View),
			&memoryv1.ViewRequest{Path: "/memories", ViewRange: &memoryv1.ViewRange{Start: 1, End: 2}},
			&memoryv1.ViewRequest{
				Namespace: ns, Path: "/memories", ViewRange: &memoryv1.ViewRange{Start: 1, End: 2},
			},
		},
		{"MemoryService/View", do(c.View), (*memoryv1.ViewRequest)(nil), &memoryv1.ViewRequest{Namespace: ns}},
		{
			"MemoryService/Create", do(c.Create),
			&memoryv1.CreateRequest{Path: "/memories/\xff", FileText: "a\xffb\x00"},
			&memoryv1.CreateRequest{
				Namespace: ns, RequestId: "id-1", Path: "/memories/\uFFFD", FileText: "a\uFFFDb\x00",
			},
		},
		{
			"MemoryService/Create", do(c.Create),
			&memoryv1.CreateRequest{Namespace: "n", RequestId: "mine", Session: "s"},
			&memoryv1.CreateRequest{Namespace: "n", RequestId: "mine", Session: "s"},
		},
		{
			"MemoryService/StrReplace", do(c.StrReplace),
			&memoryv1.StrReplaceRequest{OldStr: "\xc0"},
			&memoryv1.StrReplaceRequest{Namespace: ns, RequestId: "id-1", OldStr: "\uFFFD"},
		},
		{
			"MemoryService/Insert", do(c.Insert),
			&memoryv1.InsertRequest{InsertLine: 3},
			&memoryv1.InsertRequest{Namespace: ns, RequestId: "id-1", InsertLine: 3},
		},
		{
			"MemoryService/Delete", do(c.Delete),
			&memoryv1.DeleteRequest{}, &memoryv1.DeleteRequest{Namespace: ns, RequestId: "id-1"},
		},
		{
			"MemoryService/Rename", do(c.Rename),
			&memoryv1.RenameRequest{}, &memoryv1.RenameRequest{Namespace: ns, RequestId: "id-1"},
		},
		{
			"MemoryService/Execute", do(c.Execute),
			&memoryv1.ExecuteRequest{Input: "{}"},
			&memoryv1.ExecuteRequest{Namespace: ns, RequestId: "id-1", Input: "{}"},
		},
		{
			"MemoryService/Apply", do(c.Apply),
			&memoryv1.ApplyRequest{Commands: []*memoryv1.ApplyCommand{{Input: "\xff"}}},
			&memoryv1.ApplyRequest{
				Namespace: ns, RequestId: "id-1", Commands: []*memoryv1.ApplyCommand{{Input: "\uFFFD"}},
			},
		},
		{
			"FileService/List", do(c.List),
			&memoryv1.ListRequest{PageSize: 7}, &memoryv1.ListRequest{Namespace: ns, PageSize: 7},
		},
		{
			"FileService/Pin", do(c.Pin),
			&memoryv1.PinRequest{Unpin: true}, &memoryv1.PinRequest{Namespace: ns, RequestId: "id-1", Unpin: true},
		},
		{
			"AdminService/PlanExpiry", do(c.PlanExpiry),
			&memoryv1.PlanExpiryRequest{PageSize: 7}, &memoryv1.PlanExpiryRequest{Namespace: ns, PageSize: 7},
		},
		{
			"AdminService/GetNamespace", do(c.GetNamespace),
			&memoryv1.GetNamespaceRequest{}, &memoryv1.GetNamespaceRequest{Namespace: ns},
		},
		{
			"AdminService/UpdateNamespace", do(c.UpdateNamespace),
			&memoryv1.UpdateNamespaceRequest{UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"a", "b\xff"}}},
			&memoryv1.UpdateNamespaceRequest{
				Namespace: ns, RequestId: "id-1", UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"a", "b\uFFFD"}},
			},
		},
		{
			"AdminService/ListNamespaces", do(c.ListNamespaces),
			&memoryv1.ListNamespacesRequest{PageToken: "t"}, &memoryv1.ListNamespacesRequest{PageToken: "t"},
		},
		{
			"AdminService/DeleteNamespace", do(c.DeleteNamespace),
			&memoryv1.DeleteNamespaceRequest{}, &memoryv1.DeleteNamespaceRequest{Namespace: ns, RequestId: "id-1"},
		},
		{
			"AdminService/GetActivity", do(c.GetActivity),
			&memoryv1.GetActivityRequest{MaxNamespaces: 7}, &memoryv1.GetActivityRequest{MaxNamespaces: 7},
		},
	} {
		t.Run(tt.method, func(t *testing.T) {
			before := proto.Clone(tt.req)
			resp, err := tt.do(t.Context(), tt.req)
			if err != nil {
				t.Fatal(err)
			}
			if want := "/memoryd.v1." + tt.method; method != want {
				t.Errorf("called %s, want %s", method, want)
			}
			if diff := cmp.Diff(tt.want, got, protocmp.Transform()); diff != "" {
				t.Errorf("request as received (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(before, tt.req, protocmp.Transform()); diff != "" {
				t.Errorf("the caller's request was changed (-before +after):\n%s", diff)
			}
			if want := emptyResponse(method); !proto.Equal(resp, want) {
				t.Errorf("got %v, want %v", resp, want)
			}
		})
	}
}

// Requests have no maps, which repairUTF8 relies on.
func TestRequestsHaveNoMaps(t *testing.T) {
	var check func(protoreflect.MessageDescriptor)
	check = func(m protoreflect.MessageDescriptor) {
		for i := range m.Fields().Len() {
			fd := m.Fields().Get(i)
			if fd.IsMap() {
				t.Errorf("%s is a map", fd.FullName())
			} else if fd.Message() != nil {
				check(fd.Message())
			}
		}
	}
	n := 0
	for _, file := range []protoreflect.FileDescriptor{
		memoryv1.File_memoryd_v1_memory_proto,
		memoryv1.File_memoryd_v1_file_proto,
		memoryv1.File_memoryd_v1_admin_proto,
	} {
		for i := range file.Services().Len() {
			methods := file.Services().Get(i).Methods()
			for j := range methods.Len() {
				check(methods.Get(j).Input())
				n++
			}
		}
	}
	if n < 14 {
		t.Errorf("checked %d methods, want at least 14", n)
	}
}

func TestRequestIDsDiffer(t *testing.T) {
	ids := make(chan string, 2)
	c, _ := start(t, &fake{unary: func(_ context.Context, m string, req proto.Message) (proto.Message, error) {
		ids <- req.(*memoryv1.DeleteRequest).GetRequestId()
		return emptyResponse(m), nil
	}})
	for range 2 {
		if _, err := c.Delete(t.Context(), &memoryv1.DeleteRequest{Path: "/memories/a"}); err != nil {
			t.Fatal(err)
		}
	}
	if a, b := <-ids, <-ids; a == b || len(a) < 20 || len(a) > maxIDBytes {
		t.Errorf("request ids %q and %q, want two long ones that differ", a, b)
	}
}

func TestMethods_ErrorsAreStatuses(t *testing.T) {
	blocked := func(ctx context.Context, _ string, _ proto.Message) (proto.Message, error) {
		<-ctx.Done()
		return nil, status.FromContextError(ctx.Err()).Err()
	}
	sent := serviceError(codes.InvalidArgument, "INVALID_NAMESPACE", true)
	cancelled, cancel := context.WithCancel(context.Background())
	cancel()
	expired, cancel := context.WithTimeout(context.Background(), -time.Second)
	defer cancel()

	for _, tt := range []struct {
		name        string
		ctx         context.Context
		client      func(t *testing.T) *Client
		code        codes.Code
		reason      string
		unreachable bool
	}{
		{
			name: "status of the service",
			client: func(t *testing.T) *Client {
				c, _ := start(t, &fake{unary: func(context.Context, string, proto.Message) (proto.Message, error) {
					return nil, sent
				}})
				return c
			},
			code: codes.InvalidArgument, reason: "INVALID_NAMESPACE",
		},
		{
			name: "busy service",
			client: func(t *testing.T) *Client {
				c, _ := start(t, &fake{unary: func(context.Context, string, proto.Message) (proto.Message, error) {
					return nil, serviceError(codes.Unavailable, "STORE_BUSY", true)
				}})
				return c
			},
			code: codes.Unavailable, reason: "STORE_BUSY",
		},
		{name: "dead service", client: dead, code: codes.Unavailable, unreachable: true},
		{
			name: "no answer in time",
			client: func(t *testing.T) *Client {
				c, _ := start(t, &fake{unary: blocked}, WithTimeout(50*time.Millisecond))
				return c
			},
			code: codes.DeadlineExceeded, unreachable: true,
		},
		{name: "cancelled", ctx: cancelled, client: dead, code: codes.Canceled},
		{name: "expired", ctx: expired, client: dead, code: codes.DeadlineExceeded, unreachable: true},
		{
			name: "closed",
			client: func(t *testing.T) *Client {
				c, _ := start(t, &fake{})
				if err := c.Close(); err != nil {
					t.Fatal(err)
				}
				return c
			},
			code: codes.Canceled,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, ctx := tt.client(t), tt.ctx
			if ctx == nil {
				ctx = t.Context()
			}
			_, err := c.View(ctx, &memoryv1.ViewRequest{Path: "/memories"})
			st, ok := status.FromError(err)
			if !ok || st.Code() != tt.code {
				t.Errorf("got %v, want a status with the code %v", err, tt.code)
			}
			if got := Reason(err); got != tt.reason {
				t.Errorf("Reason = %q, want %q", got, tt.reason)
			}
			if got := IsUnreachable(err); got != tt.unreachable {
				t.Errorf("IsUnreachable = %v, want %v", got, tt.unreachable)
			}
		})
	}
}

func TestReasonAndIsUnreachable_OfOtherErrors(t *testing.T) {
	for _, err := range []error{nil, errors.New("a plain error"), context.DeadlineExceeded} {
		if Reason(err) != "" || IsUnreachable(err) {
			t.Errorf("of %v: Reason = %q, IsUnreachable = %v, want none", err, Reason(err), IsUnreachable(err))
		}
	}
}

func TestTimeout(t *testing.T) {
	var left time.Duration // until the deadline that the server sees; 0 is none
	record := &fake{unary: func(ctx context.Context, m string, _ proto.Message) (proto.Message, error) {
		left = 0
		if deadline, ok := ctx.Deadline(); ok {
			left = time.Until(deadline)
		}
		return emptyResponse(m), nil
	}}
	hour, cancel := context.WithTimeout(context.Background(), time.Hour)
	defer cancel()
	for _, tt := range []struct {
		name     string
		ctx      context.Context
		opts     []Option
		min, max time.Duration
	}{
		{"default", context.Background(), nil, time.Second, DefaultTimeout},
		{"set", context.Background(), []Option{WithTimeout(10 * time.Minute)}, time.Minute, 10 * time.Minute},
		{"off", context.Background(), []Option{WithTimeout(0)}, 0, 0},
		{"of the caller", hour, nil, 10 * time.Minute, time.Hour},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, _ := start(t, record, tt.opts...)
			if _, err := c.View(tt.ctx, &memoryv1.ViewRequest{}); err != nil {
				t.Fatal(err)
			}
			if left < tt.min || left > tt.max {
				t.Errorf("the server had %v, want %v to %v", left, tt.min, tt.max)
			}
		})
	}
}

func TestDial_UnixSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "50% of it?.sock")
	serve(t, listen(t, "unix", path), &fake{})
	for _, target := range []string{"unix://" + path, "unix:" + path} {
		if _, err := dial(t, target).View(t.Context(), &memoryv1.ViewRequest{}); err != nil {
			t.Errorf("view at %s: %v", target, err)
		}
	}
	t.Chdir(filepath.Dir(path))
	serve(t, listen(t, "unix", "relative.sock"), &fake{})
	if _, err := dial(t, "unix:relative.sock").View(t.Context(), &memoryv1.ViewRequest{}); err != nil {
		t.Errorf("view at a relative path: %v", err)
	}
}

func TestDial_DNS(t *testing.T) {
	l := listen(t, "tcp", "127.0.0.1:0")
	serve(t, l, &fake{})
	if _, err := dial(t, "dns:///"+l.Addr().String()).View(t.Context(), &memoryv1.ViewRequest{}); err != nil {
		t.Error(err)
	}
}

// The options of the user come last, so their limit replaces the package's.
func TestWithDialOptions_Win(t *testing.T) {
	c, _ := start(t, &fake{}, WithDialOptions(grpc.WithDefaultCallOptions(grpc.MaxCallSendMsgSize(10))))
	_, err := c.Create(t.Context(), &memoryv1.CreateRequest{FileText: strings.Repeat("x", 100)})
	if got := status.Code(err); got != codes.ResourceExhausted {
		t.Errorf("got %v, want RESOURCE_EXHAUSTED by the limit of the user", err)
	}
}

func TestMessageLimits(t *testing.T) {
	big := strings.Repeat("x", maxRequestBytes-100)
	c, _ := start(t, &fake{unary: func(_ context.Context, _ string, req proto.Message) (proto.Message, error) {
		text := req.(*memoryv1.CreateRequest).GetFileText()
		return &memoryv1.CreateResponse{Result: &memoryv1.ToolResult{Content: textContent(text, text, text)}}, nil
	}})
	resp, err := c.Create(t.Context(), &memoryv1.CreateRequest{FileText: big})
	if err != nil {
		t.Fatal(err)
	}
	if got := len(resp.GetResult().GetContent()[2].GetText()); got != len(big) {
		t.Errorf("got %d bytes, want %d", got, len(big))
	}
	_, err = c.Create(t.Context(), &memoryv1.CreateRequest{FileText: big + strings.Repeat("x", 100)})
	if status.Code(err) != codes.ResourceExhausted || !strings.Contains(err.Error(), "trying to send") {
		t.Errorf("got %v, want a request that is too large to be sent", err)
	}
}

// A service that starts after the client was dialled, and even after a call failed, is found without a new Dial.
func TestServiceThatStartsLater(t *testing.T) {
	path := filepath.Join(t.TempDir(), "memoryd.sock")
	c := dial(t, "unix://"+path)
	if _, err := c.View(t.Context(), &memoryv1.ViewRequest{}); !IsUnreachable(err) {
		t.Fatalf("got %v, want unreachable", err)
	}
	serve(t, listen(t, "unix", path), &fake{})
	for state := c.conn.GetState(); state != connectivity.Ready; state = c.conn.GetState() {
		c.conn.Connect()
		c.conn.WaitForStateChange(t.Context(), state)
	}
	if _, err := c.View(t.Context(), &memoryv1.ViewRequest{}); err != nil {
		t.Error(err)
	}
}

// gRPC's own retry stays off, even where a service config asks for it.
func TestNoRetryOfGRPC(t *testing.T) {
	var calls atomic.Int32
	c, _ := start(t, &fake{unary: func(context.Context, string, proto.Message) (proto.Message, error) {
		calls.Add(1)
		return nil, status.Error(codes.Unavailable, "try again")
	}}, WithRetryBudget(0), WithDialOptions(grpc.WithDefaultServiceConfig(`{"methodConfig": [{"name": [{}], "retryPolicy": {
		"maxAttempts": 3, "initialBackoff": "0.001s", "maxBackoff": "0.001s", "backoffMultiplier": 1,
		"retryableStatusCodes": ["UNAVAILABLE"]}}]}`)))
	if _, err := c.View(t.Context(), &memoryv1.ViewRequest{}); status.Code(err) != codes.Unavailable {
		t.Errorf("got %v, want UNAVAILABLE", err)
	}
	if got := calls.Load(); got != 1 {
		t.Errorf("the server was called %d times, want once", got)
	}
}

// TestApply_TooLarge sends a batch that no message carries: the result names the limit, and the service sees nothing.
func TestApply_TooLarge(t *testing.T) {
	c, _ := start(t, &fake{})
	resp, err := c.Apply(t.Context(), &memoryv1.ApplyRequest{Commands: []*memoryv1.ApplyCommand{
		{Input: strings.Repeat("x", maxRequestBytes)},
	}})
	if err != nil {
		t.Fatal(err)
	}
	r := resp.GetResult()
	if !r.GetIsError() || r.GetReason() != memoryv1.Reason_REASON_BATCH_TOO_LARGE ||
		r.GetContent()[0].GetText() != textBatchTooLarge || resp.FailedCommand != nil {
		t.Errorf("got %v", resp)
	}
}
