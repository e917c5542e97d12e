package ops

import (
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
)

func get(t *testing.T, h http.Handler, path string) (int, string) {
	t.Helper()
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
	body, err := io.ReadAll(rec.Result().Body)
	if err != nil {
		t.Fatal(err)
	}
	return rec.Code, string(body)
}

func serving() error { return nil }

func TestMetrics(t *testing.T) {
	m := NewMetrics("v1.2.3")
	s := grpc.NewServer(grpc.ChainUnaryInterceptor(m.Unary()), grpc.ChainStreamInterceptor(m.Stream()))
	healthpb.RegisterHealthServer(s, health.NewServer())
	m.Initialize(s)
	m.Command("view", "ok")
	m.Command("view", "ok")
	m.Command("create", "create_path_exists")
	m.Repaired("alias")
	m.RequestGivenUp()
	m.StoreWritable(true)
	m.BackupMade()
	m.NewestBackup(time.Unix(1_800_000_000, 0))

	code, body := get(t, newHandler(m, serving), "/metrics")
	if code != http.StatusOK {
		t.Fatalf("got status %d, want %d", code, http.StatusOK)
	}
	for _, want := range []string{
		`memoryd_commands_total{command="view",reason="ok"} 2`,
		`memoryd_commands_total{command="create",reason="create_path_exists"} 1`,
		`memoryd_repaired_inputs_total{kind="alias"} 1`,
		"memoryd_requests_given_up_total 1",
		"memoryd_store_writable 1",
		`memoryd_backups_total{result="ok"} 1`,
		`memoryd_backups_total{result="error"} 0`,
		"memoryd_backup_last_success_timestamp_seconds 1.8e+09",
		`version="v1.2.3"`,
		`grpc_server_handled_total{grpc_code="OK",grpc_method="Check",grpc_service="grpc.health.v1.Health",` +
			`grpc_type="unary"} 0`,
		`grpc_server_handling_seconds_bucket{`,
		"go_goroutines ",
	} {
		if !strings.Contains(body, want) {
			t.Errorf("/metrics lacks %s", want)
		}
	}
}

func TestMetricsAreSeparate(t *testing.T) {
	a, b := NewMetrics("a"), NewMetrics("b")
	a.Command("view", "ok")
	if _, body := get(t, newHandler(b, nil), "/metrics"); strings.Contains(body, "memoryd_commands_total{") {
		t.Error("two servers in one process share their metrics")
	}
}

func TestHealth(t *testing.T) {
	ready := true
	h := newHandler(NewMetrics(""), func() error {
		if !ready {
			return errors.New("store is full")
		}
		return nil
	})
	tests := []struct {
		path  string
		ready bool
		code  int
		body  string
	}{
		{"/healthz", true, http.StatusOK, "ok\n"},
		{"/healthz", false, http.StatusOK, "ok\n"},
		{"/readyz", true, http.StatusOK, "ok\n"},
		{"/readyz", false, http.StatusServiceUnavailable, "store is full\n"},
		{"/", true, http.StatusNotFound, "404 page not found\n"},
	}
	for _, tt := range tests {
		ready = tt.ready
		if code, body := get(t, h, tt.path); code != tt.code || body != tt.body {
			t.Errorf("%s where ready is %t: got %d %q, want %d %q", tt.path, tt.ready, code, body, tt.code, tt.body)
		}
	}
}

func TestServerIsBounded(t *testing.T) {
	s := NewServer(NewMetrics(""), serving, slog.New(slog.DiscardHandler))
	if s.ReadHeaderTimeout == 0 || s.ReadTimeout == 0 || s.WriteTimeout == 0 || s.IdleTimeout == 0 {
		t.Errorf("a slow client is not cut off: %+v", s)
	}
}
