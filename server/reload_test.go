package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/seed-7f2870e1/memoryd/server/internal/ops"
)

// followed is a reloadable of two files that holds what was loaded last. Contents with "broken" are.
type followed struct {
	*reloader
	files  *files
	log    *logBuffer
	clock  time.Time
	loaded string
	loads  int
}

func newFollowed(t *testing.T) *followed {
	t.Helper()
	f := &followed{files: newFiles(t), log: &logBuffer{}, clock: time.Unix(0, 0)}
	f.reloader = newReloader(f.log.logger(), ops.NewMetrics(""), func() time.Time { return f.clock })
	f.files.write("a", []byte("a1"))
	f.files.write("b", []byte("b1"))
	err := f.start(t.Context(), reloadable{"pair", []string{f.files.path("a"), f.files.path("b")}, f.load})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func (f *followed) load(_ context.Context, contents [][]byte) ([]slog.Attr, error) {
	f.loads++
	text := fmt.Sprintf("%s", contents)
	if strings.Contains(text, "broken") {
		return nil, errors.New("line 7 is broken")
	}
	f.loaded = text
	return []slog.Attr{slog.String("now", text)}, nil
}

func (f *followed) want(t *testing.T, loaded string, loads, failures int) {
	t.Helper()
	if f.loaded != loaded || f.loads != loads {
		t.Errorf("got %s after %d loads, want %s after %d", f.loaded, f.loads, loaded, loads)
	}
	line := `"level":"ERROR","msg":"cannot reload; what was in force stays in force","what":"pair","files":["` +
		f.files.path("a") + `","` + f.files.path("b") + `"],"error":`
	if got := strings.Count(f.log.String(), line); got != failures {
		t.Errorf("got %d lines about failures, want %d:\n%s", got, failures, f.log)
	}
}

func TestReloader_Settles(t *testing.T) {
	f := newFollowed(t)
	f.poll(t.Context())
	f.want(t, "[a1 b1]", 1, 0)
	f.files.write("a", []byte("a2"))
	f.poll(t.Context())
	f.want(t, "[a1 b1]", 1, 0)
	f.files.write("b", []byte("b2")) // The other half comes between two looks.
	f.poll(t.Context())
	f.want(t, "[a1 b1]", 1, 0)
	f.poll(t.Context())
	f.want(t, "[a2 b2]", 2, 0)
	if want := `"msg":"reloaded","what":"pair","files":[`; !strings.Contains(f.log.String(), want) {
		t.Errorf("the log lacks %s:\n%s", want, f.log)
	}
	for range 3 {
		f.poll(t.Context())
	}
	f.want(t, "[a2 b2]", 2, 0)

	// What is back before it was loaded has not changed.
	f.files.write("a", []byte("a3"))
	f.poll(t.Context())
	f.files.write("a", []byte("a2"))
	for range 3 {
		f.poll(t.Context())
	}
	f.want(t, "[a2 b2]", 2, 0)
}

func TestReloader_Broken(t *testing.T) {
	f := newFollowed(t)
	twice := func() {
		f.poll(t.Context())
		f.poll(t.Context())
	}
	f.files.write("a", []byte("broken"))
	twice()
	f.want(t, "[a1 b1]", 2, 1)
	twice() // It is tried again, since what it depends on may be back, and not told again.
	f.want(t, "[a1 b1]", 4, 1)
	f.files.write("a", []byte("broken otherwise"))
	twice()
	f.want(t, "[a1 b1]", 5, 2)
	if err := os.Remove(f.files.path("a")); err != nil {
		t.Fatal(err)
	}
	twice()
	f.want(t, "[a1 b1]", 5, 3)
	if want := f.files.path("a") + ": no such file or directory"; !strings.Contains(f.log.String(), want) {
		t.Errorf("the log lacks %s:\n%s", want, f.log)
	}
	f.files.write("a", []byte("a1"))
	twice()
	f.want(t, "[a1 b1]", 6, 3)
	if got := strings.Count(f.log.String(), `"msg":"reloaded"`); got != 1 {
		t.Errorf("got %d lines that it was reloaded, want 1:\n%s", got, f.log)
	}
	twice()
	f.want(t, "[a1 b1]", 6, 3)
}

func TestReloader_All(t *testing.T) {
	f := newFollowed(t)
	if err := f.all(t.Context()); err != nil { // Though nothing has changed.
		t.Error(err)
	}
	f.want(t, "[a1 b1]", 2, 0)
	f.files.write("a", []byte("broken"))
	err := f.all(t.Context())
	if want := "reload pair: line 7 is broken"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	f.poll(t.Context())
	f.want(t, "[a1 b1]", 4, 1) // The log was told already.
	if err := f.all(t.Context()); err == nil {
		t.Error("what is broken was loaded")
	}
	f.want(t, "[a1 b1]", 5, 2) // Whoever asks again is told again.
	f.wantMetrics(t, 1, 2, 1)
	f.files.write("a", []byte("a2"))
	if err := f.all(t.Context()); err != nil {
		t.Error(err)
	}
	f.want(t, "[a2 b1]", 6, 2)
	f.wantMetrics(t, 2, 2, 0)
	f.poll(t.Context())
	f.want(t, "[a2 b1]", 6, 2)
}

// wantMetrics checks how often it was loaded again, how often it could not be, and whether it is failing.
func (f *followed) wantMetrics(t *testing.T, ok, failed, failing int) {
	t.Helper()
	body := metricsOf(t, f.metrics)
	for _, want := range []string{
		fmt.Sprintf("\nmemoryd_reloads_total{result=\"ok\",what=\"pair\"} %d\n", ok),
		fmt.Sprintf("\nmemoryd_reloads_total{result=\"error\",what=\"pair\"} %d\n", failed),
		fmt.Sprintf("\nmemoryd_reload_failing{what=\"pair\"} %d\n", failing),
	} {
		if !strings.Contains(body, want) {
			t.Errorf("the metrics lack %s", strings.TrimSpace(want))
		}
	}
}

// TestReloader_TellsAgain has a file stay broken: the log is told every hour, and the metrics all the time.
func TestReloader_TellsAgain(t *testing.T) {
	f := newFollowed(t)
	f.wantMetrics(t, 0, 0, 0)
	f.files.write("a", []byte("broken"))
	f.poll(t.Context())
	f.poll(t.Context())
	f.want(t, "[a1 b1]", 2, 1)
	f.wantMetrics(t, 0, 1, 1)
	f.clock = f.clock.Add(tellEvery - 1)
	f.poll(t.Context())
	f.want(t, "[a1 b1]", 3, 1)
	f.clock = f.clock.Add(1)
	f.poll(t.Context())
	f.poll(t.Context())
	f.want(t, "[a1 b1]", 5, 2)
	f.clock = f.clock.Add(tellEvery)
	f.poll(t.Context())
	f.want(t, "[a1 b1]", 6, 3)
	f.wantMetrics(t, 0, 1, 1)
	f.files.write("a", []byte("a1"))
	f.poll(t.Context())
	f.poll(t.Context())
	f.want(t, "[a1 b1]", 7, 3)
	f.wantMetrics(t, 1, 1, 0)
}

// TestReloader_SymbolicLink replaces a file as Kubernetes does.
func TestReloader_SymbolicLink(t *testing.T) {
	f := newFollowed(t)
	for _, name := range []string{"one", "two"} {
		if err := os.Mkdir(f.files.path(name), 0o700); err != nil {
			t.Fatal(err)
		}
		f.files.write(filepath.Join(name, "c"), []byte(name))
	}
	link := func(to string) {
		t.Helper()
		if err := errors.Join(os.Symlink(to, f.files.path("new")), os.Rename(f.files.path("new"), f.files.path("data"))); err != nil {
			t.Fatal(err)
		}
	}
	link("one")
	if err := f.start(t.Context(), reloadable{"linked", []string{f.files.path("data/c")}, f.load}); err != nil {
		t.Fatal(err)
	}
	link("two")
	f.poll(t.Context())
	f.poll(t.Context())
	f.want(t, "[two]", 3, 0)
}

func TestReloader_LargeFile(t *testing.T) {
	f := newFollowed(t)
	if err := os.Truncate(f.files.path("a"), maxReloadableBytes+1); err != nil {
		t.Fatal(err)
	}
	if err := f.all(t.Context()); err == nil || !strings.Contains(err.Error(), "there are more than") {
		t.Errorf("got %v, want that there is too much", err)
	}
}

// TestServer_PrincipalsReload gives and takes tokens while a connection is open.
func TestServer_PrincipalsReload(t *testing.T) {
	log := &logBuffer{}
	files := newFiles(t)
	cfg := Config{Logger: log.logger(), Principals: files.write("principals.yaml", tokensOf("a", "first"))}
	r := start(t, cfg)
	call := func(token string) error { return viewOn(withToken(t.Context(), token), r.conn) }
	wantCode(t, call("first"), codes.OK)
	wantCode(t, call("second"), codes.Unauthenticated)

	short := func(token string) string { return hashOf(token)[len("sha256:"):][:12] }
	wantUses := func(token string, want int) {
		t.Helper()
		line := `"level":"INFO","msg":"token used for the first time since the principals were read","principal":"a","token":"` +
			short(token) + `"}`
		if got := strings.Count(log.String(), line); got != want {
			t.Errorf("got %d lines about the first use of the token %s, want %d:\n%s", got, token, want, log)
		}
	}
	wantCode(t, call("first"), codes.OK)
	wantUses("first", 1)
	if want := `"principal":"a","credential":"token sha256:` + short("first") + `","namespace":"n"`; !strings.Contains(log.String(), want) {
		t.Errorf("the log lacks %s:\n%s", want, log)
	}

	files.write("principals.yaml", tokensOf("a", "first", "second"))
	r.security.reloads.poll(t.Context())
	r.security.reloads.poll(t.Context())
	wantCode(t, call("first"), codes.OK)
	wantCode(t, call("second"), codes.OK)
	wantUses("first", 2)
	wantUses("second", 1)

	files.write("principals.yaml", []byte("principals:\n- name: a\n  tokenz: []\n"))
	r.security.reloads.poll(t.Context())
	r.security.reloads.poll(t.Context())
	wantCode(t, call("second"), codes.OK)
	if want := `"what":"principals","files":["` + cfg.Principals + `"],"error":"line 3: unknown key`; !strings.Contains(log.String(), want) {
		t.Errorf("the log lacks %s:\n%s", want, log)
	}

	files.write("principals.yaml", tokensOf("a", "second"))
	if err := r.Reload(t.Context()); err != nil {
		t.Error(err)
	}
	wantCode(t, call("first"), codes.Unauthenticated)
	wantCode(t, call("second"), codes.OK)

	// Certificates that nothing can check are refused now as they are at the start.
	files.write("principals.yaml", []byte("principals:\n- name: a\n  certificates: [c]\n"))
	if err := r.Reload(t.Context()); err == nil || !strings.Contains(err.Error(), "--tls-client-ca") {
		t.Errorf("got %v, want that certificates cannot be checked", err)
	}
	wantCode(t, call("second"), codes.OK)
}

// TestServer_FollowsFiles has a token become known without a word to the server.
func TestServer_FollowsFiles(t *testing.T) {
	files := newFiles(t)
	r := start(t, Config{
		Principals: files.write("principals.yaml", tokensOf("a", "first")), times: timings{poll: time.Millisecond},
	})
	files.write("principals.yaml", tokensOf("a", "second"))
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for viewOn(withToken(ctx, "first"), r.conn) == nil { // Until it is taken back: what is good does not wait.
	}
	wantCode(t, viewOn(withToken(t.Context(), "second"), r.conn), codes.OK)
}

func TestServer_ReloadReopensTheAuditTrail(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	log := &logBuffer{}
	r := start(t, Config{AuditLog: path, HTTP: "127.0.0.1:0", Logger: log.logger()})
	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	if err := r.Reload(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Errorf("the file was not opened anew: %v", err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(path, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := r.Reload(t.Context()); err == nil {
		t.Error("a directory was opened as audit trail")
	}
	_, metrics := httpGet(t, r, "/metrics")
	for _, result := range []string{"ok", "error"} {
		want := `memoryd_reloads_total{result="` + result + `",what="audit_log"} 1`
		if !strings.Contains(metrics, want) {
			t.Errorf("the metrics lack %s", want)
		}
	}
	if want := `memoryd_reload_failing{what="audit_log"} 1`; !strings.Contains(metrics, want) {
		t.Errorf("the metrics lack %s", want)
	}
	for _, want := range []string{
		`"level":"INFO","msg":"reloaded","what":"audit_log","file":"` + path + `"}`,
		`"level":"ERROR","msg":"cannot reload; what was in force stays in force","what":"audit_log","error":"open audit log: open ` + path,
	} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log lacks %s:\n%s", want, log)
		}
	}
	// It is opened once it can be, without a word to the server.
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	r.security.reloads.poll(t.Context())
	if _, metrics = httpGet(t, r, "/metrics"); !strings.Contains(metrics, `memoryd_reload_failing{what="audit_log"} 0`) {
		t.Error("the metrics still tell of the audit trail")
	}
	if _, err := os.Stat(path); err != nil {
		t.Errorf("the file was not opened: %v", err)
	}
}

// TestServer_KeysetReload has the keyset of the store among what is reloaded.
func TestServer_KeysetReload(t *testing.T) {
	path := newKeyset(t).File
	log := &logBuffer{}
	r := start(t, Config{Data: t.TempDir(), EncryptionKeyset: path, Logger: log.logger()})
	if err := r.Reload(t.Context()); err != nil {
		t.Error(err)
	}
	if want := `"msg":"reloaded","what":"keyset"`; !strings.Contains(log.String(), want) {
		t.Errorf("the log lacks %s:\n%s", want, log)
	}
	if err := os.WriteFile(path, []byte("broken"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := r.Reload(t.Context()); err == nil || !strings.Contains(err.Error(), "reload keyset: ") {
		t.Errorf("got %v, want that the keyset is broken", err)
	}
	wantCode(t, viewOn(t.Context(), r.conn), codes.OK)
}
