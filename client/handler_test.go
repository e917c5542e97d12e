package client

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/durationpb"

	memoryv1 "github.com/seed-7f2870e1/memoryd/gen/memoryd/v1"
)

const (
	viewInput   = `{"command":"view","path":"/memories/a"}`
	createInput = `{"command":"create","path":"/memories/a","file_text":"x"}`
	renameInput = `{"command":"rename","old_path":"/memories/a","new_path":"/memories/b"}`
)

// The results that the tests expect, spelled out as the model reads them.
var (
	unreachable = errorResult(memoryv1.Reason_REASON_SERVICE_UNREACHABLE,
		"Error: The memory service cannot be reached right now. Nothing was changed. Try again later.")
	unknown = errorResult(memoryv1.Reason_REASON_OUTCOME_UNKNOWN, "Error: The memory service did not answer in time. "+
		"The change may or may not have been made. View /memories/a before you try again.")
	problem = errorResult(memoryv1.Reason_REASON_SERVICE_PROBLEM,
		"Error: The memory service has a problem. Nothing was changed. Try again later.")
	notPermitted = errorResult(memoryv1.Reason_REASON_NOT_PERMITTED, "Error: Access to this memory is not permitted")
	readOnly     = errorResult(memoryv1.Reason_REASON_READ_ONLY, "Error: This memory is read-only")
	reused       = errorResult(memoryv1.Reason_REASON_REQUEST_ID_REUSED,
		"Error: This tool call id was already used for a different command")
)

func tooManyCalls(seconds int) Result {
	return errorResult(memoryv1.Reason_REASON_TOO_MANY_CALLS,
		fmt.Sprintf("Error: Too many memory calls. Wait %d seconds and try again.", seconds))
}

func checkResult(t *testing.T, got, want Result) {
	t.Helper()
	if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
		t.Errorf("result (-want +got):\n%s", diff)
	}
}

func answer(resp *memoryv1.ExecuteResponse, err error) *fake {
	return &fake{execute: func(context.Context, *memoryv1.ExecuteRequest) (*memoryv1.ExecuteResponse, error) {
		return resp, err
	}}
}

func TestHandle_Request(t *testing.T) {
	var got *memoryv1.ExecuteRequest
	c, _ := start(t, &fake{
		execute: func(_ context.Context, req *memoryv1.ExecuteRequest) (*memoryv1.ExecuteResponse, error) {
			got = req
			return textResponse("done"), nil
		},
	})
	c.newID = func() string { return "random" }

	for _, tt := range []struct {
		name    string
		handler *Handler
		input   json.RawMessage
		want    *memoryv1.ExecuteRequest
	}{
		{"nil input", c.Handler(""), nil, &memoryv1.ExecuteRequest{Namespace: DefaultNamespace, RequestId: "random"}},
		{
			"bytes stay as they are", c.Handler("acme/user-42"),
			json.RawMessage("{ \"a\":1.0, \"a\":\"\\u003c<\x00\" } x"),
			&memoryv1.ExecuteRequest{
				Namespace: "acme/user-42", RequestId: "random", Input: "{ \"a\":1.0, \"a\":\"\\u003c<\x00\" } x",
			},
		},
		{
			"session and invalid UTF-8", c.Handler("n\xff", WithSession("run\xff")), json.RawMessage("\"\xff\""),
			&memoryv1.ExecuteRequest{
				Namespace: "n\uFFFD", RequestId: "random", Session: "run\uFFFD", Input: "\"\uFFFD\"",
			},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			checkResult(t, tt.handler.Handle(t.Context(), tt.input), Result{Content: textContent("done")})
			if diff := cmp.Diff(tt.want, got, protocmp.Transform()); diff != "" {
				t.Errorf("request (-want +got):\n%s", diff)
			}
		})
	}
}

