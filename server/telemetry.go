package server

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/genproto/googleapis/rpc/code"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"

	memoryv1 "github.com/seed-7f2870e1/memoryd/gen/memoryd/v1"
	"github.com/seed-7f2870e1/memoryd/server/internal/rpc"
	"github.com/seed-7f2870e1/memoryd/server/kv"
)

// Attributes of the spans of calls, besides those of package otelgrpc. Those that begin with gen_ai are of the semantic
// conventions for generative AI, version 0.1.0, which are in development.
const (
	attrCommand   = attribute.Key("memoryd.command")        // such as str_replace
	attrReason    = attribute.Key("memoryd.reason")         // as the metrics have it, or of the ErrorInfo of an error
	attrNamespace = attribute.Key("memoryd.namespace")      // where its name is well-formed
	attrStore     = attribute.Key("gen_ai.memory.store.id") // the namespace, by its name in the conventions
	attrOperation = attribute.Key("gen_ai.operation.name")
	attrErrorType = attribute.Key("error.type") // the gRPC code of an error
)

// tracerName is of what makes the spans that are not of package otelgrpc.
const tracerName = "github.com/seed-7f2870e1/memoryd/server"

// Gatherer returns what gathers the metrics of /metrics, for whoever exports them in another way.
func (s *Server) Gatherer() prometheus.Gatherer { return s.metrics.Gatherer() }

// tracingOptions are the options of gRPC that make a span for every call; none where calls are not traced, so that they
// pay nothing for it.
func tracingOptions(cfg Config) []grpc.ServerOption {
	if cfg.TracerProvider == nil {
		return nil
	}
	propagator := cfg.Propagator
	if propagator == nil {
		propagator = propagation.NewCompositeTextMapPropagator(propagation.TraceContext{}, propagation.Baggage{})
	}
	return []grpc.ServerOption{grpc.StatsHandler(tracing{otelgrpc.NewServerHandler(
		otelgrpc.WithTracerProvider(cfg.TracerProvider),
		otelgrpc.WithPropagators(propagator),
		otelgrpc.WithMeterProvider(noop.NewMeterProvider()), // Metrics are those of package ops.
		otelgrpc.WithFilter(func(info *stats.RPCTagInfo) bool {
			_, ok := methods[info.FullMethodName] // Callers can make up names, and health checks tell nothing.
			return ok
		}),
	)})}
}

// tracing is a stats handler that tells the span of a call what the call is about and what became of it. Like the log,
// it knows the fields that it looks at, and no paths and nothing that memories contain are among them.
type tracing struct{ stats.Handler }

// TagRPC implements stats.Handler.
func (t tracing) TagRPC(ctx context.Context, info *stats.RPCTagInfo) context.Context {
	ctx = t.Handler.TagRPC(ctx, info)
	if span := trace.SpanFromContext(ctx); span.IsRecording() {
		span.SetAttributes(commandAttributes(commandsOfMethods[info.FullMethodName])...)
	}
	return ctx
}

// HandleRPC implements stats.Handler.
func (t tracing) HandleRPC(ctx context.Context, s stats.RPCStats) {
	if span := trace.SpanFromContext(ctx); span.IsRecording() {
		switch event := s.(type) {
		case *stats.InPayload:
			span.SetAttributes(requestAttributes(event.Payload)...)
		case *stats.OutPayload:
			span.SetAttributes(responseAttributes(event.Payload)...)
		case *stats.End:
			if event.Error != nil {
				failed := *event
				failed.Error = setError(span, event.Error)
				s = &failed
			}
		}
	}
	t.Handler.HandleRPC(ctx, s)
}

