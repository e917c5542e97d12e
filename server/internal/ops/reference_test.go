package ops

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/seed-7f2870e1/memoryd/server/kv"
)

var update = flag.Bool("update", false, "write the table of metrics into docs/observability.md")

const (
	referencePath   = "../../../docs/observability.md"
	referenceBegins = "<!-- metrics -->\n"
	referenceEnds   = "<!-- /metrics -->"
)

// everyMetric returns metrics of which each has a value, whatever its labels.
func everyMetric(t *testing.T) *Metrics {
	t.Helper()
	m := NewMetrics("v1.2.3")
	s := grpc.NewServer(grpc.ChainUnaryInterceptor(m.Unary()), grpc.ChainStreamInterceptor(m.Stream()))
	healthpb.RegisterHealthServer(s, health.NewServer())
	m.Initialize(s)
	m.Command("view", "ok")
	m.Repaired("alias")
	m.SecretFound("aws-access-token", "written")
	m.DataKeys(1, 1, 1)
	m.Reloadable("principals")
	m.Store(func() kv.Stats { return kv.Stats{DiskFreeBytes: new(int64(1))} })
	none := func() int64 { return 0 }
	m.Load(Load{
		Connections: Bounded{none, 1}, RunningCalls: Bounded{none, 1}, RequestBytes: Bounded{none, 1},
		Refused: map[string]func() int64{"calls": none}, ReceivedBytes: none, SentBytes: none,
		AuditQueue: func() int { return 0 },
	})
	gathered := map[string]bool{}
	families, err := m.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		gathered[f.GetName()] = true
	}
	descriptions := make(chan *prometheus.Desc)
	go func() {
		m.registry.Describe(descriptions)
		close(descriptions)
	}()
	name := regexp.MustCompile(`fqName: "([^"]+)"`)
	for d := range descriptions {
		if n := name.FindStringSubmatch(d.String())[1]; !gathered[n] && !outside(n) {
			t.Errorf("%s has no value, so that the page would lack it: give it one above", n)
		}
	}
	return m
}

// outside tells whether a metric is one of the libraries for the process and the runtime of Go, of which there are many
// and which they document themselves. Some have a value only once something has happened.
func outside(name string) bool {
	return strings.HasPrefix(name, "go_") || strings.HasPrefix(name, "process_")
}

// referenceTable is the table of metrics as docs/observability.md has it.
func referenceTable(t *testing.T, m *Metrics) string {
	t.Helper()
	families, err := m.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	b.WriteString("| metric | type | labels | meaning |\n| --- | --- | --- | --- |\n")
	for _, f := range families {
		if strings.HasPrefix(f.GetName(), "go_") || strings.HasPrefix(f.GetName(), "process_") {
			continue
		}
		labels := map[string]bool{}
		for _, metric := range f.GetMetric() {
			for _, l := range metric.GetLabel() {
				labels["`"+l.GetName()+"`"] = true
			}
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", f.GetName(), strings.ToLower(f.GetType().String()),
			strings.Join(slices.Sorted(maps.Keys(labels)), ", "), f.GetHelp())
	}
	return b.String()
}

func TestReference(t *testing.T) {
	content, err := os.ReadFile(referencePath)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, begins := strings.Cut(string(content), referenceBegins)
	table, after, ends := strings.Cut(rest, referenceEnds)
	if !begins || !ends {
		t.Fatalf("docs/observability.md has no table of metrics between %q and %q", referenceBegins, referenceEnds)
	}
	want := referenceTable(t, everyMetric(t))
	if *update {
		content := before + referenceBegins + want + referenceEnds + after
		if err := os.WriteFile(referencePath, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(want, table); diff != "" {
		t.Errorf("docs/observability.md differs from the metrics; write it anew with\n"+
			"\tgo test ./server/internal/ops -run TestReference -update\n(-want +got)\n%s", diff)
	}
}

// TestMetrics_Lint holds the names to the conventions of Prometheus.
func TestMetrics_Lint(t *testing.T) {
	families, err := everyMetric(t).registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	problems, err := promlint.NewWithMetricFamilies(families).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

func TestMetrics_Load(t *testing.T) {
	running, refused := int64(3), int64(2)
	none := func() int64 { return 0 }
	m := NewMetrics("")
	m.Load(Load{
		Connections: Bounded{none, 8192}, RunningCalls: Bounded{func() int64 { return running }, 1024},
		RequestBytes:  Bounded{none, 1 << 28},
		Refused:       map[string]func() int64{"calls": func() int64 { return refused }, "connections": none},
		ReceivedBytes: func() int64 { return 10 }, SentBytes: func() int64 { return 20 },
	})
	const want = `# HELP memoryd_overload_refusals_total Calls and connections that were refused for a bound: calls, calls_of_principal, request_bytes, watches (streams of health checks and reflection), watches_of_address, connections or connections_of_address.
# TYPE memoryd_overload_refusals_total counter
memoryd_overload_refusals_total{bound="calls"} 2
memoryd_overload_refusals_total{bound="connections"} 0
# HELP memoryd_received_bytes_total Bytes received on connections for calls.
# TYPE memoryd_received_bytes_total counter
memoryd_received_bytes_total 10
# HELP memoryd_running_calls Calls of the services of memoryd that run.
# TYPE memoryd_running_calls gauge
memoryd_running_calls 3
# HELP memoryd_running_calls_limit The most that memoryd_running_calls can be; what comes above it is refused.
# TYPE memoryd_running_calls_limit gauge
memoryd_running_calls_limit 1024
# HELP memoryd_sent_bytes_total Bytes sent on connections for calls.
# TYPE memoryd_sent_bytes_total counter
memoryd_sent_bytes_total 20
`
	wantMetrics(t, m, want, "memoryd_overload_refusals_total",
		"memoryd_received_bytes_total", "memoryd_sent_bytes_total", "memoryd_running_calls", "memoryd_running_calls_limit",
		"memoryd_audit_queued_calls")
}

func TestMetrics_Swept(t *testing.T) {
	m := NewMetrics("")
	m.Swept(true, true, time.Unix(100, 0), time.Second)
	m.Swept(false, false, time.Unix(200, 0), time.Second) // has not ended well
	wantMetrics(t, m, `# HELP memoryd_sweep_last_success_timestamp_seconds When the last search for files that expire ended well, in seconds since 1970; 0 where none has.
# TYPE memoryd_sweep_last_success_timestamp_seconds gauge
memoryd_sweep_last_success_timestamp_seconds 100
# HELP memoryd_sweep_unfinished 1 where the last search for files that expire left files for the next one, which follows at once; else 0.
# TYPE memoryd_sweep_unfinished gauge
memoryd_sweep_unfinished 0
`, "memoryd_sweep_last_success_timestamp_seconds", "memoryd_sweep_unfinished")
}