func TestHandle_ResultOfTheService(t *testing.T) {
	image := imageContent("image/jpeg", []byte("\xff\xd8\xff"))
	for _, tt := range []struct {
		name   string
		result *memoryv1.ToolResult
		want   Result
	}{
		{"text", &memoryv1.ToolResult{Content: textContent("a")}, Result{Content: textContent("a")}},
		{
			"note", &memoryv1.ToolResult{Content: textContent("a", "Note: b")},
			Result{Content: textContent("a", "Note: b")},
		},
		{
			"image", &memoryv1.ToolResult{Content: []*memoryv1.Content{image}},
			Result{Content: []*memoryv1.Content{image}},
		},
		{
			"error", &memoryv1.ToolResult{
				IsError: true, Reason: memoryv1.Reason_REASON_DELETE_ROOT, Content: textContent("Error: no"),
			},
			errorResult(memoryv1.Reason_REASON_DELETE_ROOT, "Error: no"),
		},
		// Never an empty answer, which a model may take for an empty memory.
		{"no content", &memoryv1.ToolResult{}, problem},
		{"no result", nil, problem},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, _ := start(t, answer(&memoryv1.ExecuteResponse{Result: tt.result}, nil))
			checkResult(t, c.Handler("").Handle(t.Context(), json.RawMessage(viewInput)), tt.want)
		})
	}
}

// Statuses as the service, gRPC, and proxies send them.
func TestHandle_Statuses(t *testing.T) {
	retryIn := func(d time.Duration) *errdetails.RetryInfo {
		return &errdetails.RetryInfo{RetryDelay: durationpb.New(d)}
	}
	for _, tt := range []struct {
		name        string
		err         error
		view, write Result
	}{
		{"bad namespace", serviceError(codes.InvalidArgument, "INVALID_NAMESPACE", true), problem, problem},
		{"bad request", serviceError(codes.InvalidArgument, "INVALID_REQUEST", true), problem, problem},
		{"request id reused", serviceError(codes.InvalidArgument, "REQUEST_ID_REUSED", true), reused, reused},
		{"full", serviceError(codes.ResourceExhausted, "STORE_FULL", true), problem, problem},
		{
			"overloaded", serviceError(codes.ResourceExhausted, "OVERLOADED", true, retryIn(1200*time.Millisecond)),
			tooManyCalls(2), tooManyCalls(2),
		},
		{
			"overloaded, whole seconds", serviceError(codes.ResourceExhausted, "OVERLOADED", true, retryIn(3*time.Second)),
			tooManyCalls(3), tooManyCalls(3),
		},
		{
			"overloaded, no delay", serviceError(codes.ResourceExhausted, "OVERLOADED", true, &errdetails.RetryInfo{}),
			tooManyCalls(1), tooManyCalls(1),
		},
		{
			"overloaded, negative delay", serviceError(codes.ResourceExhausted, "OVERLOADED", true, retryIn(-time.Hour)),
			tooManyCalls(1), tooManyCalls(1),
		},
		{"read-only", serviceError(codes.FailedPrecondition, "STORE_READ_ONLY", true), readOnly, readOnly},
		{"busy", serviceError(codes.Unavailable, "STORE_BUSY", true), problem, problem},
		{"closed", serviceError(codes.Unavailable, "STORE_CLOSED", true), problem, problem},
		{"corrupt", serviceError(codes.DataLoss, "STORE_CORRUPT", true), problem, problem},
		{"outcome unknown", serviceError(codes.Unknown, "OUTCOME_UNKNOWN", false), problem, unknown},
		{"deadline at the service", serviceError(codes.DeadlineExceeded, "DEADLINE_EXCEEDED", false), problem, unknown},
		{"cancelled at the service", serviceError(codes.Canceled, "CANCELLED", false), problem, unknown},
		{"internal", serviceError(codes.Internal, "INTERNAL", false), problem, unknown},
		{"internal, unchanged", serviceError(codes.Internal, "INTERNAL", true), problem, problem},
		{"unauthenticated", serviceError(codes.Unauthenticated, "UNAUTHENTICATED", true), notPermitted, notPermitted},
		{"denied", serviceError(codes.PermissionDenied, "PERMISSION_DENIED", true), notPermitted, notPermitted},
		{"may only read", serviceError(codes.PermissionDenied, "NAMESPACE_READ_ONLY", true), readOnly, readOnly},
		// Not of the service.
		{"denied by a proxy", status.Error(codes.PermissionDenied, "403"), notPermitted, notPermitted},
		{"proxy without upstream", status.Error(codes.Unavailable, "503"), unreachable, unknown},
		{"unknown", status.Error(codes.Unknown, "?"), unreachable, unknown},
		{"deadline", status.Error(codes.DeadlineExceeded, "?"), unreachable, unknown},
		{"cancelled", status.Error(codes.Canceled, "?"), unreachable, unknown},
		{"message too large", status.Error(codes.ResourceExhausted, "larger than max"), problem, unknown},
		{"not memoryd", status.Error(codes.Unimplemented, "unknown service"), problem, problem},
		{"other domain", otherDomain(), unreachable, unknown},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, _ := start(t, answer(nil, tt.err))
			h := c.Handler("")
			checkResult(t, h.Handle(t.Context(), json.RawMessage(viewInput)), tt.view)
			checkResult(t, h.Handle(t.Context(), json.RawMessage(createInput)), tt.write)
			checkResult(t, h.Handle(t.Context(), json.RawMessage(renameInput)), tt.write)
		})
	}
}

