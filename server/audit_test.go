package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	memoryv1 "github.com/seed-7f2870e1/memoryd/gen/memoryd/v1"
	"github.com/seed-7f2870e1/memoryd/server/internal/audit"
)

// An audit trail that nobody reads neither fails calls nor keeps the service from its end. The log tells what it lacks.
func TestAudit_NobodyReads(t *testing.T) {
	out, stdout := io.Pipe() // It holds nothing: a write waits for its reader.
	log := &logBuffer{}
	r := start(t, Config{
		Principals: writePrincipals(t, principalsFile), AuditLog: "-", Stdout: stdout, Logger: log.logger(),
	})
	c := memoryv1.NewMemoryServiceClient(r.conn)
	const calls = 5
	for i := range calls {
		ctx, cancel := context.WithTimeout(as(t, "alice"), time.Minute)
		_, err := c.Create(ctx, &memoryv1.CreateRequest{Namespace: "shared", Path: fmt.Sprint("/memories/", i)})
		cancel()
		wantCode(t, err, codes.OK)
	}
	_, err := c.Apply(as(t, "alice"), &memoryv1.ApplyRequest{Namespace: "shared", Commands: []*memoryv1.ApplyCommand{
		{Input: `{"command":"delete","path":"/memories/0"}`}, {Input: `{"command":"delete","path":"/memories/1"}`},
	}})
	wantCode(t, err, codes.OK)
	_, err = c.View(as(t, "nobody"), &memoryv1.ViewRequest{Namespace: "shared", Path: "/memories"})
	wantCode(t, err, codes.PermissionDenied)

	for lines, want := range map[int]int{1: calls + 1, 2: 1} {
		text := fmt.Sprintf(`"lines":%d,"error":"write audit log: the output does not take lines within 1s`, lines)
		if got := strings.Count(log.String(), text); got != want {
			t.Errorf("the log has %s %d times, want %d:\n%s", text, got, want, log)
		}
	}
	if err := r.Reload(t.Context()); err != nil {
		t.Error(err)
	}
	if err := r.stop(); err != nil {
		t.Errorf("got %v, want a clean stop", err)
	}
	if err := out.Close(); err != nil { // So that the writer that is left behind ends.
		t.Error(err)
	}
}

// Each line that is missing is counted, and those that are there are not.
func TestAuditor_CountsLines(t *testing.T) {
	out := &failingWriter{fails: 2}
	trail, err := audit.Open(audit.Stdout, out)
	if err != nil {
		t.Fatal(err)
	}
	failed, log := 0, &logBuffer{}
	a := &auditor{log: trail, logger: log.logger(), failed: func() { failed++ }, now: time.Now}
	a.writeAll(t.Context(), []audit.Event{{Path: "a"}, {Path: "b"}, {Path: "c"}})
	a.writeAll(t.Context(), nil)
	if err := trail.Close(); err != nil {
		t.Error(err)
	}
	if failed != 2 || out.writes != 3 {
		t.Errorf("got %d failures of %d writes, want 2 of 3", failed, out.writes)
	}
	if want := `"lines":2,"error":"write audit log: it is full"}`; !strings.Contains(log.String(), want) {
		t.Errorf("the log lacks %s:\n%s", want, log)
	}
}

// failingWriter fails so many times.
type failingWriter struct{ fails, writes int }

func (w *failingWriter) Write(p []byte) (int, error) {
	if w.writes++; w.writes <= w.fails {
		return 0, errors.New("it is full")
	}
	return len(p), nil
}

// What strangers do is told so many times and then counted, also of methods that otherwise have a line for every call.
func TestAudit_Strangers(t *testing.T) {
	file := filepath.Join(t.TempDir(), "audit.jsonl")
	s := start(t, Config{Principals: writePrincipals(t, principalsFile), AuditLog: file})
	for range 200 {
		_ = invoke(as(t, "wrong"), t, s.conn, memoryv1.MemoryService_Delete_FullMethodName, "shared")
	}
	if err := s.stop(); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if lines := strings.Count(string(data), "\n"); lines == 0 || lines > 100 {
		t.Errorf("got %d lines of 200 failures of one address, want some, and far fewer", lines)
	}
}
