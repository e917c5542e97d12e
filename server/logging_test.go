package server

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	memoryv1 "github.com/seed-7f2870e1/memoryd/gen/memoryd/v1"
	"github.com/seed-7f2870e1/memoryd/server/internal/auth"
	"github.com/seed-7f2870e1/memoryd/server/internal/rpc"
	"github.com/seed-7f2870e1/memoryd/server/kv"
)

// callLines are the lines about calls, without the fields that differ from run to run.
func callLines(t *testing.T, log *logBuffer) []string {
	t.Helper()
	var lines []string
	for line := range strings.Lines(log.String()) {
		var fields map[string]any
		if err := json.Unmarshal([]byte(line), &fields); err != nil {
			t.Fatal(err)
		}
		if fields["msg"] != "call" {
			continue
		}
		for _, key := range []string{"time", "msg", "duration", "peer", "x_request_id"} {
			if fields[key] == nil {
				t.Errorf("the log line lacks %s: %s", key, line)
			}
			delete(fields, key)
		}
		rest, err := json.Marshal(fields)
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, string(rest))
	}
	slices.Sort(lines)
	return lines
}

// Calls of strangers that come too often have one line a minute.
func TestLog_Strangers(t *testing.T) {
	log, now := &logBuffer{}, time.Unix(0, 0)
	l := &callLogger{logger: log.logger(), strangers: &sparse{now: func() time.Time { return now }}}
	a := auth.New(auth.Options{Throttle: auth.Throttle{Burst: 1}, Now: func() time.Time { return now }})
	fail := func() {
		_, err := a.Authenticate(t.Context())
		c, ctx := callIn(t.Context())
		l.ended(ctx, c, memoryv1.MemoryService_View_FullMethodName, rpc.StatusError(err), 0)
	}
	wantLines := func(calls, warnings int) {
		t.Helper()
		gotCalls := strings.Count(log.String(), `"msg":"call"`)
		gotWarnings := strings.Count(log.String(), "calls without a valid credential come too often for a line each")
		if gotCalls != calls || gotWarnings != warnings {
			t.Errorf("got %d lines of calls and %d warnings, want %d and %d:\n%s", gotCalls, gotWarnings, calls, warnings, log)
		}
	}
	fail()
	wantLines(1, 0)
	for range 1000 {
		fail()
	}
	wantLines(1, 1)
	now = now.Add(warnEvery)
	fail() // It is not too many after a minute.
	wantLines(2, 1)
	fail()
	wantLines(2, 2)
	if want := `"times":1000`; !strings.Contains(log.String(), want) {
		t.Errorf("the log lacks %s:\n%s", want, log)
	}
}