// otherDomain is a status of something between client and service, whose reasons mean nothing here.
func otherDomain() error {
	st, err := status.New(codes.Unavailable, "no").WithDetails(&errdetails.ErrorInfo{
		Domain: "proxy.example", Reason: "STORE_READ_ONLY", Metadata: map[string]string{"nothing_changed": "true"},
	})
	if err != nil {
		panic(err)
	}
	return st.Err()
}

func TestHandle_DeadService(t *testing.T) {
	h := dead(t).Handler("")
	for _, input := range []string{viewInput, createInput, ``, `x`} {
		checkResult(t, h.Handle(t.Context(), json.RawMessage(input)), unreachable)
	}
}

// A service that dies with the request in its hands.
func TestHandle_ServiceDies(t *testing.T) {
	for _, tt := range []struct {
		input string
		want  Result
	}{{viewInput, unreachable}, {createInput, unknown}, {renameInput, unknown}} {
		t.Run(tt.input, func(t *testing.T) {
			received := make(chan struct{})
			c, s := start(t, &fake{
				execute: func(ctx context.Context, _ *memoryv1.ExecuteRequest) (*memoryv1.ExecuteResponse, error) {
					close(received)
					<-ctx.Done()
					return nil, ctx.Err()
				},
			})
			stopped := make(chan struct{})
			go func() {
				defer close(stopped)
				<-received
				s.Stop()
			}()
			checkResult(t, c.Handler("").Handle(t.Context(), json.RawMessage(tt.input)), tt.want)
			<-stopped
		})
	}
}

func TestHandle_DeadlineAndCancel(t *testing.T) {
	hang := func(ctx context.Context, _ *memoryv1.ExecuteRequest) (*memoryv1.ExecuteResponse, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	t.Run("default deadline", func(t *testing.T) {
		c, _ := start(t, &fake{execute: hang}, WithTimeout(50*time.Millisecond))
		checkResult(t, c.Handler("").Handle(t.Context(), json.RawMessage(viewInput)), unreachable)
		checkResult(t, c.Handler("").Handle(t.Context(), json.RawMessage(createInput)), unknown)
	})
	t.Run("cancelled before", func(t *testing.T) {
		c, _ := start(t, &fake{execute: hang})
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		checkResult(t, c.Handler("").Handle(ctx, json.RawMessage(createInput)), unreachable)
	})
	t.Run("cancelled meanwhile", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		c, _ := start(t, &fake{
			execute: func(ctx context.Context, req *memoryv1.ExecuteRequest) (*memoryv1.ExecuteResponse, error) {
				cancel()
				return hang(ctx, req)
			},
		})
		checkResult(t, c.Handler("").Handle(ctx, json.RawMessage(createInput)), unknown)
	})
}

