package rpc

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/fieldmaskpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	memoryv1 "github.com/seed-7f2870e1/memoryd/gen/memoryd/v1"
	"github.com/seed-7f2870e1/memoryd/server/internal/auth"
	"github.com/seed-7f2870e1/memoryd/server/kv/memkv"
	"github.com/seed-7f2870e1/memoryd/server/memory"
)

// now is the time of all changes.
var now = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// service is the services on an empty store.
type service struct {
	memory   memoryv1.MemoryServiceClient
	files    memoryv1.FileServiceClient
	admin    memoryv1.AdminServiceClient
	recorded *recorder
}

func newService(t *testing.T) service {
	t.Helper()
	store := memkv.New()
	tree, err := memory.New(store, memory.Options{Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	recorded := &recorder{}
	server := grpc.NewServer(grpc.MaxRecvMsgSize(16<<20), grpc.UnaryInterceptor(func(
		ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler,
	) (any, error) {
		return handler(auth.NewContext(ctx, auth.Everyone()), req)
	}))
	Register(server, Options{Memory: tree, Recorder: recorded})
	listener := bufconn.Listen(1 << 20)
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	conn, err := grpc.NewClient("passthrough:///rpc", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
		server.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	return service{
		memory:   memoryv1.NewMemoryServiceClient(conn),
		files:    memoryv1.NewFileServiceClient(conn),
		admin:    memoryv1.NewAdminServiceClient(conn),
		recorded: recorded,
	}
}

// recorder keeps what is recorded.
type recorder struct {
	mu    sync.Mutex
	notes []string
}

func (r *recorder) note(words ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.notes = append(r.notes, strings.Join(words, " "))
}

func (r *recorder) Command(name, reason string) { r.note(name, reason) }
func (r *recorder) Repaired(kind string)        { r.note("repaired", kind) }

func (r *recorder) take() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	notes := r.notes
	r.notes = nil
	return notes
}

func text(s string) []*memoryv1.Content {
	return []*memoryv1.Content{{Block: &memoryv1.Content_Text{Text: s}}}
}

func failed(reason memoryv1.Reason, s string) *memoryv1.ToolResult {
	return &memoryv1.ToolResult{IsError: true, Reason: reason, Content: text(s)}
}

func check(t *testing.T, what string, want, got any) {
	t.Helper()
	if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
		t.Errorf("%s (-want +got)\n%s", what, diff)
	}
}

func must[T any](resp T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return resp
	}
}

