package server

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/dynamicpb"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	memoryv1 "github.com/seed-7f2870e1/memoryd/gen/memoryd/v1"
	"github.com/seed-7f2870e1/memoryd/server/kv"
)

// principalsFile has a principal for every kind of rights.
const principalsFile = `
principals:
  - name: alice
    tokens: ["HASH(alice)"]
    grants:
      - {namespaces: [acme/alice, "acme/alice/**", shared], rights: [write]}
  - name: reader
    tokens: ["HASH(reader)"]
    grants:
      - {namespaces: [shared], rights: [read]}
  - name: keeper
    tokens: ["HASH(keeper)"]
    grants:
      - {namespaces: ["acme/*"], rights: [admin]}
  - name: operator
    tokens: ["HASH(operator)"]
    grants:
      - {namespaces: ["**"], rights: [read, write, history, admin]}
  - name: nobody
    tokens: ["HASH(nobody)"]
    grants: []
`

// writePrincipals writes a file of principals, in which HASH(token) stands for the hash of a token.
func writePrincipals(t *testing.T, text string) string {
	t.Helper()
	for {
		before, rest, ok := strings.Cut(text, "HASH(")
		if !ok {
			break
		}
		token, after, _ := strings.Cut(rest, ")")
		text = before + hashOf(token) + after
	}
	file := filepath.Join(t.TempDir(), "principals.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// as returns a context in which calls carry a token; "" is none.
func as(t *testing.T, token string) context.Context {
	if token == "" {
		return t.Context()
	}
	return metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+token)
}

// countedStore counts the transactions.
type countedStore struct {
	kv.Store
	count atomic.Int64
}

func (s *countedStore) View(ctx context.Context, scope string, fn func(kv.Reader) error) error {
	s.count.Add(1)
	return s.Store.View(ctx, scope, fn)
}

func (s *countedStore) Update(ctx context.Context, scope string, fn func(kv.Tx) error) error {
	s.count.Add(1)
	return s.Store.Update(ctx, scope, fn)
}

func (s *countedStore) Scopes(ctx context.Context, after string, limit int) ([]string, error) {
	s.count.Add(1)
	return s.Store.Scopes(ctx, after, limit)
}

// invoke calls any method of memoryd with a request about a namespace, and returns its error.
func invoke(ctx context.Context, t *testing.T, conn *grpc.ClientConn, method, namespace string) error {
	t.Helper()
	name := protoreflect.FullName(strings.ReplaceAll(strings.TrimPrefix(method, "/"), "/", "."))
	d, err := protoregistry.GlobalFiles.FindDescriptorByName(name)
	if err != nil {
		t.Fatal(err)
	}
	md := d.(protoreflect.MethodDescriptor)
	req := dynamicpb.NewMessage(md.Input())
	inner := protoreflect.Message(req)
	if header := md.Input().Fields().ByName("header"); header != nil {
		inner = req.Mutable(header).Message()
	}
	set := func(field protoreflect.Name, value string) {
		if f := inner.Descriptor().Fields().ByName(field); f != nil {
			inner.Set(f, protoreflect.ValueOfString(value))
		}
	}
	set("namespace", namespace)
	set("path", "/memories/secret-plans.md")
	set("old_path", "/memories/secret-plans.md")
	set("new_path", "/memories/stolen.md")
	set("input", `{"command":"view","path":"/memories/secret-plans.md"}`)
	if f := inner.Descriptor().Fields().ByName("commands"); f != nil {
		command := inner.Mutable(f).List().AppendMutable().Message()
		command.Set(command.Descriptor().Fields().ByName("input"),
			protoreflect.ValueOfString(`{"command":"delete","path":"/memories/secret-plans.md"}`))
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, method)
	if err != nil {
		return err
	}
	if err := stream.SendMsg(req); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if err := stream.CloseSend(); err != nil {
		return err
	}
	for {
		if err := stream.RecvMsg(dynamicpb.NewMessage(md.Output())); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
	}
}

// plant writes a file to a namespace as the operator.
func plant(t *testing.T, s *running, namespace string) {
	t.Helper()
	_, err := memoryv1.NewMemoryServiceClient(s.conn).Create(as(t, "operator"), &memoryv1.CreateRequest{
		Namespace: namespace, Path: "/memories/secret-plans.md", FileText: "x", RequestId: "plan",
	})
	if err != nil {
		t.Fatal(err)
	}
}

// What a caller may not use is refused with one answer, which does not depend on what exists, and without a look at
// the store, so that the time that it takes cannot depend on it either.
func TestPermission_NothingTellsWhatExists(t *testing.T) {
	store := &countedStore{Store: newStore(t)}
	s := start(t, Config{Store: store, Principals: writePrincipals(t, principalsFile)})
	existing := []string{"acme/bob", "acme", "acme/alicebis", "acme/ali", "bob", "acme/bob/alice"}
	for _, namespace := range existing {
		plant(t, s, namespace)
	}
	missing := []string{"acme/bobby", "acm", "acme/aliceb", "acme/al", "bo", "acme/bob/carol"}
	var first *status.Status
	for method, access := range methods {
		if !access.namespaced() {
			continue
		}
		for _, token := range []string{"alice", "reader", "nobody"} {
			for _, namespace := range slices.Concat(existing, missing) {
				before := store.count.Load()
				st := status.Convert(invoke(as(t, token), t, s.conn, method, namespace))
				if got := store.count.Load() - before; got != 0 {
					t.Errorf("%s by %s on %s: got %d transactions, want none", method, token, namespace, got)
				}
				if first == nil {
					first = st
					wantStatus(t, st.Err(), codes.PermissionDenied, "NOT_PERMITTED")
				}
				if diff := cmp.Diff(withoutRequestID(t, first), withoutRequestID(t, st), protocmp.Transform()); diff != "" {
					t.Errorf("%s by %s on %s: differs from the first refusal (-first +this):\n%s", method, token, namespace, diff)
				}
			}
		}
	}
}

func TestPermission_Methods(t *testing.T) {
	s := start(t, Config{Principals: writePrincipals(t, principalsFile)})
	plant(t, s, "shared")
	plant(t, s, "acme/team")
	// What each may do, and where; everything else is refused. Execute views here, and Apply deletes.
	permitted := map[string][]string{
		"reader shared":      {"View", "Get", "List", "Execute", "GetNamespace", "PlanExpiry", "Screen"},
		"alice shared":       {"*", "-UpdateNamespace", "-DeleteNamespace"},
		"keeper acme/team":   {"GetNamespace", "UpdateNamespace", "DeleteNamespace"},
		"operator acme/team": {"*"},
	}
	for who, allowed := range permitted {
		token, namespace, _ := strings.Cut(who, " ")
		for method, access := range methods {
			if !access.namespaced() {
				continue
			}
			name := method[strings.LastIndex(method, "/")+1:]
			want := slices.Contains(allowed, name) ||
				slices.Contains(allowed, "*") && !slices.Contains(allowed, "-"+name)
			code := status.Code(invoke(as(t, token), t, s.conn, method, namespace))
			if refused := code == codes.PermissionDenied; refused == want {
				t.Errorf("%s of %s: got code %v, want it permitted: %t", name, who, code, want)
			}
		}
	}
}

func TestPermission_ReadOnly(t *testing.T) {
	s := start(t, Config{Principals: writePrincipals(t, principalsFile)})
	plant(t, s, "shared")
	c := memoryv1.NewMemoryServiceClient(s.conn)
	for _, input := range []string{
		`{"command":"delete","path":"/memories/secret-plans.md"}`, `{"command":"create","path":"/memories/a","file_text":""}`,
	} {
		_, err := c.Execute(as(t, "reader"), &memoryv1.ExecuteRequest{Namespace: "shared", Input: input})
		wantStatus(t, err, codes.PermissionDenied, "NAMESPACE_READ_ONLY")
	}
	// What is no command changes nothing, and its result tells the model what is wrong.
	resp, err := c.Execute(as(t, "reader"), &memoryv1.ExecuteRequest{Namespace: "shared", Input: `{"command":"forget"}`})
	if err != nil || resp.GetResult().GetReason() != memoryv1.Reason_REASON_UNKNOWN_COMMAND {
		t.Errorf("got %v, %v; want the result of an unknown command", resp, err)
	}
	views := []*memoryv1.ApplyCommand{{Input: `{"command":"view","path":"/memories"}`}}
	if _, err := c.Apply(as(t, "reader"), &memoryv1.ApplyRequest{Namespace: "shared", Commands: views}); err != nil {
		t.Errorf("a batch that only views: %v", err)
	}
	mixed := append(views, &memoryv1.ApplyCommand{Input: `{"command":"delete","path":"/memories/secret-plans.md"}`})
	_, err = c.Apply(as(t, "reader"), &memoryv1.ApplyRequest{Namespace: "shared", Commands: mixed})
	wantStatus(t, err, codes.PermissionDenied, "NAMESPACE_READ_ONLY")
}

// A request id of another namespace is unknown, whoever used it.
func TestPermission_RequestIDsStayApart(t *testing.T) {
	s := start(t, Config{Principals: writePrincipals(t, principalsFile)})
	plant(t, s, "acme/bob") // under the request id "plan"
	resp, err := memoryv1.NewMemoryServiceClient(s.conn).Create(as(t, "alice"), &memoryv1.CreateRequest{
		Namespace: "acme/alice", Path: "/memories/own.md", FileText: "own", RequestId: "plan",
	})
	if err != nil || resp.GetEntry().GetPath() != "/memories/own.md" || resp.GetRevision() != 1 {
		t.Errorf("got %v, %v; want a file of its own", resp, err)
	}
}

func TestPermission_Listing(t *testing.T) {
	s := start(t, Config{Principals: writePrincipals(t, principalsFile)})
	for _, namespace := range []string{"acme", "acme/alice", "acme/alice/a", "acme/alicebis", "acme/bob", "shared", "zed"} {
		plant(t, s, namespace)
	}
	for token, want := range map[string][]string{
		"alice":    {"acme/alice", "acme/alice/a", "shared"},
		"reader":   {"shared"},
		"keeper":   {"acme/alice", "acme/alicebis", "acme/bob"},
		"nobody":   nil,
		"operator": {"acme", "acme/alice", "acme/alice/a", "acme/alicebis", "acme/bob", "shared", "zed"},
	} {
		var got []string
		page := &memoryv1.ListNamespacesResponse{}
		for first := true; first || page.GetNextPageToken() != ""; first = false {
			var err error
			page, err = memoryv1.NewAdminServiceClient(s.conn).ListNamespaces(as(t, token), &memoryv1.ListNamespacesRequest{
				PageSize: 1, PageToken: page.GetNextPageToken(),
			})
			if err != nil {
				t.Fatal(err)
			}
			for _, ns := range page.GetNamespaces() {
				got = append(got, ns.GetName())
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", token, diff)
		}
	}
}

func TestPermission_WithoutCredential(t *testing.T) {
	s := start(t, Config{Principals: writePrincipals(t, principalsFile)})
	var first *status.Status
	refused := func(method, token string) {
		st := status.Convert(invoke(as(t, token), t, s.conn, method, "shared"))
		if first == nil {
			first = st
			wantStatus(t, st.Err(), codes.Unauthenticated, "UNAUTHENTICATED")
		}
		if !equalButForID(t, first, st) {
			t.Errorf("%s with token %.10q: got %v, want what the first failure got: %v", method, token, st, first)
		}
	}
	for method := range methods {
		refused(method, "")
	}
	for _, token := range []string{"wrong", "alice2", "alic", "ALICE", strings.Repeat("x", 9000)} {
		refused(memoryv1.MemoryService_View_FullMethodName, token)
	}
	if _, err := healthpb.NewHealthClient(s.conn).Check(t.Context(), &healthpb.HealthCheckRequest{}); err != nil {
		t.Errorf("a health check: %v", err)
	}
	for token, want := range map[string]codes.Code{"": codes.Unauthenticated, "nobody": codes.OK} {
		stream, err := reflectionpb.NewServerReflectionClient(s.conn).ServerReflectionInfo(as(t, token))
		if err != nil {
			t.Fatal(err)
		}
		_ = stream.Send(&reflectionpb.ServerReflectionRequest{
			MessageRequest: &reflectionpb.ServerReflectionRequest_ListServices{},
		})
		if _, err := stream.Recv(); status.Code(err) != want {
			t.Errorf("reflection with token %q: got %v, want code %v", token, err, want)
		}
		_ = stream.CloseSend()
	}
}

// The names that could mean something else to somebody else are refused by the grammar, whoever sends them.
func TestPermission_NamespaceGrammar(t *testing.T) {
	s := start(t, Config{Principals: writePrincipals(t, principalsFile)})
	for method, access := range methods {
		if !access.namespaced() {
			continue
		}
		for _, namespace := range []string{
			"", " ", "../bob", "a%2Fb", "a/../b", "a//b", "/a", "a/", ".a", "a/.b", "A", "a\x00b", "a\\b", "a b", "ä", "*", "a/**",
			strings.Repeat("a", 201), strings.Repeat("a/", 5000) + "a",
		} {
			for _, token := range []string{"operator", "nobody"} {
				err := invoke(as(t, token), t, s.conn, method, namespace)
				wantStatus(t, err, codes.InvalidArgument, "INVALID_NAMESPACE")
				if !strings.Contains(status.Convert(err).Message(), "segments of a-z, 0-9") {
					t.Errorf("%s on %.20q: got %v, want the rule", method, namespace, err)
				}
			}
		}
	}
}

func TestAudit(t *testing.T) {
	file := filepath.Join(t.TempDir(), "audit.jsonl")
	s := start(t, Config{Principals: writePrincipals(t, principalsFile), AuditLog: file})
	c, admin := memoryv1.NewMemoryServiceClient(s.conn), memoryv1.NewAdminServiceClient(s.conn)
	execute := func(token, input string) {
		_, _ = c.Execute(as(t, token), &memoryv1.ExecuteRequest{
			Namespace: "shared", Session: "run-1", RequestId: "id-" + input[:20], Input: input,
		})
	}
	const text = "what nobody but the memory may have"
	execute("alice", `{"command":"create","path":"/memories/a","file_text":"`+text+`"}`)
	execute("alice", `{"command":"view","path":"/memories/a"}`)
	execute("alice", `{"command":"str_replace","path":"/memories/a","old_str":"`+text+`?","new_str":"x"}`)
	execute("alice", `{"command":"rename","old_path":"/memories/a","new_path":"/memories/b"}`)
	execute("reader", `{"command":"delete","path":"/memories/b"}`)
	execute("nobody", `{"command":"view","path":"/memories/b"}`)
	execute("wrong", `{"command":"view","path":"/memories/b"}`)
	_, _ = c.Apply(as(t, "alice"), &memoryv1.ApplyRequest{Namespace: "shared", Commands: []*memoryv1.ApplyCommand{
		{Input: `{"command":"view","path":"/memories"}`},
		{Input: `{"command":"insert","path":"/memories/b","insert_line":0,"insert_text":"` + text + `"}`},
		{Input: `{"command":"delete","path":"/memories/b"}`},
	}})
	for _, token := range []string{"alice", "operator"} {
		_, _ = admin.UpdateNamespace(as(t, token), &memoryv1.UpdateNamespaceRequest{
			Namespace: "shared", Settings: &memoryv1.NamespaceSettings{MaxFiles: new(int64(2))},
			UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"secrets", "max_files"}},
		})
	}
	_, _ = admin.UpdateNamespace(as(t, "operator"), &memoryv1.UpdateNamespaceRequest{
		Namespace: "shared", Settings: &memoryv1.NamespaceSettings{MaxFiles: new(int64(-1))},
	})
	_, _ = admin.DeleteNamespace(as(t, "alice"), &memoryv1.DeleteNamespaceRequest{Namespace: "shared"})
	_, _ = admin.DeleteNamespace(as(t, "operator"), &memoryv1.DeleteNamespaceRequest{Namespace: "shared", Session: "ops"})
	_, _ = admin.DeleteNamespace(as(t, "operator"), &memoryv1.DeleteNamespaceRequest{Namespace: "shared"})
	if err := s.stop(); err != nil {
		t.Fatal(err)
	}

	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(data), text) || strings.Contains(string(data), "wrong") {
		t.Errorf("the trail has contents or tokens:\n%s", data)
	}
	var got []map[string]any
	for line := range strings.Lines(string(data)) {
		var event map[string]any
		if err := json.Unmarshal([]byte(line), &event); err != nil {
			t.Fatal(err)
		}
		for _, key := range []string{"time", "peer", "x_request_id"} {
			if event[key] == "" || event[key] == nil {
				t.Errorf("no %s: %s", key, line)
			}
			delete(event, key)
		}
		// The hash of a token, since the tokens have the names of the principals.
		name, _ := event["principal"].(string)
		if hash, want := event["credential"], "token "+hashOf(name)[:len("sha256:")+12]; name != "" && hash != want {
			t.Errorf("got the credential %v, want %s: %s", hash, want, line)
		}
		delete(event, "credential")
		got = append(got, event)
	}
	const execution = "/memoryd.v1.MemoryService/Execute"
	shared := func(event map[string]any) map[string]any {
		event["namespace"] = "shared"
		return event
	}
	ran := func(event map[string]any) map[string]any {
		event["method"], event["session"] = execution, "run-1"
		event["request_id"] = "id-" + map[string]string{
			"create": `{"command":"create",`, "str_replace": `{"command":"str_repl`, "rename": `{"command":"rename",`,
			"delete": `{"command":"delete",`, "view": `{"command":"view","p`,
		}[event["command"].(string)]
		return shared(event)
	}
	want := []map[string]any{
		ran(map[string]any{"principal": "alice", "command": "create", "path": "/memories/a", "outcome": "ok", "revision": 1.0}),
		ran(map[string]any{
			"principal": "alice", "command": "str_replace", "path": "/memories/a", "outcome": "str_replace_no_match",
		}),
		ran(map[string]any{
			"principal": "alice", "command": "rename", "path": "/memories/a", "new_path": "/memories/b",
			"outcome": "ok", "revision": 2.0,
		}),
		ran(map[string]any{"principal": "reader", "command": "delete", "path": "/memories/b", "outcome": "PERMISSION_DENIED"}),
		ran(map[string]any{"principal": "nobody", "command": "view", "path": "/memories/b", "outcome": "PERMISSION_DENIED"}),
		{"principal": "", "method": execution, "outcome": "UNAUTHENTICATED"},
		shared(map[string]any{
			"principal": "alice", "method": "/memoryd.v1.MemoryService/Apply", "command": "insert", "path": "/memories/b",
			"outcome": "ok", "revision": 3.0,
		}),
		shared(map[string]any{
			"principal": "alice", "method": "/memoryd.v1.MemoryService/Apply", "command": "delete", "path": "/memories/b",
			"outcome": "ok", "revision": 4.0,
		}),
		shared(map[string]any{
			"principal": "alice", "method": "/memoryd.v1.AdminService/UpdateNamespace", "outcome": "PERMISSION_DENIED",
			"settings": map[string]any{"secrets": "default", "max_files": "2"},
		}),
		shared(map[string]any{
			"principal": "operator", "method": "/memoryd.v1.AdminService/UpdateNamespace", "outcome": "ok", "revision": 5.0,
			"settings": map[string]any{"secrets": "default", "max_files": "2"},
		}),
		shared(map[string]any{
			"principal": "operator", "method": "/memoryd.v1.AdminService/UpdateNamespace", "outcome": "INVALID_ARGUMENT",
			"settings": map[string]any{"max_files": "-1"},
		}),
		shared(map[string]any{
			"principal": "alice", "method": "/memoryd.v1.AdminService/DeleteNamespace", "outcome": "PERMISSION_DENIED",
		}),
		shared(map[string]any{
			"principal": "operator", "method": "/memoryd.v1.AdminService/DeleteNamespace", "outcome": "ok", "session": "ops",
		}),
		shared(map[string]any{
			"principal": "operator", "method": "/memoryd.v1.AdminService/DeleteNamespace", "outcome": "NOT_FOUND",
		}),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