func TestHandle_ClosedClient(t *testing.T) {
	c, _ := start(t, answer(textResponse("done"), nil))
	h := c.Handler("")
	checkResult(t, h.Handle(t.Context(), json.RawMessage(viewInput)), Result{Content: textContent("done")})
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	checkResult(t, h.Handle(t.Context(), json.RawMessage(viewInput)), unreachable)
	checkResult(t, h.Handle(t.Context(), json.RawMessage(createInput)), unreachable)
	if err := c.Close(); status.Code(errors.Unwrap(err)) != codes.Canceled {
		t.Errorf("second Close: %v, want an error with the code CANCELLED", err)
	}
}

func TestHandle_HugeInput(t *testing.T) {
	var calls int
	c, _ := start(t, &fake{
		execute: func(_ context.Context, req *memoryv1.ExecuteRequest) (*memoryv1.ExecuteResponse, error) {
			calls++
			if got := proto.Size(req); got != maxRequestBytes {
				t.Errorf("request of %d bytes, want %d", got, maxRequestBytes)
			}
			return textResponse("judged by the service"), nil
		},
	})
	h := c.Handler("")
	input := func(size int) json.RawMessage {
		const head, tail = `{"command":"create","path":"/memories/big.txt","file_text":"`, `"}`
		return json.RawMessage(head + strings.Repeat("x", size-len(head)-len(tail)) + tail)
	}
	overhead := proto.Size(&memoryv1.ExecuteRequest{
		Namespace: DefaultNamespace, RequestId: c.newID(), Input: string(input(maxRequestBytes)),
	}) - maxRequestBytes

	checkResult(t, h.Handle(t.Context(), input(maxRequestBytes-overhead)),
		Result{Content: textContent("judged by the service")})
	tooLarge := func(path string) Result {
		return errorResult(memoryv1.Reason_REASON_FILE_TOO_LARGE, "Error: File "+path+
			" exceeds the maximum size of 8.0M. Shorten the content or split it into several files.")
	}
	checkResult(t, h.Handle(t.Context(), input(maxRequestBytes-overhead+1)), tooLarge("/memories/big.txt"))
	checkResult(t, h.Handle(t.Context(), json.RawMessage(strings.Repeat("[", maxRequestBytes))), tooLarge("/memories"))
	if calls != 1 {
		t.Errorf("%d calls, want only the one that fits", calls)
	}
}

func TestHandle_Panics(t *testing.T) {
	// The service is there, so that the panic alone can be the reason of an error.
	c, _ := start(t, answer(textResponse("done"), nil), WithDialOptions(
		grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn,
			invoke grpc.UnaryInvoker, opts ...grpc.CallOption,
		) error {
			switch req.(*memoryv1.ExecuteRequest).GetSession() {
			case "before":
				panic("before the call")
			case "after":
				if err := invoke(ctx, method, req, reply, cc, opts...); err != nil {
					return err
				}
				panic("after the call")
			}
			return invoke(ctx, method, req, reply, cc, opts...)
		})))
	for _, tt := range []struct {
		session, input string
		want           Result
	}{
		{"", viewInput, Result{Content: textContent("done")}},
		{"before", viewInput, problem},
		{"before", createInput, problem},
		{"after", viewInput, problem},
		{"after", createInput, unknown},
	} {
		t.Run(tt.session, func(t *testing.T) {
			h := c.Handler("", WithSession(tt.session))
			checkResult(t, h.Handle(t.Context(), json.RawMessage(tt.input)), tt.want)
		})
	}
	t.Run("nil context", func(t *testing.T) {
		var ctx context.Context
		checkResult(t, c.Handler("").Handle(ctx, json.RawMessage(createInput)), problem)
	})
}

// brokenToken is a credential that cannot be read.
type brokenToken struct{ credentials.PerRPCCredentials }

func (brokenToken) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return nil, status.Error(codes.Unauthenticated, "no token")
}

func (brokenToken) RequireTransportSecurity() bool { return false }

func TestHandle_BrokenCredentials(t *testing.T) {
	c, _ := start(t, answer(textResponse("done"), nil), WithDialOptions(grpc.WithPerRPCCredentials(brokenToken{})))
	checkResult(t, c.Handler("").Handle(t.Context(), json.RawMessage(createInput)), notPermitted)
}

