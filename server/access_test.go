package server

import (
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	memoryv1 "github.com/seed-7f2870e1/memoryd/gen/memoryd/v1"
	"github.com/seed-7f2870e1/memoryd/server/internal/audit"
	"github.com/seed-7f2870e1/memoryd/server/internal/auth"
	"github.com/seed-7f2870e1/memoryd/server/internal/rpc"
	"github.com/seed-7f2870e1/memoryd/server/memory"
)

// hashOf is a token as a file of principals has it.
func hashOf(token string) string { return fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(token))) }

func parsePolicy(t testing.TB, file string) *auth.Policy {
	t.Helper()
	policy, err := auth.ParsePolicy([]byte(file))
	if err != nil {
		t.Fatal(err)
	}
	return policy
}

// TestAccess_EveryMethod fails where a method is served that nothing is declared for.
func TestAccess_EveryMethod(t *testing.T) {
	s := start(t, Config{Channelz: true})
	served := map[string]bool{}
	for service, info := range s.grpc.GetServiceInfo() {
		for _, m := range info.Methods {
			method := "/" + service + "/" + m.Name
			served[method] = true
			if accessTo(method).need == needMore {
				t.Errorf("%s: nothing is declared that it needs", method)
			}
			if _, ok := methods[method]; isOwnService(service) && !ok {
				t.Errorf("%s: it is declared for its service only", method)
			}
		}
	}
	for method := range methods {
		if !served[method] {
			t.Errorf("%s is declared and not served", method)
		}
	}
	for _, method := range []string{"/memoryd.v1.MemoryService/Forget", "/memoryd.v1.New/View", "", "/", "View"} {
		if err := accessTo(method).check(auth.Everyone(), "n", nil); err == nil {
			t.Errorf("%q: got no error, want that a method without a declaration is refused", method)
		}
	}
}

// TestAccess_FitsRequests fails where a request about a namespace is not checked by it, or the other way round.
func TestAccess_FitsRequests(t *testing.T) {
	for name, access := range methods {
		method := strings.ReplaceAll(strings.TrimPrefix(name, "/"), "/", ".")
		d, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(method))
		if err != nil {
			t.Fatal(err)
		}
		input := d.(protoreflect.MethodDescriptor).Input()
		if header := input.Fields().ByName("header"); header != nil {
			input = header.Message()
		}
		has := func(field protoreflect.Name) bool { return input.Fields().ByName(field) != nil }
		if has("namespace") != access.namespaced() {
			t.Errorf("%s: its request has a namespace: %t, it is checked by one: %t", name, has("namespace"), access.namespaced())
		}
		if changes := has("request_id"); changes && !access.audited && !access.viewing {
			t.Errorf("%s: it changes something and is not audited", name)
		} else if changes && access.right != auth.Write && access.right != auth.Admin {
			t.Errorf("%s: it changes something and needs %s", name, access.right)
		}
	}
}

// FuzzAccess holds the decision for a method, a namespace and the grants of a principal against a model of it.
func FuzzAccess(f *testing.F) {
	patterns := []string{"a", "a/**", "a/*", "*", "**", "ab", "a-*", "*/b", "a/*/c", "a/b/**", "a*b"}
	rights := []string{"read", "write", "history", "admin"}
	names := slices.Sorted(maps.Keys(methods))
	f.Add(uint8(0), uint8(0), uint8(0), uint8(1), uint8(3), "a")
	f.Add(uint8(1), uint8(1), uint8(1), uint8(4), uint8(2), "a/b")
	f.Add(uint8(2), uint8(2), uint8(9), uint8(0), uint8(0), "a/b/c")
	f.Add(uint8(3), uint8(3), uint8(8), uint8(10), uint8(1), "axb")
	f.Fuzz(func(t *testing.T, method, pattern1, right1, pattern2, right2 uint8, namespace string) {
		if memory.ValidateNamespace(namespace) != nil {
			return
		}
		granted := map[string]string{ // pattern to right
			patterns[int(pattern1)%len(patterns)]: rights[int(right1)%len(rights)],
			patterns[int(pattern2)%len(patterns)]: rights[int(right2)%len(rights)],
		}
		var grants strings.Builder
		for pattern, right := range granted {
			fmt.Fprintf(&grants, "      - {namespaces: [%q], rights: [%s]}\n", pattern, right)
		}
		policy := parsePolicy(t, "principals:\n  - name: p\n    tokens: ["+hashOf("t")+"]\n    grants:\n"+grants.String())
		name := names[int(method)%len(names)]
		err := accessTo(name).check(principalOf(t, policy, "t"), namespace, &memoryv1.CreateRequest{})
		if got, want := err == nil, permitted(granted, name, namespace); got != want {
			t.Errorf("%v: %s on %q: got permitted %t (%v), want %t", granted, name, namespace, got, err, want)
		}
	})
}