func TestReasons(t *testing.T) {
	for _, r := range memory.Reasons() {
		name, ok := memoryv1.Reason_name[int32(r)]
		if !ok {
			t.Errorf("reason %d of package memory is none of the API", r)
			continue
		}
		if got, want := "REASON_"+strings.ToUpper(ReasonLabel(memoryv1.Reason(r))), name; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	// The names of the constants are held together by their numbers, so a few names hold all of them in place.
	for got, want := range map[memory.Reason]memoryv1.Reason{
		memory.ReasonNone:              memoryv1.Reason_REASON_UNSPECIFIED,
		memory.ReasonViewPathNotFound:  memoryv1.Reason_REASON_VIEW_PATH_NOT_FOUND,
		memory.ReasonInsertLineInvalid: memoryv1.Reason_REASON_INSERT_LINE_INVALID,
		memory.ReasonParentIsFile:      memoryv1.Reason_REASON_PARENT_IS_FILE,
		memory.ReasonFileTooLarge:      memoryv1.Reason_REASON_FILE_TOO_LARGE,
		memory.ReasonInputNotObject:    memoryv1.Reason_REASON_INPUT_NOT_OBJECT,
		memory.ReasonDirectoryTooLarge: memoryv1.Reason_REASON_DIRECTORY_TOO_LARGE,
	} {
		if int32(got) != int32(want) {
			t.Errorf("got %d, want %d (%s)", got, want, want)
		}
	}
	if got, want := ReasonLabel(memoryv1.Reason_REASON_UNSPECIFIED), "ok"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestMemoryService(t *testing.T) {
	s, ctx := newService(t), t.Context()
	const ns = "acme/agent-1"

	created := must(s.memory.Create(ctx, &memoryv1.CreateRequest{
		Namespace: ns, RequestId: strings.Repeat("r", 128), Session: strings.Repeat("s", 128),
		Path: "/memories/a.txt", FileText: "one\ntwo\n",
	}))(t)
	stamp := timestamppb.New(now)
	entry := &memoryv1.Entry{
		Path: "/memories/a.txt", Kind: memoryv1.EntryKind_ENTRY_KIND_FILE, SizeBytes: 8, Lines: 3,
		Sha256:      fmt.Sprintf("%x", sha256.Sum256([]byte("one\ntwo\n"))),
		CreatedTime: stamp, ModifiedTime: stamp, Revision: 1,
	}
	check(t, "create", &memoryv1.CreateResponse{
		Result:   &memoryv1.ToolResult{Content: text("File created successfully at: /memories/a.txt")},
		Revision: 1, Entry: entry,
	}, created)

	replaced := must(s.memory.StrReplace(ctx, &memoryv1.StrReplaceRequest{
		Namespace: ns, Path: "/memories/a.txt", OldStr: "two", NewStr: "2",
	}))(t)
	if got, want := replaced.GetRevision(), int64(2); got != want || replaced.GetResult().GetIsError() {
		t.Errorf("str_replace: got revision %d (%v), want %d", got, replaced.GetResult(), want)
	}
	inserted := must(s.memory.Insert(ctx, &memoryv1.InsertRequest{
		Namespace: ns, Path: "/memories/a.txt", InsertLine: 9, InsertText: "x",
	}))(t)
	check(t, "insert", &memoryv1.InsertResponse{Result: failed(memoryv1.Reason_REASON_INSERT_LINE_INVALID,
		"Error: Invalid `insert_line` parameter: 9. It should be within the range of lines of the file: [0, 3]")}, inserted)

	renamed := must(s.memory.Rename(ctx, &memoryv1.RenameRequest{
		Namespace: ns, OldPath: "/memories/a.txt", NewPath: "/memories/d/b.txt",
	}))(t)
	if got, want := renamed.GetEntry().GetPath(), "/memories/d/b.txt"; got != want {
		t.Errorf("rename: got entry %q, want %q", got, want)
	}
	viewed := must(s.memory.View(ctx, &memoryv1.ViewRequest{
		Namespace: ns, Path: "/memories/d/b.txt",
		ViewRange: &memoryv1.ViewRange{Start: 2, End: -1},
	}))(t)
	check(t, "view of a file", text("Here's the content of /memories/d/b.txt with line numbers:\n     2\t2\n     3\t"),
		viewed.GetResult().GetContent())

	listed := must(s.memory.View(ctx, &memoryv1.ViewRequest{Namespace: ns, Path: "/memories"}))(t)
	var paths []string
	for _, e := range listed.GetEntries() {
		paths = append(paths, e.GetPath()+" "+e.GetKind().String())
	}
	check(t, "entries of a view", []string{
		"/memories/d ENTRY_KIND_DIRECTORY", "/memories/d/b.txt ENTRY_KIND_FILE",
	}, paths)
	if got, want := listed.GetEntry().GetFileCount(), int64(1); got != want || listed.GetEntry().GetSha256() != "" {
		t.Errorf("got entry %v, want a directory of %d file", listed.GetEntry(), want)
	}

	deleted := must(s.memory.Delete(ctx, &memoryv1.DeleteRequest{Namespace: ns, Path: "/memories/d"}))(t)
	check(t, "delete", text("Successfully deleted /memories/d"), deleted.GetResult().GetContent())

	check(t, "recorded", []string{
		"create ok", "str_replace ok", "insert insert_line_invalid", "rename ok", "view ok", "view ok", "delete ok",
	}, s.recorded.take())
}

func TestExecute(t *testing.T) {
	s, ctx := newService(t), t.Context()
	execute := func(input string) *memoryv1.ExecuteResponse {
		t.Helper()
		return must(s.memory.Execute(ctx, &memoryv1.ExecuteRequest{Namespace: "n", Input: input}))(t)
	}

	resp := execute(`{"command":"create","path":"/memories/a","content":"x"}`)
	if resp.GetRevision() != 1 || resp.GetEntry().GetPath() != "/memories/a" {
		t.Errorf("create: got %v", resp)
	}
	resp = execute(`{"command":"view","path":"/memories"}`)
	if len(resp.GetEntries()) != 1 {
		t.Errorf("view: got %d entries, want 1", len(resp.GetEntries()))
	}
	check(t, "no object", &memoryv1.ExecuteResponse{Result: failed(memoryv1.Reason_REASON_INPUT_NOT_OBJECT,
		"Error: The input must be a JSON object with a command: view, create, str_replace, insert, delete or rename")},
		execute("[]"))
	check(t, "missing", &memoryv1.ExecuteResponse{Result: failed(memoryv1.Reason_REASON_MISSING_PARAMETER,
		"Error: Missing required parameter: path")}, execute(`{"command":"view"}`))
	check(t, "recorded", []string{
		"repaired alias", "create ok", "view ok", "invalid input_not_object", "invalid missing_parameter",
	}, s.recorded.take())
}

func TestImageResult(t *testing.T) {
	s, ctx := newService(t), t.Context()
	png := append([]byte("\x89PNG\r\n\x1a\n"), 1, 2, 3)
	if resp := put(t, s, "n", "/memories/i.png", png); resp.GetResult().GetIsError() {
		t.Fatal(resp)
	}
	resp := must(s.memory.View(ctx, &memoryv1.ViewRequest{Namespace: "n", Path: "/memories/i.png"}))(t)
	image := &memoryv1.Image{MediaType: "image/png", Data: png}
	check(t, "content", []*memoryv1.Content{{Block: &memoryv1.Content_Image{Image: image}}}, resp.GetResult().GetContent())
}

// put sends data in chunks of 64 KiB.
func put(t *testing.T, s service, namespace, path string, data []byte) *memoryv1.PutResponse {
	t.Helper()
	stream := must(s.files.Put(t.Context()))(t)
	header := &memoryv1.PutHeader{Namespace: namespace, Path: path}
	if err := stream.Send(&memoryv1.PutRequest{Part: &memoryv1.PutRequest_Header{Header: header}}); err != nil {
		t.Fatal(err)
	}
	for chunk := range slices.Chunk(data, 64<<10) {
		err := stream.Send(&memoryv1.PutRequest{Part: &memoryv1.PutRequest_Chunk{Chunk: chunk}})
		if errors.Is(err, io.EOF) {
			break // The server has answered.
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return must(stream.CloseAndRecv())(t)
}

// get receives a file, and the sizes of its chunks.
func get(t *testing.T, s service, namespace, path string) (*memoryv1.GetHeader, []byte, []int, error) {
	t.Helper()
	stream := must(s.files.Get(t.Context(), &memoryv1.GetRequest{Namespace: namespace, Path: path}))(t)
	first, err := stream.Recv()
	if err != nil {
		return nil, nil, nil, err
	}
	var data []byte
	var sizes []int
	for {
		resp, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return first.GetHeader(), data, sizes, nil
		}
		if err != nil {
			return nil, nil, nil, err
		}
		data = append(data, resp.GetChunk()...)
		sizes = append(sizes, len(resp.GetChunk()))
	}
}

func TestPutAndGet(t *testing.T) {
	s := newService(t)
	data := bytes.Repeat([]byte{0, 0xff, '\n'}, 50_000)
	resp := put(t, s, "n", "/memories/d/f.bin", data)
	check(t, "put", text("File created successfully at: /memories/d/f.bin"), resp.GetResult().GetContent())

	header, got, sizes, err := get(t, s, "n", "/memories/d/f.bin")
	if err != nil {
		t.Fatal(err)
	}
	check(t, "header", &memoryv1.GetHeader{Result: &memoryv1.ToolResult{}, Revision: 1, Entry: resp.GetEntry()}, header)
	if !bytes.Equal(got, data) {
		t.Errorf("got %d other bytes, want the %d that were put", len(got), len(data))
	}
	check(t, "chunks", []int{64 << 10, 64 << 10, 150_000 - 128<<10}, sizes)

	if resp := put(t, s, "n", "/memories/empty", nil); resp.GetEntry().GetSizeBytes() != 0 || resp.GetRevision() != 2 {
		t.Errorf("empty file: got %v", resp)
	}
	header, got, _, err = get(t, s, "n", "/memories/empty")
	if err != nil || len(got) > 0 || header.GetEntry().GetPath() != "/memories/empty" {
		t.Errorf("empty file: got %v, %d bytes, %v", header, len(got), err)
	}

	header, _, _, err = get(t, s, "n", "/memories/none")
	if err != nil {
		t.Fatal(err)
	}
	check(t, "missing", &memoryv1.GetHeader{Result: failed(memoryv1.Reason_REASON_VIEW_PATH_NOT_FOUND,
		"The path /memories/none does not exist. Please provide a valid path.")}, header)

	_, _, _, err = get(t, s, "n", "/memories/d")
	check(t, "directory", told{codes.InvalidArgument, "INVALID_REQUEST", field("path"), 0}, toldOf(t, err))
	check(t, "recorded", []string{"put ok", "get ok", "put ok", "get ok", "get view_path_not_found"}, s.recorded.take())
}

func TestPut_TooLarge(t *testing.T) {
	s := newService(t)
	// Above the limit of the namespace, and so far above that of all files that the server stops reading.
	for _, size := range []int{1<<20 + 1, 3 * memory.MaxFileBytes} {
		resp := put(t, s, "n", "/memories/f", make([]byte, size))
		check(t, "put", &memoryv1.PutResponse{Result: failed(memoryv1.Reason_REASON_FILE_TOO_LARGE,
			"Error: File /memories/f exceeds the maximum size of 1.0M. "+
				"Shorten the content or split it into several files.")}, resp)
	}
}

func TestPut_Protocol(t *testing.T) {
	header := func(ns string) *memoryv1.PutRequest {
		return &memoryv1.PutRequest{Part: &memoryv1.PutRequest_Header{
			Header: &memoryv1.PutHeader{Namespace: ns, Path: "/memories/f"},
		}}
	}
	chunk := &memoryv1.PutRequest{Part: &memoryv1.PutRequest_Chunk{Chunk: []byte("x")}}
	tests := []struct {
		name string
		send []*memoryv1.PutRequest
		want told
	}{
		{"nothing", nil, told{codes.InvalidArgument, "INVALID_REQUEST", field("header"), 0}},
		{"chunk first", []*memoryv1.PutRequest{chunk}, told{codes.InvalidArgument, "INVALID_REQUEST", field("header"), 0}},
		{
			"empty message first",
			[]*memoryv1.PutRequest{{}},
			told{codes.InvalidArgument, "INVALID_REQUEST", field("header"), 0},
		},
		{
			"two headers",
			[]*memoryv1.PutRequest{header("n"), header("n")},
			told{codes.InvalidArgument, "INVALID_REQUEST", field("chunk"), 0},
		},
		{
			"empty message",
			[]*memoryv1.PutRequest{header("n"), {}, chunk},
			told{codes.InvalidArgument, "INVALID_REQUEST", field("chunk"), 0},
		},
		{
			"bad namespace",
			[]*memoryv1.PutRequest{header("N"), chunk},
			told{codes.InvalidArgument, "INVALID_NAMESPACE", field("namespace"), 0},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newService(t)
			stream := must(s.files.Put(t.Context()))(t)
			for _, req := range tt.send {
				if err := stream.Send(req); err != nil && !errors.Is(err, io.EOF) {
					t.Fatal(err)
				}
			}
			_, err := stream.CloseAndRecv()
			check(t, "error", tt.want, toldOf(t, err))
			list := must(s.files.List(t.Context(), &memoryv1.ListRequest{Namespace: "n", Path: "/memories"}))(t)
			if len(list.GetEntries()) > 0 {
				t.Errorf("something was stored: %v", list.GetEntries())
			}
		})
	}
}

func TestList(t *testing.T) {
	s, ctx := newService(t), t.Context()
	for _, path := range []string{"/memories/b", "/memories/a/x", "/memories/a/.hidden", "/memories/c"} {
		must(s.memory.Create(ctx, &memoryv1.CreateRequest{Namespace: "n", Path: path}))(t)
	}
	var got []string
	token := ""
	for range 10 {
		resp := must(s.files.List(ctx, &memoryv1.ListRequest{
			Namespace: "n", Path: "/memories", PageSize: 2, PageToken: token,
		}))(t)
		var page []string
		for _, e := range resp.GetEntries() {
			page = append(page, e.GetPath())
		}
		got = append(got, strings.Join(page, " "))
		if token = resp.GetNextPageToken(); token == "" {
			break
		}
	}
	want := []string{"/memories/a /memories/b", "/memories/c /memories/a/.hidden", "/memories/a/x"}
	check(t, "pages", want, got)

	resp := must(s.files.List(ctx, &memoryv1.ListRequest{Namespace: "n", Path: "/memories/none"}))(t)
	check(t, "missing", &memoryv1.ListResponse{Result: failed(memoryv1.Reason_REASON_VIEW_PATH_NOT_FOUND,
		"The path /memories/none does not exist. Please provide a valid path.")}, resp)
}

func TestNamespaces(t *testing.T) {
	s, ctx := newService(t), t.Context()
	defaults := &memoryv1.NamespaceSettings{
		CreateOnExisting: memoryv1.CreateOnExisting_CREATE_ON_EXISTING_ERROR.Enum(),
		ViewMaxChars:     new(int64(16_000)), MaxFileBytes: new(int64(1 << 20)),
		MaxFiles: new(int64(5000)), MaxTotalBytes: new(int64(1 << 30)), CallsPerSecond: new(int64(0)),
		ExpireUnreadAfter: durationpb.New(0), Secrets: memoryv1.SecretsPolicy_SECRETS_POLICY_REPORT.Enum(),
	}
	got := must(s.admin.GetNamespace(ctx, &memoryv1.GetNamespaceRequest{Namespace: "a"}))(t).GetNamespace()
	check(t, "never written", &memoryv1.Namespace{
		Name: "a", Settings: &memoryv1.NamespaceSettings{}, EffectiveSettings: defaults,
	}, got)

	// Without a mask, what is given is changed.
	got = must(s.admin.UpdateNamespace(ctx, &memoryv1.UpdateNamespaceRequest{
		Namespace: "a", Settings: &memoryv1.NamespaceSettings{
			CreateOnExisting: memoryv1.CreateOnExisting_CREATE_ON_EXISTING_OVERWRITE.Enum(),
			ViewMaxChars:     new(int64(0)),
		},
	}))(t).GetNamespace()
	check(t, "settings", &memoryv1.NamespaceSettings{
		CreateOnExisting: memoryv1.CreateOnExisting_CREATE_ON_EXISTING_OVERWRITE.Enum(), ViewMaxChars: new(int64(0)),
	}, got.GetSettings())
	effective := proto.CloneOf(defaults)
	effective.CreateOnExisting = memoryv1.CreateOnExisting_CREATE_ON_EXISTING_OVERWRITE.Enum()
	effective.ViewMaxChars = new(int64(0))
	check(t, "effective settings", effective, got.GetEffectiveSettings())
	check(t, "created", timestamppb.New(now), got.GetCreatedTime())

	// With one, what it names is; and what it names without a value returns to the default.
	got = must(s.admin.UpdateNamespace(ctx, &memoryv1.UpdateNamespaceRequest{
		Namespace:  "a",
		Settings:   &memoryv1.NamespaceSettings{MaxFileBytes: new(int64(7)), ViewMaxChars: new(int64(9))},
		UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"create_on_existing", "max_file_bytes"}},
	}))(t).GetNamespace()
	check(t, "settings with a mask", &memoryv1.NamespaceSettings{
		ViewMaxChars: new(int64(0)), MaxFileBytes: new(int64(7)),
	}, got.GetSettings())
	check(t, "effective default", memoryv1.CreateOnExisting_CREATE_ON_EXISTING_ERROR,
		got.GetEffectiveSettings().GetCreateOnExisting())

	for _, ns := range []string{"c", "b"} {
		must(s.memory.Create(ctx, &memoryv1.CreateRequest{Namespace: ns, Path: "/memories/f", FileText: "four"}))(t)
	}
	first := must(s.admin.ListNamespaces(ctx, &memoryv1.ListNamespacesRequest{PageSize: 2}))(t)
	second := must(s.admin.ListNamespaces(ctx, &memoryv1.ListNamespacesRequest{
		PageSize: 2, PageToken: first.GetNextPageToken(),
	}))(t)
	var names []string
	for _, n := range append(first.GetNamespaces(), second.GetNamespaces()...) {
		names = append(names, n.GetName())
	}
	check(t, "names", []string{"a", "b", "c"}, names)
	if n := second.GetNamespaces()[0]; n.GetFileCount() != 1 || n.GetSizeBytes() != 4 || second.GetNextPageToken() != "" {
		t.Errorf("last page: got %v", second)
	}

	must(s.admin.DeleteNamespace(ctx, &memoryv1.DeleteNamespaceRequest{Namespace: "b"}))(t)
	_, err := s.admin.DeleteNamespace(ctx, &memoryv1.DeleteNamespaceRequest{Namespace: "b"})
	check(t, "deleted twice", told{codes.NotFound, "NAMESPACE_NOT_FOUND", unchanged, 0}, toldOf(t, err))
}

