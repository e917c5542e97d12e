package server

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/attribute"
	otelcodes "go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"

	memoryv1 "github.com/seed-7f2870e1/memoryd/gen/memoryd/v1"
	"github.com/seed-7f2870e1/memoryd/server/kv"
	"github.com/seed-7f2870e1/memoryd/server/kv/boltkv"
)

// secretWord is in every path and text of these tests, and must be in no span.
const secretWord = "xylophone"

// attributesOf are the attributes of a span that are memoryd's own.
func attributesOf(span sdktrace.ReadOnlySpan) map[string]string {
	attrs := map[string]string{}
	for _, a := range span.Attributes() {
		key := string(a.Key)
		if strings.HasPrefix(key, "memoryd.") || strings.HasPrefix(key, "gen_ai.") || a.Key == attrErrorType {
			attrs[key] = a.Value.AsString()
		}
	}
	return attrs
}

// wantNoSecrets checks that a span has nothing of paths and texts.
func wantNoSecrets(t *testing.T, span sdktrace.ReadOnlySpan) {
	t.Helper()
	texts := []string{span.Name(), span.Status().Description}
	attrs := slices.Clone(span.Attributes())
	for _, event := range span.Events() {
		texts, attrs = append(texts, event.Name), append(attrs, event.Attributes...)
	}
	for _, a := range attrs {
		texts = append(texts, a.Value.String())
	}
	for _, text := range texts {
		if strings.Contains(text, secretWord) {
			t.Errorf("the span %s has %q", span.Name(), text)
		}
	}
}

// spanLog is a span processor that passes on spans as they end, which those of calls do after their answers.
type spanLog struct {
	calls  chan sdktrace.ReadOnlySpan
	within chan sdktrace.ReadOnlySpan // calls
}

func newSpanLog() *spanLog {
	return &spanLog{make(chan sdktrace.ReadOnlySpan, 100), make(chan sdktrace.ReadOnlySpan, 100)}
}

func (l *spanLog) provider() trace.TracerProvider {
	return sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(l))
}

func (l *spanLog) OnStart(context.Context, sdktrace.ReadWriteSpan) {}

func (l *spanLog) OnEnd(span sdktrace.ReadOnlySpan) {
	if span.SpanKind() == trace.SpanKindServer {
		l.calls <- span
	} else {
		l.within <- span
	}
}

func (l *spanLog) Shutdown(context.Context) error { return nil }

func (l *spanLog) ForceFlush(context.Context) error { return nil }

