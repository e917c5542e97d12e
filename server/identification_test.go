package server

import (
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	memoryv1 "github.com/seed-7f2870e1/memoryd/gen/memoryd/v1"
)

// requestIDOf returns the request id that a status tells, and the status without it.
func requestIDOf(t *testing.T, st *status.Status) (id string, rest *statuspb.Status) {
	t.Helper()
	rest = st.Proto()
	others := rest.GetDetails()[:0:0]
	for _, detail := range rest.GetDetails() {
		info := &errdetails.RequestInfo{}
		if !detail.MessageIs(info) {
			others = append(others, detail)
			continue
		}
		if err := detail.UnmarshalTo(info); err != nil {
			t.Fatal(err)
		}
		if id != "" {
			t.Errorf("the status has two request ids: %v", st)
		}
		id = info.GetRequestId()
	}
	rest.Details = others
	return id, rest
}

// withoutRequestID returns a status without its request id, which it must have.
func withoutRequestID(t *testing.T, st *status.Status) *statuspb.Status {
	t.Helper()
	id, rest := requestIDOf(t, st)
	if id == "" {
		t.Errorf("%v has no request id", st)
	}
	return rest
}

// isMade tells whether an id is one that the server makes.
func isMade(id string) bool { return len(id) == 32 && strings.Trim(id, "0123456789abcdef") == "" }

// fieldsOf returns the values of a key in JSON lines.
func fieldsOf(t *testing.T, lines, key string) []string {
	t.Helper()
	var values []string
	for line := range strings.Lines(lines) {
		var fields map[string]any
		if err := json.Unmarshal([]byte(line), &fields); err != nil {
			t.Fatal(err)
		}
		if value, ok := fields[key].(string); ok {
			values = append(values, value)
		}
	}
	return values
}

func TestGivenRequestID(t *testing.T) {
	longest := strings.Repeat("x", maxRequestIDBytes)
	for _, tt := range []struct {
		values []string
		want   string
	}{
		{nil, ""},
		{[]string{"a"}, "a"},
		{[]string{"!~"}, "!~"},
		{[]string{longest}, longest},
		{[]string{longest + "x"}, ""},
		{[]string{strings.Repeat("x", 10<<10)}, ""},
		{[]string{""}, ""},
		{[]string{"a b"}, ""},
		{[]string{"a\nlevel=ERROR"}, ""},
		{[]string{"a\x00"}, ""},
		{[]string{"a\x7f"}, ""},
		{[]string{"\xff\xfe"}, ""},
		{[]string{"ä"}, ""},
		{[]string{"a", "b"}, ""},
	} {
		if got := givenRequestID(tt.values); got != tt.want {
			t.Errorf("%.20q: got %.20q, want %.20q", tt.values, got, tt.want)
		}
	}
}

// The id of a call is the same wherever it is told: in the log, in the audit trail, in the trailer, and in an error.
func TestIdentification(t *testing.T) {
	const chosen = "my-call-1"
	for _, tt := range []struct {
		name  string
		level slog.Level
		send  []string // as x-request-id
		token string
		path  string // of the file that is created
		code  codes.Code
		made  bool // the server makes an id
		lines int  // of the log
	}{
		{"chosen", slog.LevelDebug, []string{chosen}, "alice", "/memories/a", codes.OK, false, 1},
		{"chosen and refused", slog.LevelInfo, []string{chosen}, "nobody", "/memories/a", codes.PermissionDenied, false, 1},
		{"made", slog.LevelDebug, nil, "alice", "/memories/a", codes.OK, true, 1},
		{"for the audit trail alone", slog.LevelInfo, nil, "alice", "/memories/a", codes.OK, true, 0},
		{"stranger", slog.LevelInfo, nil, "wrong", "/memories/a", codes.Unauthenticated, true, 1},
		{"bad request", slog.LevelInfo, nil, "alice", "/memories/a", codes.InvalidArgument, true, 1},
		{"too long", slog.LevelInfo, []string{strings.Repeat("x", 10<<10)}, "nobody", "/memories/a", codes.PermissionDenied, true, 1},
		{"blank", slog.LevelInfo, []string{"a b"}, "nobody", "/memories/a", codes.PermissionDenied, true, 1},
		{"two", slog.LevelInfo, []string{"a", "b"}, "nobody", "/memories/a", codes.PermissionDenied, true, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			log := &logBuffer{}
			logger := slog.New(slog.NewJSONHandler(log, &slog.HandlerOptions{Level: tt.level}))
			file := filepath.Join(t.TempDir(), "audit.jsonl")
			s := start(t, Config{Principals: writePrincipals(t, principalsFile), AuditLog: file, Logger: logger})
			ctx := as(t, tt.token)
			for _, id := range tt.send {
				ctx = metadata.AppendToOutgoingContext(ctx, requestIDKey, id)
			}
			namespace := "shared"
			if tt.code == codes.InvalidArgument {
				namespace = "no namespace"
			}
			var trailer metadata.MD
			_, err := memoryv1.NewMemoryServiceClient(s.conn).Create(ctx, &memoryv1.CreateRequest{
				Namespace: namespace, RequestId: "once", Path: tt.path,
			}, grpc.Trailer(&trailer))
			wantCode(t, err, tt.code)
			if err := s.stop(); err != nil {
				t.Fatal(err)
			}

			if len(trailer.Get(requestIDKey)) != 1 {
				t.Fatalf("got the trailer %v, want one id", trailer)
			}
			id := trailer.Get(requestIDKey)[0]
			if made := isMade(id); made != tt.made || !made && id != chosen {
				t.Errorf("got the id %q, want one that the server makes: %t", id, tt.made)
			}
			if err != nil {
				if got, _ := requestIDOf(t, status.Convert(err)); got != id {
					t.Errorf("the error has the id %q, want %q", got, id)
				}
			}
			var lines []string
			for line := range strings.Lines(log.String()) {
				if strings.Contains(line, `"msg":"call"`) {
					lines = append(lines, line)
				}
			}
			wantIDs := slices.Repeat([]string{id}, tt.lines)
			if diff := cmp.Diff(wantIDs, fieldsOf(t, strings.Join(lines, ""), keyXRequestID)); tt.lines > 0 && diff != "" {
				t.Errorf("in the log (-want +got):\n%s", diff)
			}
			audit, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]string{id}, fieldsOf(t, string(audit), keyXRequestID)); diff != "" {
				t.Errorf("in the audit trail (-want +got):\n%s", diff)
			}
			if tt.code == codes.OK {
				if diff := cmp.Diff([]string{"once"}, fieldsOf(t, string(audit), "request_id")); diff != "" {
					t.Errorf("the request_id of the API (-want +got):\n%s", diff)
				}
			}
		})
	}
}

