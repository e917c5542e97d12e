package server

import (
	"regexp"
	"strconv"
	"testing"

	"google.golang.org/grpc/codes"

	memoryv1 "github.com/seed-7f2870e1/memoryd/gen/memoryd/v1"
)

// metricValue is the value of a series in a text as /metrics has it.
func metricValue(t *testing.T, metrics, series string) float64 {
	t.Helper()
	match := regexp.MustCompile("(?m)^" + regexp.QuoteMeta(series) + " (.+)$").FindStringSubmatch(metrics)
	if match == nil {
		t.Fatalf("the metrics lack %s", series)
	}
	value, err := strconv.ParseFloat(match[1], 64)
	if err != nil {
		t.Fatal(err)
	}
	return value
}

// TestServer_Load tells of calls that run, of the bytes that they hold and of those that are refused.
func TestServer_Load(t *testing.T) {
	gate := newGate()
	r := start(t, Config{
		Store: &hookedStore{Store: newStore(t), view: gate.wait}, HTTP: "127.0.0.1:0", MaxConcurrentCalls: 1,
	})
	running := make(chan error, 1)
	go func() { running <- viewOn(t.Context(), r.conn) }()
	<-gate.entered
	wantCode(t, viewOn(t.Context(), r.conn), codes.ResourceExhausted)

	_, metrics := httpGet(t, r, "/metrics")
	for series, want := range map[string]float64{
		"memoryd_connections":                                    1,
		"memoryd_connections_limit":                              maxConnections,
		"memoryd_running_calls":                                  1,
		"memoryd_running_calls_limit":                            1,
		"memoryd_held_request_bytes_limit":                       DefaultMaxConcurrentBytes,
		`memoryd_overload_refusals_total{bound="calls"}`:         1,
		`memoryd_overload_refusals_total{bound="connections"}`:   0,
		`memoryd_overload_refusals_total{bound="request_bytes"}`: 0,
	} {
		if got := metricValue(t, metrics, series); got != want {
			t.Errorf("%s: got %v, want %v", series, got, want)
		}
	}
	for _, series := range []string{"memoryd_held_request_bytes", "memoryd_received_bytes_total", "memoryd_sent_bytes_total"} {
		if got := metricValue(t, metrics, series); got <= 0 {
			t.Errorf("%s: got %v, want more than 0", series, got)
		}
	}
	close(gate.opened)
	wantCode(t, <-running, codes.OK)
	_, metrics = httpGet(t, r, "/metrics")
	for _, series := range []string{"memoryd_running_calls", "memoryd_held_request_bytes"} {
		if got := metricValue(t, metrics, series); got != 0 {
			t.Errorf("%s: got %v when no call runs any more, want 0", series, got)
		}
	}
}

// TestServer_StoreMetrics tells of commits and of what the store holds.
func TestServer_StoreMetrics(t *testing.T) {
	r := start(t, Config{Data: t.TempDir(), HTTP: "127.0.0.1:0", AuditLog: t.TempDir() + "/audit"})
	_, err := memoryv1.NewMemoryServiceClient(r.conn).Create(t.Context(), &memoryv1.CreateRequest{
		Namespace: "n", Path: "/memories/f", FileText: "text",
	})
	if err != nil {
		t.Fatal(err)
	}
	_, metrics := httpGet(t, r, "/metrics")
	for _, series := range []string{
		"memoryd_store_commit_updates_count", "memoryd_store_commit_updates_sum", "memoryd_store_commit_seconds_count",
		"memoryd_store_write_seconds_sum", "memoryd_store_write_calls_total", "memoryd_store_written_bytes_total",
		"memoryd_store_size_bytes", "memoryd_store_disk_free_bytes", "memoryd_screening_seconds_count",
	} {
		if got := metricValue(t, metrics, series); got <= 0 {
			t.Errorf("%s: got %v, want more than 0", series, got)
		}
	}
	for _, series := range []string{"memoryd_store_waiting_updates", "memoryd_audit_queued_calls"} {
		if got := metricValue(t, metrics, series); got != 0 {
			t.Errorf("%s: got %v, want 0", series, got)
		}
	}
}

func TestShares_Refusals(t *testing.T) {
	s := newShares[string](4, 2)
	for _, by := range []string{"a", "a", "a", "b", "b", "", ""} {
		s.take(by)
	}
	if got := s.count(); got != 4 {
		t.Errorf("got %d taken, want 4", got)
	}
	if got := s.refusals(shareUsed); got != 1 {
		t.Errorf("got %d refusals for a share, want 1", got)
	}
	if got := s.refusals(noneLeft); got != 2 {
		t.Errorf("got %d refusals since none is left, want 2", got)
	}
}

func TestLimiter_CountsRefusedBytes(t *testing.T) {
	l := newLimiter(10, 1000)
	for range 2 {
		_, err := l.unary(t.Context(), requestOf(1001), nil, nil)
		wantOverloaded(t, err)
	}
	if got := l.refused.Load(); got != 2 {
		t.Errorf("got %d refusals, want 2", got)
	}
}