// commandsOfMethods are the names that the metrics have for what the methods do. Execute does what its request says.
var commandsOfMethods = map[string]string{
	memoryv1.MemoryService_View_FullMethodName:           "view",
	memoryv1.MemoryService_Create_FullMethodName:         "create",
	memoryv1.MemoryService_StrReplace_FullMethodName:     "str_replace",
	memoryv1.MemoryService_Insert_FullMethodName:         "insert",
	memoryv1.MemoryService_Delete_FullMethodName:         "delete",
	memoryv1.MemoryService_Rename_FullMethodName:         "rename",
	memoryv1.MemoryService_Apply_FullMethodName:          "apply",
	memoryv1.FileService_Put_FullMethodName:              "put",
	memoryv1.FileService_Get_FullMethodName:              "get",
	memoryv1.FileService_List_FullMethodName:             "list",
	memoryv1.FileService_Pin_FullMethodName:              "pin",
	memoryv1.AdminService_DeleteNamespace_FullMethodName: "delete_namespace",
}

// operations are the names that the conventions have for commands, as far as they have any. Of reading they know
// searching alone.
var operations = map[string]string{
	"view":             "search_memory",
	"get":              "search_memory",
	"list":             "search_memory",
	"create":           "create_memory",
	"str_replace":      "update_memory",
	"insert":           "update_memory",
	"rename":           "update_memory",
	"delete":           "delete_memory",
	"put":              "upsert_memory",
	"delete_namespace": "delete_memory_store",
}

func commandAttributes(command string) []attribute.KeyValue {
	if command == "" {
		return nil
	}
	attrs := []attribute.KeyValue{attrCommand.String(command)}
	if operation, ok := operations[command]; ok {
		attrs = append(attrs, attrOperation.String(operation))
	}
	return attrs
}

func requestAttributes(req any) []attribute.KeyValue {
	var attrs []attribute.KeyValue
	if _, ok := req.(*memoryv1.ExecuteRequest); ok {
		attrs = commandAttributes(rpc.Asked(req).Command)
	}
	if subject, err := rpc.SubjectOf(req); err == nil && subject.Namespace != "" {
		attrs = append(attrs, attrNamespace.String(subject.Namespace), attrStore.String(subject.Namespace))
	}
	return attrs
}

func responseAttributes(resp any) []attribute.KeyValue {
	if get, ok := resp.(*memoryv1.GetResponse); ok {
		resp = get.GetHeader()
	}
	if r, ok := resp.(interface{ GetResult() *memoryv1.ToolResult }); ok && r.GetResult() != nil {
		return []attribute.KeyValue{attrReason.String(rpc.ReasonLabel(r.GetResult().GetReason()))}
	}
	return nil
}

// setError tells a span of the error of its call, and returns the error that it may be described by: the text of the
// other can name a path.
func setError(span trace.Span, err error) error {
	st := status.Convert(err)
	reason := ""
	for _, detail := range st.Details() {
		if info, ok := detail.(*errdetails.ErrorInfo); ok {
			reason = info.GetReason()
			span.SetAttributes(attrReason.String(reason))
		}
	}
	span.SetAttributes(attrErrorType.String(code.Code(st.Code()).String()))
	return status.Error(st.Code(), reason)
}

// traced returns a store that makes a span for every update that is part of a traced call. Its events tell how long the
// update waited for its turn, took, and waited for its commit. Where calls are not traced, that is the store itself.
func traced(store kv.Store, cfg Config) kv.Store {
	if cfg.TracerProvider == nil {
		return store
	}
	return tracedStore{store, cfg.TracerProvider.Tracer(tracerName)}
}

type tracedStore struct {
	kv.Store
	tracer trace.Tracer
}

// Unwrap makes the abilities of the store known.
func (s tracedStore) Unwrap() kv.Store { return s.Store }

// Update implements kv.Store.
func (s tracedStore) Update(ctx context.Context, scope string, fn func(kv.Tx) error) error {
	if !trace.SpanFromContext(ctx).IsRecording() {
		return s.Store.Update(ctx, scope, fn)
	}
	ctx, span := s.tracer.Start(ctx, "store.update")
	defer span.End()
	return s.Store.Update(ctx, scope, func(tx kv.Tx) error {
		span.AddEvent("turn")
		defer span.AddEvent("commit")
		return fn(tx)
	})
}
