package main

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"google.golang.org/grpc/metadata"

	"github.com/seed-7f2870e1/memoryd/client"
	"github.com/seed-7f2870e1/memoryd/cmd/internal/otlptest"
	memoryv1 "github.com/seed-7f2870e1/memoryd/gen/memoryd/v1"
	"github.com/seed-7f2870e1/memoryd/server"
)

func TestTelemetrySettings(t *testing.T) {
	type vars = map[string]string
	const endpoint = "OTEL_EXPORTER_OTLP_ENDPOINT"
	tests := []struct {
		name string
		vars vars
		want telemetrySettings
	}{
		{"nothing", nil, telemetrySettings{}},
		{"empty", vars{endpoint: "", "OTEL_TRACES_EXPORTER": ""}, telemetrySettings{}},
		{"other variables ask for nothing", vars{"OTEL_SERVICE_NAME": "x", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, telemetrySettings{}},
		{"endpoint", vars{endpoint: "http://c:4317"}, telemetrySettings{
			traces: exported{"otlp", endpoint, "http://c:4317", "http/protobuf"}, metrics: exported{"otlp", endpoint, "http://c:4317", "http/protobuf"},
		}},
		{"endpoint of traces", vars{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://c:4317"}, telemetrySettings{
			traces: exported{"otlp", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://c:4317", "http/protobuf"},
		}},
		{"exporter of metrics", vars{"OTEL_METRICS_EXPORTER": "otlp"}, telemetrySettings{
			metrics: exported{"otlp", "OTEL_METRICS_EXPORTER", "", "http/protobuf"},
		}},
		{"exporter", vars{endpoint: "http://c:4317", "OTEL_TRACES_EXPORTER": "console", "OTEL_METRICS_EXPORTER": "none"}, telemetrySettings{
			traces: exported{exporter: "console", variable: "OTEL_TRACES_EXPORTER"},
		}},
		{"of each its own", vars{
			endpoint: "https://user:s3cret@c:4317/x?token=s3cret", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc",
			"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://[::1]:4318", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "http/protobuf",
		}, telemetrySettings{
			traces:  exported{"otlp", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://[::1]:4318", "http/protobuf"},
			metrics: exported{"otlp", endpoint, "https://c:4317/x", "grpc"},
		}},
		{"disabled", vars{endpoint: "http://c:4317", "OTEL_SDK_DISABLED": "TRUE"}, telemetrySettings{}},
		{"not disabled", vars{endpoint: "http://c:4317", "OTEL_SDK_DISABLED": "false"}, telemetrySettings{
			traces: exported{"otlp", endpoint, "http://c:4317", "http/protobuf"}, metrics: exported{"otlp", endpoint, "http://c:4317", "http/protobuf"},
		}},
		{"disabled and wrong", vars{"OTEL_TRACES_EXPORTER": "x", "OTEL_SDK_DISABLED": "true"}, telemetrySettings{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := &settings{lookupEnv: environment(tt.vars)}
			got, err := s.telemetrySettings()
			if err != nil {
				t.Fatal(err)
			}
			diff := cmp.Diff(tt.want, got, cmp.AllowUnexported(telemetrySettings{}, exported{}),
				cmpopts.IgnoreFields(telemetrySettings{}, "propagator"))
			if diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestTelemetrySettings_Propagators(t *testing.T) {
	for names, want := range map[string][]string{
		"":                         {"traceparent", "tracestate", "baggage"},
		"tracecontext":             {"traceparent", "tracestate"},
		" baggage , tracecontext ": {"baggage", "traceparent", "tracestate"},
		"none":                     nil,
	} {
		s := &settings{lookupEnv: environment(map[string]string{"OTEL_PROPAGATORS": names})}
		got, err := s.telemetrySettings()
		if err != nil {
			t.Fatal(err)
		}
		less := func(a, b string) bool { return a < b }
		if diff := cmp.Diff(want, got.propagator.Fields(), cmpopts.SortSlices(less), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%q: (-want +got)\n%s", names, diff)
		}
	}
}

// TestTelemetry_Errors refuses what the SDK would not understand, at the start and in memoryd config.
func TestTelemetry_Errors(t *testing.T) {
	t.Chdir(t.TempDir())
	const url = "it must be a URL with http or https and a host, such as http://127.0.0.1:4318"
	for variable, tt := range map[string]struct{ value, want string }{
		"OTEL_TRACES_EXPORTER":                {"zipkin", "it must be otlp, console or none"},
		"OTEL_METRICS_EXPORTER":               {"prometheus", "it must be otlp, console or none"},
		"OTEL_EXPORTER_OTLP_PROTOCOL":         {"http/json", "it must be grpc or http/protobuf"},
		"OTEL_EXPORTER_OTLP_METRICS_PROTOCOL": {"udp", "it must be grpc or http/protobuf"},
		"OTEL_EXPORTER_OTLP_ENDPOINT":         {"localhost:4318", url},
		"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT":  {"127.0.0.1:4318", url},
		"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": {"http://:4318", url},
		"OTEL_PROPAGATORS":                    {"b3", "it must be tracecontext, baggage, both with a comma, or none"},
		"OTEL_BSP_MAX_QUEUE_SIZE":             {"-5", "it must be a number from 1 to 1000000"},
		"OTEL_BSP_MAX_EXPORT_BATCH_SIZE":      {"99999999999", "it must be a number from 1 to 1000000"},
	} {
		vars := map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", variable: tt.value}
		want := fmt.Sprintf("memoryd: %s is %q: %s\n", variable, tt.value, tt.want)
		wantOutcome(t, memoryd(t, vars, "--listen=unix:m.sock", "--http=", "--data=data"), outcome{Status: exitUsage, Stderr: want})
		got := memoryd(t, vars, "config")
		if got.Status != exitUsage || got.Stderr != want {
			t.Errorf("config: got %+v, want %s", got, want)
		}
	}
	// A password is told to nobody, though the rest of the endpoint cannot be used.
	got := memoryd(t, map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "user:s3cret@collector:4318"}, "config")
	if got.Status != exitUsage || !strings.Contains(got.Stderr, `"collector:4318"`) || strings.Contains(got.Stderr, "s3cret") {
		t.Errorf("config: got %+v, want an error without the password", got)
	}
}

func TestConfig_Telemetry(t *testing.T) {
	vars := map[string]string{
		"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4317", "OTEL_METRICS_EXPORTER": "console",
		"OTEL_EXPORTER_OTLP_HEADERS": "authorization=s3cret",
	}
	got := memoryd(t, vars, "config")
	const want = "otel-traces           otlp            env OTEL_EXPORTER_OTLP_ENDPOINT\n" +
		"otel-metrics          console         env OTEL_METRICS_EXPORTER\n"
	if got.Status != exitOK || !strings.HasSuffix(got.Stdout, want) || strings.Contains(got.Stdout, "s3cret") {
		t.Errorf("got %+v, want it to end with\n%s", got, want)
	}
}

// serveWith runs memoryd with variables of the environment, which the SDK reads by itself, and waits until it serves.
func serveWith(t *testing.T, vars map[string]string, args ...string) (log *logWatcher, stop func() int) {
	t.Helper()
	for name, value := range vars {
		t.Setenv(name, value)
	}
	return startDaemonWith(t, vars, "msg=serving", args...)
}

// dialSocket returns a client of a service on a socket of the working directory.
func dialSocket(t *testing.T) *client.Client {
	t.Helper()
	c, err := client.Dial("unix:m.sock")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

func TestServe_Telemetry(t *testing.T) {
	t.Chdir(t.TempDir())
	collector := otlptest.Start(t)
	vars := collector.Env()
	vars["OTEL_RESOURCE_ATTRIBUTES"] = "deployment.environment.name=test"
	log, stop := serveWith(t, vars, "--listen=unix:m.sock", "--http=", "--data=data")
	const traceID = "0af7651916cd43dd8448eb211c80319c"
	ctx := metadata.AppendToOutgoingContext(t.Context(), "traceparent", "00-"+traceID+"-b7ad6b7169203331-01")
	_, err := dialSocket(t).Create(ctx, &memoryv1.CreateRequest{
		Namespace: "acme/a", Path: "/memories/xylophone", FileText: "xylophone",
	})
	if err != nil {
		t.Fatal(err)
	}

	span, process := collector.Span(t, "memoryd.v1.MemoryService/Create")
	if got := hex.EncodeToString(span.GetTraceId()) + " " + hex.EncodeToString(span.GetParentSpanId()); got != traceID+" b7ad6b7169203331" {
		t.Errorf("got the trace and parent %s, want those of the caller", got)
	}
	attrs := otlptest.Attributes(span.GetAttributes())
	for key, want := range map[string]string{
		"memoryd.command": "create", "memoryd.reason": "ok", "memoryd.namespace": "acme/a",
		"gen_ai.operation.name": "create_memory", "rpc.method": "memoryd.v1.MemoryService/Create", "rpc.system.name": "grpc",
	} {
		if attrs[key] != want {
			t.Errorf("got the attribute %s=%q, want %q", key, attrs[key], want)
		}
	}
	if strings.Contains(span.String(), "xylophone") {
		t.Errorf("the span has a path or a text: %v", span)
	}
	if process["service.name"] != "memoryd" || process["service.version"] != server.Version() ||
		process["deployment.environment.name"] != "test" || process["service.instance.id"] == "" {
		t.Errorf("got the process %v", process)
	}

	commands, process := collector.Metric(t, "memoryd_commands_total")
	points := commands.GetSum().GetDataPoints()
	if len(points) != 1 || points[0].GetAsDouble() != 1 || otlptest.Attributes(points[0].GetAttributes())["command"] != "create" {
		t.Errorf("got %v, want one command", points)
	}
	if process["service.name"] != "memoryd" {
		t.Errorf("got the process %v", process)
	}
	if status := stop(); status != exitOK {
		t.Errorf("got status %d, want 0", status)
	}
	for _, signal := range []string{"traces", "metrics"} {
		want := `msg="exporting telemetry" signal=` + signal + " exporter=otlp protocol=grpc endpoint=http://127.0.0.1:"
		if !strings.Contains(log.String(), want) {
			t.Errorf("got this log, want %s:\n%s", want, log)
		}
	}
	if strings.Contains(log.String(), "level=WARN") {
		t.Errorf("got the log\n%s", log)
	}
}

// TestServe_CollectorStuck has a collector that takes connections and answers nothing: calls are served, and the log
// says so once. That the end comes nevertheless is tested with a process, since the SDK leaves goroutines behind then.
func TestServe_CollectorStuck(t *testing.T) {
	t.Chdir(t.TempDir())
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	for _, protocol := range []string{"grpc", "http/protobuf"} {
		t.Run(protocol, func(t *testing.T) {
			log, stop := serveWith(t, map[string]string{
				"OTEL_EXPORTER_OTLP_ENDPOINT": "http://" + listener.Addr().String(), "OTEL_EXPORTER_OTLP_PROTOCOL": protocol,
				"OTEL_EXPORTER_OTLP_TIMEOUT": "100", "OTEL_BSP_SCHEDULE_DELAY": "10", "OTEL_METRIC_EXPORT_INTERVAL": "50",
				"OTEL_METRIC_EXPORT_TIMEOUT": "100", "OTEL_BSP_EXPORT_TIMEOUT": "100",
			}, "--listen=unix:m.sock", "--http=", "--data=data")
			told := log.await("cannot export telemetry")
			memories := dialSocket(t)
			view := func() {
				t.Helper()
				if _, err := memories.View(t.Context(), &memoryv1.ViewRequest{Namespace: "n", Path: "/memories"}); err != nil {
					t.Fatal(err)
				}
			}
			for range 100 {
				view()
			}
			<-told
			for range 100 {
				view()
			}
			if status := stop(); status != exitOK {
				t.Errorf("got status %d, want 0", status)
			}
			if n := strings.Count(log.String(), "cannot export telemetry"); n != 1 {
				t.Errorf("the log says %d times that nothing can be exported, want once:\n%s", n, log)
			}
		})
	}
}

// TestTelemetry_Off starts nothing and traces nothing; TestMain finds goroutines that it would leave behind.
func TestTelemetry_Off(t *testing.T) {
	var log bytes.Buffer
	off, err := startTelemetry(t.Context(), telemetrySettings{}, slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	var cfg server.Config
	off.configure(&cfg)
	off.stop(t.Context())
	if cfg.TracerProvider != nil || cfg.Propagator != nil || log.Len() > 0 {
		t.Errorf("got %v, %v and the log %q, want nothing", cfg.TracerProvider, cfg.Propagator, log.String())
	}
}

// TestServe_TelemetryAlone stops what exports where the service does not start; TestMain finds what it would leave behind.
func TestServe_TelemetryAlone(t *testing.T) {
	t.Chdir(t.TempDir())
	collector := otlptest.Start(t)
	vars := collector.Env()
	for name, value := range vars {
		t.Setenv(name, value)
	}
	got := memoryd(t, vars, "--listen=no.such.host.invalid:1", "--http=", "--data=data", "--insecure")
	if got.Status == exitOK || !strings.Contains(got.Stderr, "--listen is no.such.host.invalid:1") {
		t.Errorf("got %+v, want the address to be refused", got)
	}
}

// TestTelemetry_Headers refuses headers that cannot be read, which may be keys, and tells nothing of them.
func TestTelemetry_Headers(t *testing.T) {
	t.Chdir(t.TempDir())
	const want = "it must be name=value, with a comma between two, and %XX for what is no letter or digit\n"
	for value, wrong := range map[string]string{
		"api-key hunter2":                     "has a header without a name",
		"a=b,=hunter2":                        "has a header without a name",
		"api key=hunter2":                     "has a header without a name",
		"authorization=Bearer%ZZ hunter2":     "has a header whose value cannot be read",
		"authorization=Bearer%20x,b=hunter2%": "has a header whose value cannot be read",
	} {
		vars := map[string]string{
			"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_EXPORTER_OTLP_TRACES_HEADERS": value,
		}
		got := memoryd(t, vars, "--listen=unix:m.sock", "--http=", "--data=data")
		wantOutcome(t, got, outcome{
			Status: exitUsage, Stderr: "memoryd: OTEL_EXPORTER_OTLP_TRACES_HEADERS " + wrong + ": " + want,
		})
	}
	if err := checkHeaders("authorization=Bearer%20hunter2, x-team = a ,"); err != nil {
		t.Errorf("got %v, want that these are right", err)
	}
}
