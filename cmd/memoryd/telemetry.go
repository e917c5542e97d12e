package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strconv"
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
	"golang.org/x/net/http/httpguts"
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

// exported is how a signal of OpenTelemetry is exported. The zero value is not at all.
type exported struct {
	exporter string // otlp or console
	variable string // that asks for it
	endpoint string // of otlp, without what may be secret; "" is the one that the SDK takes by itself
	protocol string // of otlp
}

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
	if t.traces.exporter != "" {
		if err := checkBatches(get); err != nil {
			return telemetrySettings{}, err
		}
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
	e := exported{exporter: exporter, variable: variable}
	for _, prefix := range []string{"OTEL_EXPORTER_OTLP_" + signal + "_", "OTEL_EXPORTER_OTLP_"} {
		switch value := get(prefix + "PROTOCOL"); value {
		case "", "grpc", "http/protobuf":
			e.protocol = cmp.Or(e.protocol, value)
		default:
			return exported{}, settingErrorf("%s is %q: it must be grpc or http/protobuf", prefix+"PROTOCOL", value)
		}
		endpoint, err := readEndpoint(get(prefix + "ENDPOINT"))
		if err != nil {
			return exported{}, settingErrorf("%sENDPOINT %w", prefix, err)
		}
		e.endpoint = cmp.Or(e.endpoint, endpoint)
		if err := checkHeaders(get(prefix + "HEADERS")); err != nil {
			return exported{}, settingErrorf("%sHEADERS %w", prefix, err)
		}
	}
	if exporter != otlp {
		return exported{exporter: exporter, variable: variable}, nil
	}
	e.protocol = cmp.Or(e.protocol, "http/protobuf")
	return e, nil
}

// readEndpoint checks where to export to: of what has no scheme the SDK makes something else than was meant. It returns
// what of it can be logged: not a name, a password or a query.
func readEndpoint(value string) (shown string, err error) {
	if value == "" {
		return "", nil
	}
	u, err := url.Parse(value)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" {
		rest, _, _ := strings.Cut(value[strings.LastIndex(value, "@")+1:], "?")
		return "", fmt.Errorf("is %q: it must be a URL with http or https and a host, such as http://127.0.0.1:4318", rest)
	}
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String(), nil
}

// checkHeaders checks what is sent along, such as a key: of a header that it cannot read, the SDK writes all to the
// log. The error has nothing of it.
func checkHeaders(value string) error {
	const want = "it must be name=value, with a comma between two, and %XX for what is no letter or digit"
	for header := range strings.SplitSeq(value, ",") {
		if strings.TrimSpace(header) == "" {
			continue
		}
		name, text, ok := strings.Cut(header, "=")
		if !ok || !httpguts.ValidHeaderFieldName(strings.TrimSpace(name)) {
			return fmt.Errorf("has a header without a name: %s", want)
		}
		if _, err := url.PathUnescape(text); err != nil {
			return fmt.Errorf("has a header whose value cannot be read: %s", want)
		}
	}
	return nil
}

// maxSpans is the most spans that may be kept until they are exported.
const maxSpans = 1_000_000

// checkBatches checks how many spans are kept and exported at a time: the SDK would ask for that much memory, whatever
// it is.
func checkBatches(get func(name string) string) error {
	for _, name := range []string{"OTEL_BSP_MAX_QUEUE_SIZE", "OTEL_BSP_MAX_EXPORT_BATCH_SIZE"} {
		value := get(name)
		if value == "" {
			continue
		}
		if n, err := strconv.Atoi(value); err != nil || n < 1 || n > maxSpans {
			return settingErrorf("%s is %q: it must be a number from 1 to %d", name, value, maxSpans)
		}
	}
	return nil
}

// log says what is exported, and where to.
func (e exported) log(ctx context.Context, logger *slog.Logger, signal string) {
	attrs := []any{"signal", signal, "exporter", e.exporter}
	if e.protocol != "" {
		attrs = append(attrs, "protocol", e.protocol)
	}
	if e.endpoint != "" {
		attrs = append(attrs, "endpoint", e.endpoint)
	}
	logger.InfoContext(ctx, "exporting telemetry", attrs...)
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
		settings.traces.log(ctx, logger, "traces")
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
		settings.metrics.log(ctx, logger, "metrics")
	}
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