func TestTracing(t *testing.T) {
	spans := newSpanLog()
	store := &hookedStore{Store: newStore(t), view: func(context.Context) error { return nil }}
	r := start(t, Config{Store: store, TracerProvider: spans.provider()})
	ctx, memories := t.Context(), memoryv1.NewMemoryServiceClient(r.conn)
	const path = "/memories/" + secretWord
	corrupt := fmt.Errorf("chunk 3 of %s: %w", path, kv.ErrCorrupt)
	type attrs = map[string]string
	in := func(a attrs) attrs {
		a["memoryd.namespace"], a["gen_ai.memory.store.id"] = "acme/a", "acme/a"
		return a
	}
	tests := []struct {
		name string
		call func() error
		span string
		want attrs
		code codes.Code
	}{
		{
			"create", func() error {
				_, err := memories.Create(ctx, &memoryv1.CreateRequest{Namespace: "acme/a", Path: path, FileText: secretWord})
				return err
			}, "memoryd.v1.MemoryService/Create",
			in(attrs{"memoryd.command": "create", "memoryd.reason": "ok", "gen_ai.operation.name": "create_memory"}), codes.OK,
		},
		{
			"failing command", func() error {
				_, err := memories.Create(ctx, &memoryv1.CreateRequest{Namespace: "acme/a", Path: path, FileText: secretWord})
				return err
			}, "memoryd.v1.MemoryService/Create",
			in(attrs{
				"memoryd.command": "create", "memoryd.reason": "create_path_exists", "gen_ai.operation.name": "create_memory",
			}), codes.OK,
		},
		{
			"execute", func() error {
				_, err := memories.Execute(ctx, &memoryv1.ExecuteRequest{
					Namespace: "acme/a", Input: `{"command":"view","path":"` + path + `"}`,
				})
				return err
			}, "memoryd.v1.MemoryService/Execute",
			in(attrs{"memoryd.command": "view", "memoryd.reason": "ok", "gen_ai.operation.name": "search_memory"}), codes.OK,
		},
		{
			"execute nothing", func() error {
				_, err := memories.Execute(ctx, &memoryv1.ExecuteRequest{Namespace: "acme/a", Input: secretWord})
				return err
			}, "memoryd.v1.MemoryService/Execute", in(attrs{"memoryd.reason": "input_not_object"}), codes.OK,
		},
		{
			"malformed namespace", func() error {
				_, err := memories.View(ctx, &memoryv1.ViewRequest{Namespace: "../" + secretWord, Path: path})
				return err
			}, "memoryd.v1.MemoryService/View",
			attrs{
				"memoryd.command": "view", "memoryd.reason": "INVALID_NAMESPACE", "gen_ai.operation.name": "search_memory",
				"error.type": "INVALID_ARGUMENT",
			},
			codes.InvalidArgument,
		},
		{
			"fault of the service", func() error {
				store.view = func(context.Context) error { return corrupt }
				defer func() { store.view = func(context.Context) error { return nil } }()
				_, err := memories.View(ctx, &memoryv1.ViewRequest{Namespace: "acme/a", Path: path})
				return err
			}, "memoryd.v1.MemoryService/View",
			in(attrs{
				"memoryd.command": "view", "memoryd.reason": "STORE_CORRUPT", "gen_ai.operation.name": "search_memory",
				"error.type": "DATA_LOSS",
			}), codes.DataLoss,
		},
		{
			"stream", func() error {
				stream, err := memoryv1.NewFileServiceClient(r.conn).Put(ctx)
				if err != nil {
					return err
				}
				header := &memoryv1.PutHeader{Namespace: "acme/a", Path: path + "2"}
				messages := []*memoryv1.PutRequest{
					{Part: &memoryv1.PutRequest_Header{Header: header}},
					{Part: &memoryv1.PutRequest_Chunk{Chunk: []byte(secretWord)}},
				}
				for _, m := range messages {
					if err := stream.Send(m); err != nil {
						return err
					}
				}
				_, err = stream.CloseAndRecv()
				return err
			}, "memoryd.v1.FileService/Put",
			in(attrs{"memoryd.command": "put", "memoryd.reason": "ok", "gen_ai.operation.name": "upsert_memory"}), codes.OK,
		},
		{
			"administration", func() error {
				_, err := memoryv1.NewAdminServiceClient(r.conn).DeleteNamespace(ctx, &memoryv1.DeleteNamespaceRequest{Namespace: "acme/a"})
				return err
			}, "memoryd.v1.AdminService/DeleteNamespace",
			in(attrs{"memoryd.command": "delete_namespace", "gen_ai.operation.name": "delete_memory_store"}), codes.OK,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			wantCode(t, tt.call(), tt.code)
			span := <-spans.calls
			if got := span.Name(); got != tt.span {
				t.Errorf("got the span %s, want %s", got, tt.span)
			}
			if diff := cmp.Diff(tt.want, attributesOf(span)); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
			status := span.Status()
			if fault := tt.code == codes.DataLoss; fault != (status.Code == otelcodes.Error) ||
				fault && status.Description != "STORE_CORRUPT" {
				t.Errorf("got status %v", status)
			}
			wantNoSecrets(t, span)
			for len(spans.within) > 0 {
				wantNoSecrets(t, <-spans.within)
			}
		})
	}
	if _, err := healthpb.NewHealthClient(r.conn).Check(ctx, &healthpb.HealthCheckRequest{}); err != nil {
		t.Error(err)
	}
	wantCode(t, r.conn.Invoke(ctx, "/made.up/"+secretWord, &healthpb.HealthCheckRequest{}, &healthpb.HealthCheckResponse{}),
		codes.Unimplemented)
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	if n := len(spans.calls); n != 0 {
		t.Errorf("got %d spans of calls that are not memoryd's, want none", n)
	}
}