func TestHandle_Concurrently(t *testing.T) {
	c, _ := start(t, &fake{
		execute: func(_ context.Context, req *memoryv1.ExecuteRequest) (*memoryv1.ExecuteResponse, error) {
			return textResponse(req.GetSession() + req.GetInput()), nil
		},
	})
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			h := c.Handler("", WithSession(fmt.Sprint(i)))
			for j := range 20 {
				want := fmt.Sprintf(`%d{"n":%d}`, i, j)
				if got := h.Handle(t.Context(), json.RawMessage(fmt.Sprintf(`{"n":%d}`, j))).Text(); got != want {
					t.Errorf("got %q, want %q", got, want)
				}
			}
		})
	}
	wg.Wait()
}

func TestHandleToolUse(t *testing.T) {
	var got *memoryv1.ExecuteRequest
	c, _ := start(t, &fake{
		execute: func(_ context.Context, req *memoryv1.ExecuteRequest) (*memoryv1.ExecuteResponse, error) {
			got = req
			return textResponse("a <b> & \u2028"), nil
		},
	})
	h := c.Handler("n", WithSession("run-7"))
	longID := strings.Repeat("x", 300)
	deep := strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000)
	const content = `"content":"a <b> & ` + "\u2028" + `","is_error":false}`

	for _, tt := range []struct {
		name, block string
		id          string // as JSON, in the answer
		requestID   string
		input       string
		handler     *Handler
	}{
		{
			name:  "plain",
			block: `{"type":"tool_use","id":"toolu_1","name":"memory","input":` + viewInput + `}`,
			id:    `"toolu_1"`, requestID: "run-7/toolu_1", input: viewInput,
		},
		{
			name:  "without a session",
			block: `{"type":"tool_use","id":"toolu_1","name":"memory","input":` + viewInput + `}`,
			id:    `"toolu_1"`, requestID: "toolu_1", input: viewInput, handler: c.Handler("n"),
		},
		{
			name:  "input byte for byte",
			block: "{\"input\" : { \"b\":1.0,\"b\" : \"\\u003c\xff\"}\n, \"id\":\"a\",\"type\":\"tool_use\"}",
			id:    `"a"`, requestID: "run-7/a", input: "{ \"b\":1.0,\"b\" : \"\\u003c\uFFFD\"}",
		},
		{
			name:  "any name, other keys, last of equal keys",
			block: `{"type":"x","type":"tool_use","ID":"b","id":"a","name":"notes","cache_control":{},"input":[]}`,
			id:    `"a"`, requestID: "run-7/a", input: "[]",
		},
		{name: "no input", block: `{"type":"tool_use","id":"a"}`, id: `"a"`, requestID: "run-7/a"},
		{
			name: "null input", block: `{"type":"tool_use","id":"a","input":null}`,
			id: `"a"`, requestID: "run-7/a", input: "null",
		},
		{
			name: "odd id", block: `{"type":"tool_use","id":"<&>\"\\\u0001\u2028\ud800é` + "\xff" + `","input":{}}`,
			id:        `"<&>\"\\\u0001` + "\u2028\uFFFDé\uFFFD" + `"`,
			requestID: "run-7/<&>\"\\\u0001\u2028\uFFFDé\uFFFD", input: "{}",
		},
		{
			name: "long id", block: `{"type":"tool_use","id":"` + longID + `","input":{}}`, id: `"` + longID + `"`,
			requestID: requestID("run-7", longID), input: "{}",
		},
		{
			name: "deep input", block: `{"type":"tool_use","id":"a","input":` + deep + `}`,
			id: `"a"`, requestID: "run-7/a", input: deep,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			handler := tt.handler
			if handler == nil {
				handler = h
			}
			answer, err := handler.HandleToolUse(t.Context(), json.RawMessage(tt.block))
			if err != nil {
				t.Fatal(err)
			}
			want := `{"type":"tool_result","tool_use_id":` + tt.id + `,` + content
			if diff := cmp.Diff(want, string(answer)); diff != "" {
				t.Errorf("tool_result (-want +got):\n%s", diff)
			}
			if got.GetRequestId() != tt.requestID || got.GetInput() != tt.input || got.GetNamespace() != "n" {
				t.Errorf("request id %q, input %q, namespace %q; want %q, %q, n",
					got.GetRequestId(), got.GetInput(), got.GetNamespace(), tt.requestID, tt.input)
			}
		})
	}
}