// permitted is the model: what the documentation says, and nothing else.
func permitted(granted map[string]string, method, namespace string) bool {
	needs := map[string]string{
		"View": "read", "Get": "read", "List": "read", "PlanExpiry": "read", "Screen": "read",
		"UpdateNamespace": "admin", "DeleteNamespace": "admin", "GetNamespace": "any", "ListNamespaces": "none",
		"Backup": "admin and read everywhere", "GetActivity": "admin everywhere",
	}
	need := needs[method[strings.LastIndex(method, "/")+1:]]
	if need == "" {
		need = "write"
	}
	everywhere := map[string]bool{}
	for pattern, right := range granted {
		everywhere[right] = everywhere[right] || pattern == "**"
		if !matches(strings.Split(pattern, "/"), strings.Split(namespace, "/")) {
			continue
		}
		if right == need || need == "any" || need == "read" && right == "write" {
			return true
		}
	}
	switch need {
	case "admin and read everywhere":
		return everywhere["admin"] && (everywhere["read"] || everywhere["write"])
	case "admin everywhere":
		return everywhere["admin"]
	}
	return need == "none"
}

func matches(pattern, name []string) bool {
	if len(pattern) == 1 && pattern[0] == "**" {
		return len(name) > 0
	}
	if len(pattern) == 0 || len(name) == 0 {
		return len(pattern) == len(name)
	}
	return glob(pattern[0], name[0]) && matches(pattern[1:], name[1:])
}

func glob(pattern, s string) bool {
	first, rest, ok := strings.Cut(pattern, "*")
	if !ok {
		return pattern == s
	}
	if !strings.HasPrefix(s, first) {
		return false
	}
	for i := len(first); i <= len(s); i++ {
		if glob(rest, s[i:]) {
			return true
		}
	}
	return false
}

// What fails before a command is begun leaves a line in the audit trail, where it was to change something.
func TestAuthorizeUnary_AuditsFailures(t *testing.T) {
	const view = `{"command":"view","path":"/memories"}`
	const create = `{"command":"create","path":"/memories/a","file_text":"x"}`
	const remove = `{"command":"delete","path":"/memories/b"}`
	apply := func(inputs ...string) *memoryv1.ApplyRequest {
		req := &memoryv1.ApplyRequest{Namespace: "n"}
		for _, input := range inputs {
			req.Commands = append(req.Commands, &memoryv1.ApplyCommand{Input: input})
		}
		return req
	}
	execute := func(input string) *memoryv1.ExecuteRequest {
		return &memoryv1.ExecuteRequest{Namespace: "n", Input: input}
	}
	const execution, application = memoryv1.MemoryService_Execute_FullMethodName, memoryv1.MemoryService_Apply_FullMethodName
	reader := principalOf(t, parsePolicy(t, `principals: [{name: r, tokens: ["`+hashOf("r")+`"], grants: [{namespaces: ["**"], rights: [read]}]}]`), "r")
	tests := []struct {
		name   string
		by     *auth.Principal
		method string
		req    any
		err    error // of the layers within
		want   string
	}{
		{"create", auth.Everyone(), execution, execute(create), rpc.ErrOverloaded, "create /memories/a"},
		{"view", auth.Everyone(), execution, execute(view), rpc.ErrOverloaded, ""},
		{"no command", auth.Everyone(), execution, execute("x"), rpc.ErrOverloaded, ""},
		{"no failure", auth.Everyone(), execution, execute(create), nil, ""},
		{"batch", auth.Everyone(), application, apply(view, remove, create), rpc.ErrOverloaded, "delete /memories/b"},
		{"batch of views", auth.Everyone(), application, apply(view, view), rpc.ErrOverloaded, ""},
		{"denied batch", reader, application, apply(view, create, remove), nil, "create /memories/a"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			ctx, trail := audit.NewContext(auth.NewContext(t.Context(), tt.by))
			info := &grpc.UnaryServerInfo{FullMethod: tt.method}
			_, _ = authorizeUnary(ctx, tt.req, info, func(context.Context, any) (any, error) { return nil, tt.err })
			var got []string
			for _, e := range trail.Events() {
				got = append(got, e.Command+" "+e.Path)
			}
			if got := strings.Join(got, ", "); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
	// What told of itself is not told again.
	ctx, trail := audit.NewContext(auth.NewContext(t.Context(), auth.Everyone()))
	_, _ = authorizeUnary(ctx, execute(create), &grpc.UnaryServerInfo{FullMethod: execution},
		func(ctx context.Context, _ any) (any, error) {
			audit.FromContext(ctx).Add(audit.Event{Command: "create"})
			return nil, rpc.ErrOverloaded
		})
	if got := len(trail.Events()); got != 1 {
		t.Errorf("got %d events, want 1", got)
	}
}

// principalOf returns who has a token.
func principalOf(t testing.TB, policy *auth.Policy, token string) *auth.Principal {
	t.Helper()
	ctx := metadata.NewIncomingContext(t.Context(), metadata.Pairs("authorization", "Bearer "+token))
	p, err := auth.New(auth.Options{Policy: policy}).Authenticate(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return p
}