// A call that is well has no id where nothing tells of it and its caller has chosen none.
func TestIdentification_Quiet(t *testing.T) {
	log := &logBuffer{}
	s := start(t, Config{Logger: slog.New(slog.NewJSONHandler(log, nil))})
	for _, chosen := range []string{"", "mine"} {
		ctx := t.Context()
		if chosen != "" {
			ctx = metadata.AppendToOutgoingContext(ctx, requestIDKey, chosen)
		}
		var trailer metadata.MD
		_, err := memoryv1.NewMemoryServiceClient(s.conn).View(ctx, &memoryv1.ViewRequest{Namespace: "n", Path: "/memories"},
			grpc.Trailer(&trailer))
		wantCode(t, err, codes.OK)
		if got := strings.Join(trailer.Get(requestIDKey), ","); got != chosen {
			t.Errorf("got the id %q, want %q", got, chosen)
		}
	}
}

// A stream tells the id as other calls do.
func TestIdentification_Stream(t *testing.T) {
	s := start(t, Config{})
	stream, err := memoryv1.NewFileServiceClient(s.conn).Get(t.Context(), &memoryv1.GetRequest{Namespace: "no namespace"})
	if err != nil {
		t.Fatal(err)
	}
	_, err = stream.Recv()
	wantStatus(t, err, codes.InvalidArgument, "INVALID_NAMESPACE")
	id, _ := requestIDOf(t, status.Convert(err))
	if got := stream.Trailer().Get(requestIDKey); !isMade(id) || !slices.Equal(got, []string{id}) {
		t.Errorf("got the id %q and %q in the trailer, want the same", id, got)
	}
}

// A panic in a layer, which is recovered around the layer that identifies calls, has the id of the log.
func TestIdentification_Panics(t *testing.T) {
	for method, through := range calls {
		t.Run(method, func(t *testing.T) {
			log := &logBuffer{}
			s := newChained(slog.New(panicHandler{log.logger().Handler()}))
			c, ctx := callIn(metadata.NewIncomingContext(t.Context(), metadata.Pairs(requestIDKey, "mine")))
			err := through(ctx, s.chain(), func(context.Context) error { return nil })
			wantStatus(t, err, codes.Internal, "INTERNAL")
			if id, _ := requestIDOf(t, status.Convert(err)); id != "mine" || c.id() != "mine" {
				t.Errorf("got the id %q, want the one that was chosen", id)
			}
			if got := fieldsOf(t, log.String(), keyXRequestID); !slices.Equal(got, []string{"mine"}) {
				t.Errorf("got the ids %q in the log, want that of the call:\n%s", got, log)
			}
		})
	}
}

// Where a call is traced, its line in the log leads to the trace.
func TestLog_Trace(t *testing.T) {
	log := &logBuffer{}
	s := newChained(log.logger())
	ctx := trace.ContextWithSpanContext(t.Context(), trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID{1, 2, 3}, SpanID: trace.SpanID{4, 5, 6},
	}))
	for _, ctx := range []context.Context{ctx, t.Context()} {
		if err := calls[memoryv1.MemoryService_View_FullMethodName](ctx, s.chain(), func(context.Context) error {
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	for key, want := range map[string][]string{
		"trace_id": {"01020300000000000000000000000000"}, "span_id": {"0405060000000000"},
	} {
		if diff := cmp.Diff(want, fieldsOf(t, log.String(), key)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", key, diff)
		}
	}
}

// equalButForID tells whether two statuses say the same, each with an id of its own.
func equalButForID(t *testing.T, a, b *status.Status) bool {
	t.Helper()
	return proto.Equal(withoutRequestID(t, a), withoutRequestID(t, b))
}