func TestHandleCall(t *testing.T) {
	var got *memoryv1.ExecuteRequest
	c, _ := start(t, &fake{
		execute: func(_ context.Context, req *memoryv1.ExecuteRequest) (*memoryv1.ExecuteResponse, error) {
			got = req
			return textResponse("done"), nil
		},
	})
	c.newID = func() string { return "random" }
	long := strings.Repeat("x", 300)
	for _, tt := range []struct{ session, id, requestID string }{
		{"run-7", "toolu_1", "run-7/toolu_1"},
		{"", "toolu_1", "toolu_1"},
		{"run-7", long, requestID("run-7", long)},
		{"run-7", "", "random"},
		{"", "", "random"},
	} {
		h := c.Handler("n", WithSession(tt.session))
		checkResult(t, h.HandleCall(t.Context(), tt.id, json.RawMessage(` {"a":1.0}`)), Result{Content: textContent("done")})
		if got.GetRequestId() != tt.requestID || got.GetInput() != ` {"a":1.0}` || got.GetSession() != tt.session {
			t.Errorf("session %q, id %q: request id %q, input %q, session %q; want the request id %q",
				tt.session, tt.id, got.GetRequestId(), got.GetInput(), got.GetSession(), tt.requestID)
		}
	}
}

// A session of any bytes is one that the service takes, and sessions that differ are never the same in a request id.
func TestWithSession(t *testing.T) {
	var got *memoryv1.ExecuteRequest
	c, _ := start(t, &fake{
		execute: func(_ context.Context, req *memoryv1.ExecuteRequest) (*memoryv1.ExecuteResponse, error) {
			got = req
			return textResponse("done"), nil
		},
	})
	long := strings.Repeat("s", 128)
	requestIDs := make(map[string]string)
	for _, tt := range []struct{ session, want string }{
		{"", ""},
		{"run-7", "run-7"},
		{long, long},
		{long + "s", fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(long+"s")))},
		{long + "t", fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(long+"t")))},
		{"run\xfe", "run\uFFFD"},
		{"run\xff", "run\uFFFD"},
		{long[:127] + "\xff", fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(long[:127]+"\xff")))}, // U+FFFD has 3 bytes
	} {
		h := c.Handler("n", WithSession(tt.session))
		checkResult(t, h.HandleCall(t.Context(), "toolu_1", json.RawMessage(viewInput)), Result{Content: textContent("done")})
		if got.GetSession() != tt.want {
			t.Errorf("session %q is %q to the service, want %q", tt.session, got.GetSession(), tt.want)
		}
		if other, ok := requestIDs[got.GetRequestId()]; ok {
			t.Errorf("sessions %q and %q have the same request id: %q", other, tt.session, got.GetRequestId())
		}
		requestIDs[got.GetRequestId()] = tt.session
	}
}

func TestHandleToolUse_NotAToolUseBlock(t *testing.T) {
	h := dead(t).Handler("") // nothing here reaches the service
	for _, tt := range []struct{ block, want string }{
		{``, `parse JSON: unexpected EOF`},
		{`{"type":"tool_use"`, `parse JSON: unexpected EOF`},
		{`{"type":"tool_use","id":"a`, `parse JSON: unexpected EOF`},
		{`{"type":"tool_use","id":a}`, `parse JSON: invalid character 'a' looking for beginning of value`},
		{`[]`, `parse JSON: not a JSON object`},
		{`"tool_use"`, `parse JSON: not a JSON object`},
		{`{"type":"tool_use","id":"a"} {}`, `parse JSON: something follows the JSON object`},
		{`{"id":"a","input":{}}`, `"type" is missing or not a string`},
		{`{"type":5,"id":"a"}`, `"type" is missing or not a string`},
		{`{"type":"text","text":"hello"}`, `"type" is "text"`},
		{`{"type":"tool_use","input":{}}`, `"id" is missing, empty or not a string`},
		{`{"type":"tool_use","id":"","input":{}}`, `"id" is missing, empty or not a string`},
		{`{"type":"tool_use","id":7,"input":{}}`, `"id" is missing, empty or not a string`},
	} {
		t.Run(tt.block, func(t *testing.T) {
			got, err := h.HandleToolUse(t.Context(), json.RawMessage(tt.block))
			if got != nil || err == nil || err.Error() != "read tool_use block: "+tt.want {
				t.Errorf("got %s, %v, want the error %q", got, err, tt.want)
			}
		})
	}
}

