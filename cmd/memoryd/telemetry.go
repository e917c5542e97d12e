package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	prometheusbridge "go.opentelemetry.io/contrib/bridges/prometheus"
	"go.opentelemetry.io/contrib/exporters/autoexport"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"golang.org/x/time/rate"

	"github.com/seed-7f2870e1/memoryd/server"
)

const (
	// telemetryStopTimeout is the longest that the end of the service waits for what is left to be exported.
	telemetryStopTimeout = 3 * time.Second
	// telemetryWarnEvery is how often at most the log says that nothing can be exported.
	telemetryWarnEvery = time.Minute
)

// telemetrySettings is what the variables of OpenTelemetry ask for. The zero value is nothing.
type telemetrySettings struct {
	traces, metrics exported
	propagator      propagation.TextMapPropagator
}

// exported is how a signal of OpenTelemetry is exported, and the variable that asks for it; "" is not at all.
type exported struct{ exporter, variable string }

// telemetrySettings reads those variables of OpenTelemetry that decide what is exported, and checks those whose values
// the SDK would refuse. The SDK reads the others by itself.
func (s *settings) telemetrySettings() (telemetrySettings, error) {
	get := func(name string) string {
		value, _ := s.lookupEnv(name)
		return strings.TrimSpace(value)
	}
	if strings.EqualFold(get("OTEL_SDK_DISABLED"), "true") {
		return telemetrySettings{}, nil
	}
	var t telemetrySettings
	var err error
	if t.traces, err = readExported("TRACES", get); err != nil {
		return telemetrySettings{}, err
	}
	if t.metrics, err = readExported("METRICS", get); err != nil {
		return telemetrySettings{}, err
	}
	t.propagator, err = readPropagators(get("OTEL_PROPAGATORS"))
	return t, err
}

// readExported reads how a signal is exported: not at all, unless a variable says how or where to.
func readExported(signal string, get func(name string) string) (exported, error) {
	const otlp, none = "otlp", "none"
	variable := "OTEL_" + signal + "_EXPORTER"
	exporter := get(variable)
	switch exporter {
	case none:
		return exported{}, nil
	case "":
		for _, name := range []string{"OTEL_EXPORTER_OTLP_" + signal + "_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"} {
			if get(name) != "" {
				variable, exporter = name, otlp
				break
			}
		}
		if exporter == "" {
			return exported{}, nil
		}
	case otlp, "console":
	default: // The SDK knows "prometheus" too, which would serve the metrics on another port, to everyone.
		return exported{}, settingErrorf("%s is %q: it must be otlp, console or none", variable, exporter)
	}
	for _, name := range []string{"OTEL_EXPORTER_OTLP_" + signal + "_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"} {
		switch value := get(name); value {
		case "", "grpc", "http/protobuf":
		default:
			return exported{}, settingErrorf("%s is %q: it must be grpc or http/protobuf", name, value)
		}
	}
	return exported{exporter, variable}, nil
}

// readPropagators reads by what the traces of callers are found.
func readPropagators(names string) (propagation.TextMapPropagator, error) {
	if names == "" {
		names = "tracecontext,baggage"
	}
	var all []propagation.TextMapPropagator
	for name := range strings.SplitSeq(names, ",") {
		switch strings.TrimSpace(name) {
		case "tracecontext":
			all = append(all, propagation.TraceContext{})
		case "baggage":
			all = append(all, propagation.Baggage{})
		case "none":
		default:
			return nil, settingErrorf("OTEL_PROPAGATORS is %q: it must be tracecontext, baggage, both with a comma, or none",
				names)
		}
	}
	return propagation.NewCompositeTextMapPropagator(all...), nil
}

// telemetry exports traces and metrics with the SDK of OpenTelemetry.
type telemetry struct {
	settings telemetrySettings
	logger   *slog.Logger
	tracers  *sdktrace.TracerProvider // nil: no traces
	meters   *metric.MeterProvider    // nil: no metrics
	gatherer atomic.Pointer[prometheus.Gatherer]
}

// startTelemetry begins to export what the settings ask for. What cannot be exported is dropped, and the log says so.
func startTelemetry(ctx context.Context, settings telemetrySettings, logger *slog.Logger) (_ *telemetry, err error) {
	t := &telemetry{settings: settings, logger: logger}
	if settings.traces.exporter == "" && settings.metrics.exporter == "" {
		return t, nil
	}
	defer func() {
		if err != nil {
			t.stop(ctx)
		}
	}()
	sometimes := rate.Sometimes{Interval: telemetryWarnEvery}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) {
		if errors.Is(err, context.Canceled) {
			return // The end has interrupted an export, and is the next one.
		}
		sometimes.Do(func() { logger.WarnContext(ctx, "cannot export telemetry", "error", err) })
	}))
	otel.SetLogger(logr.FromSlogHandler(logger.Handler()))
	described, err := resource.New(ctx,
		resource.WithService(), resource.WithHost(), resource.WithTelemetrySDK(),
		resource.WithAttributes(semconv.ServiceName("memoryd"), semconv.ServiceVersion(server.Version())),
		resource.WithFromEnv(), // wins
	)
	if err != nil && !errors.Is(err, resource.ErrPartialResource) {
		return nil, fmt.Errorf("describe the service to OpenTelemetry: %w", err)
	}
	if settings.traces.exporter != "" {
		exporter, err := autoexport.NewSpanExporter(ctx)
		if err != nil {
			return nil, settingErrorf("%s is set, but traces cannot be exported: %w", settings.traces.variable, err)
		}
		t.tracers = sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter), sdktrace.WithResource(described))
	}
	if settings.metrics.exporter != "" {
		autoexport.WithFallbackMetricProducer(func(context.Context) (metric.Producer, error) {
			return prometheusbridge.NewMetricProducer(prometheusbridge.WithGatherer(prometheus.GathererFunc(t.gather))), nil
		})
		reader, err := autoexport.NewMetricReader(ctx)
		if err != nil {
			return nil, settingErrorf("%s is set, but metrics cannot be exported: %w", settings.metrics.variable, err)
		}
		t.meters = metric.NewMeterProvider(metric.WithReader(reader), metric.WithResource(described))
	}
	logger.InfoContext(ctx, "exporting telemetry", "traces", t.tracers != nil, "metrics", t.meters != nil)
	return t, nil
}

// configure has a server trace its calls, if traces are exported.
func (t *telemetry) configure(cfg *server.Config) {
	if t.tracers != nil { // else the field would be an interface that is not nil
		cfg.TracerProvider, cfg.Propagator = t.tracers, t.settings.propagator
	}
}

// export has the metrics of a server exported, if metrics are.
func (t *telemetry) export(metrics prometheus.Gatherer) { t.gatherer.Store(&metrics) }

// gather returns the metrics of the server, none before there is one.
func (t *telemetry) gather() ([]*dto.MetricFamily, error) {
	if g := t.gatherer.Load(); g != nil {
		return (*g).Gather()
	}
	return nil, nil
}

// stop exports what is left, also where ctx is done.
func (t *telemetry) stop(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), telemetryStopTimeout)
	defer cancel()
	var running sync.WaitGroup
	shutDown := func(signal string, shutdown func(context.Context) error) {
		running.Go(func() {
			if err := shutdown(ctx); err != nil {
				t.logger.WarnContext(ctx, "the last "+signal+" were not exported", "error", err)
			}
		})
	}
	if t.tracers != nil {
		shutDown("traces", t.tracers.Shutdown)
	}
	if t.meters != nil {
		shutDown("metrics", t.meters.Shutdown)
	}
	running.Wait()
}
