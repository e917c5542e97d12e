package server

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	memoryv1 "github.com/seed-7f2870e1/memoryd/gen/memoryd/v1"
	"github.com/seed-7f2870e1/memoryd/server/internal/ops"
)

// viewOn is a call on a connection.
func viewOn(ctx context.Context, conn *grpc.ClientConn) error {
	_, err := memoryv1.NewMemoryServiceClient(conn).View(ctx, &memoryv1.ViewRequest{Namespace: "n", Path: "/memories"})
	return err
}

func wantCode(t *testing.T, err error, want codes.Code) {
	t.Helper()
	if got := status.Code(err); got != want {
		t.Errorf("got %v, want code %v", err, want)
	}
}

func TestTLS_Versions(t *testing.T) {
	ca := newAuthority(t)
	cfg := newFiles(t).tls(ca)
	cfg.HTTP = "127.0.0.1:0"
	r := start(t, cfg)
	for _, tt := range []struct {
		version uint16
		fine    bool
	}{{tls.VersionTLS10, false}, {tls.VersionTLS11, false}, {tls.VersionTLS12, true}, {tls.VersionTLS13, true}} {
		t.Run(tls.VersionName(tt.version), func(t *testing.T) {
			for _, addr := range []net.Addr{r.Addrs()[0], r.HTTPAddr()} {
				conn, err := tls.Dial("tcp", addr.String(), &tls.Config{
					RootCAs: ca.pool(), MinVersion: tt.version, MaxVersion: tt.version, NextProtos: []string{"h2"},
				})
				if (err == nil) != tt.fine {
					t.Errorf("got %v, want success %t", err, tt.fine)
				}
				if err != nil {
					continue
				}
				if got, want := conn.ConnectionState().NegotiatedProtocol, "h2"; got != want {
					t.Errorf("got protocol %q, want %q", got, want)
				}
				_ = conn.Close()
			}
		})
	}
	if err := viewOn(t.Context(), dialTLS(t, r, &tls.Config{RootCAs: ca.pool()})); err != nil {
		t.Errorf("a call: %v", err)
	}
}

// TestTLS_Mismatch has clients and ports that do not agree about TLS.
func TestTLS_Mismatch(t *testing.T) {
	ca := newAuthority(t)
	log := &logBuffer{}
	cfg := newFiles(t).tls(ca)
	cfg.Logger = log.logger()
	r := start(t, cfg)
	wantCode(t, viewOn(t.Context(), r.conn), codes.Unavailable) // in plain text

	for _, protocols := range [][]string{{"http/1.1"}, nil} {
		conn, err := tls.Dial("tcp", r.Addrs()[0].String(), &tls.Config{RootCAs: ca.pool(), NextProtos: protocols})
		if err != nil {
			continue
		}
		if _, err := conn.Read(make([]byte, 1)); err == nil {
			t.Errorf("a client that speaks %v was let in", protocols)
		}
		_ = conn.Close()
	}
	if err := r.stop(); err != nil { // What was begun has ended then.
		t.Error(err)
	}
	const line = `"level":"WARN","msg":"TLS handshake failed","peer":"127.0.0.1:`
	if got := strings.Count(log.String(), line); got != 1 {
		t.Errorf("got %d warnings of failed handshakes within a minute, want 1:\n%s", got, log)
	}

	plain := start(t, Config{})
	wantCode(t, viewOn(t.Context(), dialTLS(t, plain, &tls.Config{RootCAs: ca.pool()})), codes.Unavailable)
	if err := viewOn(t.Context(), plain.conn); err != nil {
		t.Errorf("a client in plain text afterwards: %v", err)
	}
}

// metricsOf is what the side port shows of metrics.
func metricsOf(t *testing.T, m *ops.Metrics) string {
	t.Helper()
	side := ops.NewServer(ops.Options{Metrics: m, Logger: slog.New(slog.DiscardHandler)})
	recorder := httptest.NewRecorder()
	side.Handler.ServeHTTP(recorder, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil))
	return recorder.Body.String()
}

func TestTLS_HandshakeFailed(t *testing.T) {
	log := &logBuffer{}
	now := time.Unix(0, 0)
	cfg := newFiles(t).tls(newAuthority(t))
	cfg.Logger, cfg.now = log.logger(), func() time.Time { return now }
	metrics := ops.NewMetrics("")
	c := newTransportCredentials(newServerTLS(cfg, metrics)).Clone()
	fail := func(text string) {
		t.Helper()
		near, far := net.Pipe()
		go func() {
			_, _ = io.WriteString(far, text)
			_ = far.Close()
		}()
		if _, _, err := c.ServerHandshake(near); err == nil {
			t.Error("there was a handshake")
		}
		_ = near.Close()
	}
	want := func(warnings int, failures string) {
		t.Helper()
		const line = `"level":"WARN","msg":"TLS handshake failed","peer":"pipe","error":"tls: first record does not look`
		if got := strings.Count(log.String(), line); got != warnings {
			t.Errorf("got %d warnings, want %d:\n%s", got, warnings, log)
		}
		if total := "\nmemoryd_tls_handshake_failures_total " + failures + "\n"; !strings.Contains(metricsOf(t, metrics), total) {
			t.Errorf("the metrics lack %s", strings.TrimSpace(total))
		}
	}
	fail("") // as one who only tries whether the port is open
	want(0, "0")
	fail("GET / HTTP/1.1\r\n")
	want(1, "1")
	now = now.Add(warnEvery - 1)
	fail("GET / HTTP/1.1\r\n")
	want(1, "2")
	now = now.Add(1)
	fail("GET / HTTP/1.1\r\n")
	want(2, "3")
	if want := `"times":2}`; !strings.Contains(log.String(), want) {
		t.Errorf("the log lacks %s:\n%s", want, log)
	}
}

