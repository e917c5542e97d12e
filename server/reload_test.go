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
	loaded string
	loads  int
}

func newFollowed(t *testing.T) *followed {
	t.Helper()
	f := &followed{files: newFiles(t), log: &logBuffer{}}
	f.reloader = newReloader(f.log.logger(), ops.NewMetrics(""))
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
	line := `"level":"ERROR","msg":"cannot reload; what was in force stays in force","what":"pair","error":`
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
	f.want(t, "[a1 b1]", 4, 0) // Whoever asked was told.
	f.files.write("a", []byte("a2"))
	if err := f.all(t.Context()); err != nil {
		t.Error(err)
	}
	f.want(t, "[a2 b1]", 5, 0)
	f.poll(t.Context())
	f.want(t, "[a2 b1]", 5, 0)
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

	files.write("principals.yaml", tokensOf("a", "first", "second"))
	r.security.reloads.poll(t.Context())
	r.security.reloads.poll(t.Context())
	wantCode(t, call("first"), codes.OK)
	wantCode(t, call("second"), codes.OK)

	files.write("principals.yaml", []byte("principals:\n- name: a\n  tokenz: []\n"))
	r.security.reloads.poll(t.Context())
	r.security.reloads.poll(t.Context())
	wantCode(t, call("second"), codes.OK)
	if want := `"what":"principals","error":"line 3: unknown key`; !strings.Contains(log.String(), want) {
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
	r := start(t, Config{AuditLog: path, HTTP: "127.0.0.1:0"})
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