// TestTracing_Parent continues the trace of the caller, and has the update of the store within the call.
func TestTracing_Parent(t *testing.T) {
	spans := newSpanLog()
	r := start(t, Config{Data: t.TempDir(), TracerProvider: spans.provider()})
	const caller = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	ctx := metadata.AppendToOutgoingContext(t.Context(), "traceparent", caller)
	memories := memoryv1.NewMemoryServiceClient(r.conn)
	if _, err := memories.Create(ctx, &memoryv1.CreateRequest{Namespace: "n", Path: "/memories/f", FileText: "x"}); err != nil {
		t.Fatal(err)
	}
	update, call := <-spans.within, <-spans.calls
	if got, want := call.Parent().SpanID().String(), "b7ad6b7169203331"; got != want || !call.Parent().IsRemote() {
		t.Errorf("got the parent %s of the call, want %s", got, want)
	}
	if update.Name() != "store.update" || update.Parent().SpanID() != call.SpanContext().SpanID() {
		t.Errorf("got %s within %s, want store.update within the call", update.Name(), update.Parent().SpanID())
	}
	var events []string
	for _, e := range update.Events() {
		events = append(events, e.Name)
	}
	if diff := cmp.Diff([]string{"turn", "commit"}, events); diff != "" {
		t.Errorf("events of the update (-want +got)\n%s", diff)
	}
	for _, span := range []sdktrace.ReadOnlySpan{update, call} {
		if got := span.SpanContext().TraceID().String(); got != "0af7651916cd43dd8448eb211c80319c" {
			t.Errorf("%s: got the trace %s, want that of the caller", span.Name(), got)
		}
	}
}

// TestTracing_Propagator takes the trace from nowhere where it is told so.
func TestTracing_Propagator(t *testing.T) {
	spans := newSpanLog()
	r := start(t, Config{TracerProvider: spans.provider(), Propagator: propagation.NewCompositeTextMapPropagator()})
	ctx := metadata.AppendToOutgoingContext(t.Context(), "traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	wantCode(t, viewOn(ctx, r.conn), codes.OK)
	if span := <-spans.calls; span.Parent().IsValid() {
		t.Errorf("got a span within %s, want one without a parent", span.Parent().SpanID())
	}
}

// TestTracing_Strangers has a span of a call that was refused, without what its request says.
func TestTracing_Strangers(t *testing.T) {
	spans := newSpanLog()
	r := start(t, Config{
		Principals:     newFiles(t).write("principals.yaml", tokensOf("a", "good")),
		TracerProvider: spans.provider(),
	})
	wantCode(t, viewOn(t.Context(), r.conn), codes.Unauthenticated)
	want := map[string]string{
		"memoryd.command": "view", "memoryd.reason": "UNAUTHENTICATED", "gen_ai.operation.name": "search_memory",
		"error.type": "UNAUTHENTICATED",
	}
	if diff := cmp.Diff(want, attributesOf(<-spans.calls)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// TestTracing_Off installs nothing.
func TestTracing_Off(t *testing.T) {
	if opts := tracingOptions(Config{}); len(opts) != 0 {
		t.Errorf("got %d options of gRPC, want none", len(opts))
	}
	store := newStore(t)
	if got := traced(store, Config{}); got != store {
		t.Errorf("got %T around the store, want none", got)
	}
}

// TestTracedStore finds the abilities of the store, and makes no span where there is none to be within.
func TestTracedStore(t *testing.T) {
	spans := newSpanLog()
	cfg := Config{TracerProvider: spans.provider()}
	bolt, err := boltkv.Open(t.Context(), boltkv.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	store := traced(bolt, cfg)
	if _, ok := kv.As[kv.StatsReporter](store); !ok {
		t.Error("the store tells no numbers any more")
	}
	failed := errors.New("fails")
	if err := store.Update(t.Context(), "n", func(kv.Tx) error { return failed }); !errors.Is(err, failed) {
		t.Errorf("got %v, want the error of the function", err)
	}
	if err := store.Close(); err != nil {
		t.Error(err)
	}
	if n := len(spans.within); n != 0 {
		t.Errorf("got %d spans outside of calls", n)
	}
}

// TestTracing_Commands has a name for what every method does that is counted as a command.
func TestTracing_Commands(t *testing.T) {
	for method := range methods {
		_, named := commandsOfMethods[method]
		service := strings.Split(method, "/")[1]
		counted := service != memoryv1.AdminService_ServiceDesc.ServiceName &&
			method != memoryv1.MemoryService_Execute_FullMethodName
		if counted && !named {
			t.Errorf("%s has no name of a command", method)
		}
	}
	for command, operation := range operations {
		if got := commandAttributes(command); !slices.Contains(got, attribute.String(string(attrOperation), operation)) {
			t.Errorf("%s: got %v", command, got)
		}
	}
}