func TestHandleToolUse_DeadService(t *testing.T) {
	got, err := dead(t).Handler("").HandleToolUse(t.Context(),
		json.RawMessage(`{"type":"tool_use","id":"a","name":"memory","input":`+viewInput+`}`))
	want := `{"type":"tool_result","tool_use_id":"a","content":"Error: The memory service cannot be reached ` +
		`right now. Nothing was changed. Try again later.","is_error":true}`
	if err != nil || string(got) != want {
		t.Errorf("got %s, %v, want %s", got, err, want)
	}
}

func TestRequestID(t *testing.T) {
	seen := make(map[string]string)
	for _, tt := range []struct{ session, id, want string }{
		{"", "a", "a"},
		{"s", "a", "s/a"},
		{"s/t", "a", "s/t/a"},
		{"", strings.Repeat("x", 128), strings.Repeat("x", 128)},
		{"s", strings.Repeat("x", 126), "s/" + strings.Repeat("x", 126)},
		{"", "s/a", "sha256:"},
		{"s", "t/a", "sha256:"},
		{"", strings.Repeat("x", 129), "sha256:"},
		{"s", strings.Repeat("x", 127), "sha256:"},
		{strings.Repeat("s", 128), "a", "sha256:"},
		{strings.Repeat("s", 128), "b", "sha256:"},
		{"", "a\uFFFD", "a\uFFFD"},
		{"", "a\xfe", "sha256:"},
		{"", "a\xff", "sha256:"},
		{"s\xfe", "a", "sha256:"},
		{"s\xff", "a", "sha256:"},
		{"s\uFFFD", "a", "s\uFFFD/a"},
	} {
		got := requestID(tt.session, tt.id)
		if strings.HasPrefix(tt.want, "sha256:") {
			if len(got) != len("sha256:")+64 || !strings.HasPrefix(got, "sha256:") {
				t.Errorf("requestID(%q, %q) = %q, want a SHA-256", tt.session, tt.id, got)
			}
		} else if got != tt.want {
			t.Errorf("requestID(%q, %q) = %q, want %q", tt.session, tt.id, got, tt.want)
		}
		if got != requestID(tt.session, tt.id) {
			t.Errorf("requestID(%q, %q) changes", tt.session, tt.id)
		}
		pair := fmt.Sprintf("(%q, %q)", tt.session, tt.id)
		if other, ok := seen[got]; ok {
			t.Errorf("%s has the request id of %s: %s", pair, other, got)
		}
		seen[got] = pair
	}
}

// Any bytes of a block give a tool_result or an error, and any input a result.
func FuzzHandleToolUse(f *testing.F) {
	f.Add([]byte(`{"type":"tool_use","id":"toolu_1","name":"memory","input":{"command":"view","path":"/memories"}}`))
	f.Add([]byte(`{"type":"tool_use","id":"<\ud800","input":"{\"command\":\"view\"}"}`))
	f.Add([]byte(`{"type":"tool_use","id":"a","input":` + createInput + `}`))
	f.Add([]byte("\xff\x00"))
	c, err := Dial("unix:"+f.TempDir()+"/memoryd.sock", WithRetryBudget(0))
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _ = c.Close() })
	h := c.Handler("")
	f.Fuzz(func(t *testing.T, block []byte) {
		if got := h.Handle(t.Context(), block); !got.IsError || got.Text() == "" {
			t.Errorf("Handle(%q) = %+v, want an error without a service", block, got)
		}
		got, err := h.HandleToolUse(t.Context(), block)
		if (err == nil) != json.Valid(got) {
			t.Errorf("HandleToolUse(%q) = %s, %v", block, got, err)
		}
	})
}
