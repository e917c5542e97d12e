package ops

import (
	"context"
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
	m.DataDamaged()
	m.SecretsAtZero([]string{"github-pat", "aws-access-token"}, "written")
	m.SecretFound("github-pat", "written")
	m.BackupMade()
	m.NewestBackup(time.Unix(1_800_000_000, 0))
	m.ReadsRecorded(7)
	m.FilesExpired(3)
	m.Swept(true, true, time.Unix(1_850_000_000, 0), time.Second)
	m.Screened(time.Millisecond)
	m.Reloadable("principals")
	m.Reloaded("principals", true)
	m.Reloaded("tls_certificate", false)
	m.ReloadFailing("tls_certificate", true)
	m.HandshakeFailed()
	m.AuthenticationFailed()
	m.CertificateExpires(time.Unix(1_900_000_000, 0))

	code, body := get(t, newHandler(Options{Metrics: m, Ready: serving}), "/metrics")
	if code != http.StatusOK {
		t.Fatalf("got status %d, want %d", code, http.StatusOK)
	}
	for _, want := range []string{
		`memoryd_commands_total{command="view",reason="ok"} 2`,
		`memoryd_commands_total{command="create",reason="create_path_exists"} 1`,
		`memoryd_repaired_inputs_total{kind="alias"} 1`,
		"memoryd_requests_given_up_total 1",
		`memoryd_reload_failing{what="principals"} 0`,
		`memoryd_reload_failing{what="tls_certificate"} 1`,
		"memoryd_tls_handshake_failures_total 1",
		"memoryd_authentication_failures_total 1",
		"memoryd_store_writable 1",
		"memoryd_data_damaged 1",
		`memoryd_secrets_found_total{done="written",rule="github-pat"} 1`,
		`memoryd_secrets_found_total{done="written",rule="aws-access-token"} 0`,
		`memoryd_backups_total{result="ok"} 1`,
		`memoryd_backups_total{result="error"} 0`,
		"memoryd_backup_last_success_timestamp_seconds 1.8e+09",
		"memoryd_recorded_reads_total 7",
		"memoryd_expired_files_total 3",
		`memoryd_sweeps_total{result="ok"} 1`,
		`memoryd_sweeps_total{result="error"} 0`,
		"memoryd_sweep_last_success_timestamp_seconds 1.85e+09",
		"memoryd_sweep_unfinished 1",
		`memoryd_sweep_seconds_bucket{le="1"} 1`,
		`memoryd_screening_seconds_bucket{le="0.001"} 1`,
		`memoryd_reloads_total{result="ok",what="principals"} 1`,
		`memoryd_reloads_total{result="error",what="principals"} 0`,
		`memoryd_reloads_total{result="error",what="tls_certificate"} 1`,
		"memoryd_tls_certificate_expiry_seconds 1.9e+09",
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

// Probes leave no connection behind, which could be kept from others.
func TestHealth_EndsConnection(t *testing.T) {
	h := newHandler(Options{Metrics: NewMetrics(""), Ready: serving})
	for path, want := range map[string]string{"/healthz": "close", "/readyz": "close", "/metrics": ""} {
		rec := httptest.NewRecorder()
		h.ServeHTTP(rec, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
		if got := rec.Result().Header.Get("Connection"); rec.Code != http.StatusOK || got != want {
			t.Errorf("%s: got status %d and connection %q, want %q", path, rec.Code, got, want)
		}
	}
}

func TestMetricsAreSeparate(t *testing.T) {
	a, b := NewMetrics("a"), NewMetrics("b")
	a.Command("view", "ok")
	if _, body := get(t, newHandler(Options{Metrics: b}), "/metrics"); strings.Contains(body, "memoryd_commands_total{") {
		t.Error("two servers in one process share their metrics")
	}
}

func TestHealth(t *testing.T) {
	ready := true
	h := newHandler(Options{Metrics: NewMetrics(""), Ready: func() error {
		if !ready {
			return errors.New("store is full")
		}
		return nil
	}})
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
	s := NewServer(Options{Metrics: NewMetrics(""), Ready: serving, Logger: slog.New(slog.DiscardHandler)})
	if s.ReadHeaderTimeout == 0 || s.ReadTimeout == 0 || s.WriteTimeout == 0 || s.IdleTimeout == 0 {
		t.Errorf("a slow client is not cut off: %+v", s)
	}
}

func TestAuthenticate(t *testing.T) {
	h := newHandler(Options{Metrics: NewMetrics(""), Ready: serving, Authenticate: func(r *http.Request) (context.Context, error) {
		if r.URL.Query().Get("who") != "me" {
			return nil, errors.New("stored secret")
		}
		return r.Context(), nil
	}})
	const refused = "no valid credential; send a bearer token or show a client certificate\n"
	tests := []struct {
		path string
		code int
		body string // its beginning
	}{
		{"/healthz", http.StatusOK, "ok\n"},
		{"/readyz", http.StatusOK, "ok\n"},
		{"/metrics", http.StatusUnauthorized, refused},
		{"/", http.StatusUnauthorized, refused},
		{"/healthz/", http.StatusUnauthorized, refused},
		{"/metrics?who=me", http.StatusOK, "# HELP"},
		{"/?who=me", http.StatusNotFound, "404 page not found\n"},
	}
	for _, tt := range tests {
		if code, body := get(t, h, tt.path); code != tt.code || !strings.HasPrefix(body, tt.body) {
			t.Errorf("%s: got %d %q, want %d %q", tt.path, code, body, tt.code, tt.body)
		}
	}
}