func TestRequestChecks(t *testing.T) {
	s, ctx := newService(t), t.Context()
	long := strings.Repeat("x", MaxIDBytes+1)
	badNamespace := told{codes.InvalidArgument, "INVALID_NAMESPACE", field("namespace"), 0}
	bad := func(name string) told { return told{codes.InvalidArgument, "INVALID_REQUEST", field(name), 0} }
	update := func(settings *memoryv1.NamespaceSettings, mask ...string) error {
		req := &memoryv1.UpdateNamespaceRequest{Namespace: "n", Settings: settings}
		if mask != nil {
			req.UpdateMask = &fieldmaskpb.FieldMask{Paths: mask}
		}
		_, err := s.admin.UpdateNamespace(ctx, req)
		return err
	}
	list := func(size int32, token string) error {
		_, err := s.files.List(ctx, &memoryv1.ListRequest{
			Namespace: "n", Path: "/memories", PageSize: size, PageToken: token,
		})
		return err
	}
	namespaces := func(size int32, token string) error {
		_, err := s.admin.ListNamespaces(ctx, &memoryv1.ListNamespacesRequest{PageSize: size, PageToken: token})
		return err
	}
	tests := []struct {
		name string
		call func() error
		want told
	}{
		{"no namespace", func() error {
			_, err := s.memory.View(ctx, &memoryv1.ViewRequest{Path: "/memories"})
			return err
		}, badNamespace},
		{"namespace above a bad path", func() error {
			_, err := s.memory.View(ctx, &memoryv1.ViewRequest{Namespace: "A", Path: "/etc"})
			return err
		}, badNamespace},
		{"namespace of Execute without a command", func() error {
			_, err := s.memory.Execute(ctx, &memoryv1.ExecuteRequest{Namespace: "../x", Input: "[]"})
			return err
		}, badNamespace},
		{"namespace of Get", func() error { _, _, _, err := get(t, s, "", "/memories/f"); return err }, badNamespace},
		{"namespace of List", func() error {
			_, err := s.files.List(ctx, &memoryv1.ListRequest{Namespace: "a//b", Path: "/memories"})
			return err
		}, badNamespace},
		{"namespace of GetNamespace", func() error {
			_, err := s.admin.GetNamespace(ctx, &memoryv1.GetNamespaceRequest{Namespace: "\u00e4"})
			return err
		}, badNamespace},
		{"namespace of DeleteNamespace", func() error {
			_, err := s.admin.DeleteNamespace(ctx, &memoryv1.DeleteNamespaceRequest{})
			return err
		}, badNamespace},
		{"long request_id", func() error {
			_, err := s.memory.Create(ctx, &memoryv1.CreateRequest{Namespace: "n", RequestId: long, Path: "/memories/f"})
			return err
		}, bad("request_id")},
		{"long session", func() error {
			_, err := s.memory.Delete(ctx, &memoryv1.DeleteRequest{Namespace: "n", Session: long, Path: "/memories/f"})
			return err
		}, bad("session")},
		{"page_size of List", func() error { return list(-1, "") }, bad("page_size")},
		{"page_token of List", func() error { return list(0, "?") }, bad("page_token")},
		{"page_token of another List", func() error { return list(0, encodePageToken("/etc")) }, bad("page_token")},
		{"page_size of ListNamespaces", func() error { return namespaces(-1, "") }, bad("page_size")},
		{"page_token of ListNamespaces", func() error { return namespaces(0, "a b") }, bad("page_token")},
		{"page_token of something else", func() error { return namespaces(0, encodePageToken("A")) }, bad("page_token")},
		{"no settings", func() error { return update(nil) }, bad("settings")},
		{"unknown name in update_mask", func() error { return update(nil, "color") }, bad("update_mask")},
		{"create_on_existing of nothing", func() error {
			return update(&memoryv1.NamespaceSettings{
				CreateOnExisting: memoryv1.CreateOnExisting_CREATE_ON_EXISTING_UNSPECIFIED.Enum(),
			})
		}, bad("create_on_existing")},
		{"create_on_existing that is none", func() error {
			return update(&memoryv1.NamespaceSettings{CreateOnExisting: memoryv1.CreateOnExisting(257).Enum()})
		}, bad("create_on_existing")},
		{"negative view_max_chars", func() error {
			return update(&memoryv1.NamespaceSettings{ViewMaxChars: new(int64(-1))})
		}, bad("view_max_chars")},
		{"no max_file_bytes", func() error {
			return update(&memoryv1.NamespaceSettings{MaxFileBytes: new(int64(0))})
		}, bad("max_file_bytes")},
		{"large max_file_bytes", func() error {
			return update(&memoryv1.NamespaceSettings{MaxFileBytes: new(int64(memory.MaxFileBytes + 1))})
		}, bad("max_file_bytes")},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { check(t, "error", tt.want, toldOf(t, tt.call())) })
	}
	if notes := s.recorded.take(); notes != nil {
		t.Errorf("calls that were refused are recorded: %q", notes)
	}
	resp := must(s.admin.ListNamespaces(ctx, &memoryv1.ListNamespacesRequest{}))(t)
	if len(resp.GetNamespaces()) > 0 {
		t.Errorf("calls that were refused made namespaces: %v", resp.GetNamespaces())
	}
}
