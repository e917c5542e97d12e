// Package otlptest is a collector of OpenTelemetry for tests: it takes traces and metrics over gRPC on loopback, and
// keeps them.
package otlptest

import (
	"context"
	"net"
	"testing"

	metricspb "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	tracepb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	metricpb "go.opentelemetry.io/proto/otlp/metrics/v1"
	spanpb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
)

// room is how many exports a collector keeps that nobody has taken; those that come then wait.
const room = 1000

// Collector is a collector that runs until the test ends.
type Collector struct {
	endpoint string
	traces   chan *spanpb.ResourceSpans
	metrics  chan *metricpb.ResourceMetrics
}

// Start starts a collector.
func Start(t *testing.T) *Collector {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &Collector{
		endpoint: "http://" + listener.Addr().String(),
		traces:   make(chan *spanpb.ResourceSpans, room), metrics: make(chan *metricpb.ResourceMetrics, room),
	}
	server := grpc.NewServer()
	tracepb.RegisterTraceServiceServer(server, traceService{collector: c})
	metricspb.RegisterMetricsServiceServer(server, metricsService{collector: c})
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return c
}

// Env are the variables that have a process export everything to the collector, and soon.
func (c *Collector) Env() map[string]string {
	return map[string]string{
		"OTEL_EXPORTER_OTLP_ENDPOINT": c.endpoint, "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc",
		"OTEL_BSP_SCHEDULE_DELAY": "10", "OTEL_METRIC_EXPORT_INTERVAL": "50",
	}
}

// Span returns the first span of a name that has come and was not taken, or comes, with the attributes of its process.
func (c *Collector) Span(t *testing.T, name string) (*spanpb.Span, map[string]string) {
	t.Helper()
	for {
		select {
		case exported := <-c.traces:
			for _, scope := range exported.GetScopeSpans() {
				for _, span := range scope.GetSpans() {
					if span.GetName() == name {
						return span, Attributes(exported.GetResource().GetAttributes())
					}
				}
			}
		case <-t.Context().Done():
			t.Fatalf("no span %s came", name)
		}
	}
}

// Metric returns the first metric of a name that has come and was not taken, or comes, with the attributes of its
// process.
func (c *Collector) Metric(t *testing.T, name string) (*metricpb.Metric, map[string]string) {
	t.Helper()
	for {
		select {
		case exported := <-c.metrics:
			for _, scope := range exported.GetScopeMetrics() {
				for _, metric := range scope.GetMetrics() {
					if metric.GetName() == name {
						return metric, Attributes(exported.GetResource().GetAttributes())
					}
				}
			}
		case <-t.Context().Done():
			t.Fatalf("no metric %s came", name)
		}
	}
}

// Attributes are those attributes that are texts.
func Attributes(all []*commonpb.KeyValue) map[string]string {
	texts := map[string]string{}
	for _, a := range all {
		if text, ok := a.GetValue().GetValue().(*commonpb.AnyValue_StringValue); ok {
			texts[a.GetKey()] = text.StringValue
		}
	}
	return texts
}

type traceService struct {
	tracepb.UnimplementedTraceServiceServer
	collector *Collector
}

// Export implements tracepb.TraceServiceServer.
func (s traceService) Export(ctx context.Context, req *tracepb.ExportTraceServiceRequest) (
	*tracepb.ExportTraceServiceResponse, error,
) {
	for _, exported := range req.GetResourceSpans() {
		select {
		case s.collector.traces <- exported:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return &tracepb.ExportTraceServiceResponse{}, nil
}

type metricsService struct {
	metricspb.UnimplementedMetricsServiceServer
	collector *Collector
}

// Export implements metricspb.MetricsServiceServer.
func (s metricsService) Export(ctx context.Context, req *metricspb.ExportMetricsServiceRequest) (
	*metricspb.ExportMetricsServiceResponse, error,
) {
	for _, exported := range req.GetResourceMetrics() {
		select {
		case s.collector.metrics <- exported:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return &metricspb.ExportMetricsServiceResponse{}, nil
}