func TestHandshakeCause(t *testing.T) {
	for text, want := range map[string]string{
		"tls: bad record":               "tls: bad record",
		"a\nb\u202e":                    "a\uFFFDb\uFFFD",
		strings.Repeat("ü", 5000):       strings.Repeat("ü", 150),
		strings.Repeat("aü", 5000):      strings.Repeat("aü", 100),
		"x" + strings.Repeat("ü", 5000): "x" + strings.Repeat("ü", 149),
	} {
		if got := handshakeCause(errors.New(text)); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// TestTLS_Listeners has sockets plain and all else with TLS, whoever opened it.
func TestTLS_Listeners(t *testing.T) {
	ca := newAuthority(t)
	given, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	cfg := newFiles(t).tls(ca)
	cfg.Listeners, cfg.Listen = []net.Listener{given}, []string{"unix:" + socketPath(t)}
	r := start(t, cfg)
	wantCode(t, viewOn(t.Context(), r.conn), codes.Unavailable)
	if err := viewOn(t.Context(), dialTLS(t, r, &tls.Config{RootCAs: ca.pool()})); err != nil {
		t.Errorf("with TLS: %v", err)
	}
	socket := dial(t, r.Addrs()[1])
	defer func() { _ = socket.Close() }()
	if err := viewOn(t.Context(), socket); err != nil {
		t.Errorf("on the socket: %v", err)
	}
}

func TestTLS_NoTickets(t *testing.T) {
	ca := newAuthority(t)
	r := start(t, newFiles(t).tls(ca))
	config := &tls.Config{
		RootCAs: ca.pool(), NextProtos: []string{"h2"}, ClientSessionCache: tls.NewLRUClientSessionCache(1),
		MaxVersion: tls.VersionTLS12, // There tickets come with the handshake.
	}
	for range 2 {
		conn, err := tls.Dial("tcp", r.Addrs()[0].String(), config)
		if err != nil {
			t.Fatal(err)
		}
		if conn.ConnectionState().DidResume {
			t.Error("a session was resumed, whatever has become of the authorities since")
		}
		_ = conn.Close()
	}
}

// served is the certificate that the server shows, by its end.
func served(t *testing.T, conn *grpc.ClientConn) time.Time {
	t.Helper()
	var p peer.Peer
	_, err := healthpb.NewHealthClient(conn).Check(t.Context(), &healthpb.HealthCheckRequest{}, grpc.Peer(&p))
	if err != nil {
		t.Fatal(err)
	}
	return tlsInfoOf(t, p).PeerCertificates[0].NotAfter
}

func TestTLS_CertificateReload(t *testing.T) {
	ca := newAuthority(t)
	files := newFiles(t)
	cfg := files.tls(ca)
	cfg.HTTP = "127.0.0.1:0"
	log := &logBuffer{}
	cfg.Logger = log.logger()
	r := start(t, cfg)
	client := &tls.Config{RootCAs: ca.pool()}
	old := dialTLS(t, r, client)
	if got, want := served(t, old), inDays(30); got.Sub(want).Abs() > time.Minute {
		t.Fatalf("got a certificate until %v, want %v", got, want)
	}

	newCert, newKey := ca.issue(t, "", inDays(60))
	files.write("cert.pem", newCert) // The key is still the old one.
	if err := r.Reload(t.Context()); err == nil || !strings.Contains(err.Error(), "reload tls_certificate: ") {
		t.Errorf("got %v, want that key and certificate do not match", err)
	}
	if got, want := served(t, dialTLS(t, r, client)), inDays(30); got.Sub(want).Abs() > time.Minute {
		t.Errorf("got a certificate until %v, want the old one until %v", got, want)
	}
	files.write("key.pem", newKey)
	if err := r.Reload(t.Context()); err != nil {
		t.Error(err)
	}
	if got, want := served(t, dialTLS(t, r, client)), inDays(60); got.Sub(want).Abs() > time.Minute {
		t.Errorf("got a certificate until %v, want the new one until %v", got, want)
	}
	if got, want := served(t, old), inDays(30); got.Sub(want).Abs() > time.Minute {
		t.Errorf("the connection that was open has a certificate until %v, want %v", got, want)
	}
	if want := `"msg":"reloaded","what":"tls_certificate"`; !strings.Contains(log.String(), want) {
		t.Errorf("the log lacks %s:\n%s", want, log)
	}
}

// A certificate that nobody takes does not replace one that is good.
func TestTLS_ExpiredCertificateReplacesNone(t *testing.T) {
	ca := newAuthority(t)
	files := newFiles(t)
	r := start(t, files.tls(ca))
	cert, key := ca.issue(t, "", time.Now().Add(-time.Minute))
	files.write("cert.pem", cert)
	files.write("key.pem", key)
	if err := r.Reload(t.Context()); err == nil || !strings.Contains(err.Error(), "the one in force is valid") {
		t.Errorf("got %v, want that the new certificate has expired", err)
	}
	if got, want := served(t, dialTLS(t, r, &tls.Config{RootCAs: ca.pool()})), inDays(30); got.Sub(want).Abs() > time.Minute {
		t.Errorf("got a certificate until %v, want the old one until %v", got, want)
	}
}

func TestTLS_SidePort(t *testing.T) {
	ca := newAuthority(t)
	files := newFiles(t)
	cfg := files.tls(ca)
	cfg.HTTP = "127.0.0.1:0"
	cfg.Principals = files.write("principals.yaml", tokensOf("scraper", "secret"))
	r := start(t, cfg)

	get := func(path, token string, protocols ...string) (int, http.Header, string) {
		t.Helper()
		transport := &http.Transport{
			TLSClientConfig: &tls.Config{RootCAs: ca.pool(), NextProtos: protocols}, DisableKeepAlives: true,
			ForceAttemptHTTP2: len(protocols) == 0,
		}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+r.HTTPAddr().String()+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if token != "" {
			req.Header.Set("Authorization", "Bearer "+token)
		}
		resp, err := transport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		if err := errors.Join(err, resp.Body.Close()); err != nil {
			t.Fatal(err)
		}
		if want := 2 - len(protocols); resp.ProtoMajor != want {
			t.Errorf("got HTTP/%d, want HTTP/%d", resp.ProtoMajor, want)
		}
		return resp.StatusCode, resp.Header, string(body)
	}
	for _, path := range []string{"/healthz", "/readyz"} {
		if code, _, body := get(path, ""); code != http.StatusOK || body != "ok\n" {
			t.Errorf("%s: got %d %q, want it open", path, code, body)
		}
	}
	for _, path := range []string{"/metrics", "/", "/debug/pprof/"} {
		for _, token := range []string{"", "guess"} {
			code, header, body := get(path, token)
			if code != http.StatusUnauthorized || header.Get("WWW-Authenticate") != "Bearer" || strings.Count(body, "\n") != 1 {
				t.Errorf("%s with token %q: got %d %v %q, want a refusal in one line", path, token, code, header, body)
			}
		}
	}
	if code, _, body := get("/metrics", "secret", "http/1.1"); code != http.StatusOK ||
		!strings.Contains(body, "memoryd_tls_certificate_expiry_seconds 1") ||
		!strings.Contains(body, `memoryd_reloads_total{result="error",what="tls_certificate"} 0`) {
		t.Errorf("/metrics: got %d %q, want metrics", code, body)
	}
	plain := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := plain.Get("http://" + r.HTTPAddr().String() + "/healthz")
	if err == nil {
		_ = resp.Body.Close()
		if resp.StatusCode == http.StatusOK {
			t.Error("the side port answers in plain text")
		}
	}
}

func TestTLS_WarnsOfExpiry(t *testing.T) {
	ca := newAuthority(t)
	log := &logBuffer{}
	now := time.Now()
	cfg := newFiles(t).tls(ca) // for 30 days
	cfg.Logger, cfg.now = log.logger(), func() time.Time { return now }
	s, err := openSecurity(t.Context(), cfg, ops.NewMetrics(""))
	if err != nil {
		t.Fatal(err)
	}
	wantLines := func(text string, want int) {
		t.Helper()
		s.tls.warnExpiry(t.Context())
		if got := strings.Count(log.String(), text); got != want {
			t.Errorf("got %d lines %q, want %d:\n%s", got, text, want, log)
		}
	}
	const soon, over = `"level":"WARN","msg":"the TLS certificate expires soon"`, `"level":"ERROR","msg":"the TLS certificate has expired`
	wantLines(soon, 0)
	now = inDays(22)
	wantLines(soon, 0)
	now = inDays(24)
	wantLines(soon, 1)
	now = now.Add(expiryWarnEvery - 1)
	wantLines(soon, 1)
	now = now.Add(1)
	wantLines(soon, 2)
	now = inDays(31)
	wantLines(over, 1)
	wantLines(soon, 2)
}

func TestTLS_KeyMode(t *testing.T) {
	for _, tt := range []struct {
		mode os.FileMode
		want bool
	}{{0o600, false}, {0o640, false}, {0o644, true}} {
		log := &logBuffer{}
		cfg := newFiles(t).tls(newAuthority(t))
		cfg.Logger = log.logger()
		if err := os.Chmod(cfg.TLSKey, tt.mode); err != nil {
			t.Fatal(err)
		}
		start(t, cfg)
		if got := strings.Contains(log.String(), "every user of this machine can read the TLS key"); got != tt.want {
			t.Errorf("mode %o: got a warning %t, want %t", tt.mode, got, tt.want)
		}
	}
}