func TestLog(t *testing.T) {
	log := &logBuffer{}
	r := start(t, Config{Logger: log.logger()})
	ctx := t.Context()
	memories, files := memoryv1.NewMemoryServiceClient(r.conn), memoryv1.NewFileServiceClient(r.conn)
	const secret = "hunter2"

	_, err := memories.Create(ctx, &memoryv1.CreateRequest{
		Namespace: "acme/1", RequestId: secret, Session: secret, Path: "/memories/" + secret, FileText: secret,
	})
	if err != nil {
		t.Fatal(err)
	}
	input := `{"command":"view","path":"/memories/` + secret + `"}`
	if _, err := memories.Execute(ctx, &memoryv1.ExecuteRequest{Namespace: "acme/1", Input: input}); err != nil {
		t.Fatal(err)
	}
	_, err = memories.StrReplace(ctx, &memoryv1.StrReplaceRequest{
		Namespace: "acme/1", Path: "/memories/" + secret, OldStr: secret + secret,
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := memories.View(ctx, &memoryv1.ViewRequest{Namespace: "Acme" + strings.Repeat("x", 5000)}); err == nil {
		t.Error("a bad namespace was taken")
	}
	get, err := files.Get(ctx, &memoryv1.GetRequest{Namespace: "acme/1", Path: "/memories/" + secret})
	for err == nil {
		_, err = get.Recv()
	}
	put, err := files.Put(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, req := range []*memoryv1.PutRequest{
		{Part: &memoryv1.PutRequest_Header{Header: &memoryv1.PutHeader{Namespace: "acme/2", Path: "/memories/" + secret}}},
		{Part: &memoryv1.PutRequest_Chunk{Chunk: []byte(secret)}},
	} {
		if err := put.Send(req); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := put.CloseAndRecv(); err != nil {
		t.Fatal(err)
	}
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}

	if strings.Contains(log.String(), secret) {
		t.Errorf("the log has what only the memory should:\n%s", log)
	}
	rule := "it must be segments of a-z, 0-9, '.', '_' and '-' that start with a letter or digit, joined by '/', " +
		"at most 200 bytes, such as acme/support/user-42"
	want := []string{
		`{"code":"InvalidArgument","error":"namespace is too long; ` + rule + `","level":"INFO",` +
			`"method":"/memoryd.v1.MemoryService/View","namespace":"Acme` + strings.Repeat("x", 196) + `"}`,
		`{"code":"OK","level":"DEBUG","method":"/memoryd.v1.FileService/Get","namespace":"acme/1","reason":"ok"}`,
		`{"code":"OK","level":"DEBUG","method":"/memoryd.v1.FileService/Put","namespace":"acme/2","reason":"ok"}`,
		`{"code":"OK","level":"DEBUG","method":"/memoryd.v1.MemoryService/Create","namespace":"acme/1","reason":"ok"}`,
		`{"code":"OK","level":"DEBUG","method":"/memoryd.v1.MemoryService/Execute","namespace":"acme/1","reason":"ok"}`,
		`{"code":"OK","level":"DEBUG","method":"/memoryd.v1.MemoryService/StrReplace","namespace":"acme/1",` +
			`"reason":"str_replace_no_match"}`,
	}
	if diff := cmp.Diff(want, callLines(t, log)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestLog_CauseIsNotForCallers(t *testing.T) {
	log := &logBuffer{}
	r := start(t, Config{Logger: log.logger(), Store: &hookedStore{newStore(t), func(context.Context) error {
		return fmt.Errorf("lock /var/lib/memoryd: %w", kv.ErrBusy)
	}}})
	_, err := view(t.Context(), r)
	wantStatus(t, err, codes.Unavailable, "STORE_BUSY")
	if got, want := status.Convert(err).Message(), "the store is busy"; got != want {
		t.Errorf("the caller is told %q, want %q", got, want)
	}
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	want := []string{`{"code":"Unavailable","error":"lock /var/lib/memoryd: store is busy","level":"WARN",` +
		`"method":"/memoryd.v1.MemoryService/View","namespace":"n"}`}
	if diff := cmp.Diff(want, callLines(t, log)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestLog_Level(t *testing.T) {
	const own, health = memoryv1.MemoryService_View_FullMethodName, healthpb.Health_Check_FullMethodName
	tests := []struct {
		method string
		code   codes.Code
		want   slog.Level
	}{
		{own, codes.OK, slog.LevelDebug},
		{own, codes.InvalidArgument, slog.LevelInfo},
		{own, codes.NotFound, slog.LevelInfo},
		{own, codes.Canceled, slog.LevelInfo},
		{own, codes.ResourceExhausted, slog.LevelWarn},
		{own, codes.DeadlineExceeded, slog.LevelWarn},
		{own, codes.Unavailable, slog.LevelWarn},
		{own, codes.Internal, slog.LevelError},
		{own, codes.Unknown, slog.LevelError},
		{own, codes.DataLoss, slog.LevelError},
		{health, codes.OK, slog.LevelDebug},
		{health, codes.NotFound, slog.LevelDebug},
		{health, codes.Canceled, slog.LevelDebug},
	}
	for _, tt := range tests {
		if got := levelOf(tt.method, tt.code); got != tt.want {
			t.Errorf("%s of %s: got %v, want %v", tt.code, tt.method, got, tt.want)
		}
	}
}
