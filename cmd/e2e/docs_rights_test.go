package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/dynamicpb"

	memoryv1 "github.com/seed-7f2870e1/memoryd/gen/memoryd/v1"
)

// What a caller needs, as docs/api.md says it.
const (
	readRight       = "`read`"
	writeRight      = "`write`"
	commandsRight   = "`write`; `read` where all it does is view"
	adminRight      = "`admin`"
	anyRight        = "any on the namespace"
	noRight         = "none; it lists where the caller has one"
	overseerRight   = "`admin` on `**`"
	everywhereRight = "`admin` and `read` on `**`"
)

// rights are what a caller of each method needs, for docs/api.md. TestDocs_Rights checks them.
var rights = map[string]string{
	"MemoryService.View":           readRight,
	"MemoryService.Create":         writeRight,
	"MemoryService.StrReplace":     writeRight,
	"MemoryService.Insert":         writeRight,
	"MemoryService.Delete":         writeRight,
	"MemoryService.Rename":         writeRight,
	"MemoryService.Execute":        commandsRight,
	"MemoryService.Apply":          commandsRight,
	"FileService.Put":              writeRight,
	"FileService.Get":              readRight,
	"FileService.List":             readRight,
	"FileService.Pin":              writeRight,
	"AdminService.GetNamespace":    anyRight,
	"AdminService.UpdateNamespace": adminRight,
	"AdminService.ListNamespaces":  noRight,
	"AdminService.DeleteNamespace": adminRight,
	"AdminService.PlanExpiry":      readRight,
	"AdminService.Screen":          readRight,
	"AdminService.GetActivity":     overseerRight,
	"AdminService.Backup":          everywhereRight,
}

// granted are the callers of TestDocs_Rights, and the rights above that are enough for each of them.
var granted = []struct {
	name, grants string
	enough       []string
}{
	{"nobody", "[]", []string{noRight}},
	{"reader", "[{namespaces: [team], rights: [read]}]", []string{noRight, anyRight, readRight}},
	{"writer", "[{namespaces: [team], rights: [write]}]", []string{noRight, anyRight, readRight, writeRight}},
	{"governor", "[{namespaces: [team], rights: [admin]}]", []string{noRight, anyRight, adminRight}},
	{
		"overseer", `[{namespaces: ["**"], rights: [admin]}]`,
		[]string{noRight, anyRight, adminRight, overseerRight},
	},
	{
		"operator", `[{namespaces: ["**"], rights: [admin, read]}]`,
		[]string{noRight, anyRight, readRight, adminRight, overseerRight, everywhereRight},
	},
}

// TestDocs_Rights calls every method with every kind of right, and checks that the documentation says who may.
func TestDocs_Rights(t *testing.T) {
	var entries strings.Builder
	tokens := map[string]string{}
	for _, g := range granted {
		token, entry := newToken(t, g.name)
		entry, _, _ = strings.Cut(entry, "    grants:")
		fmt.Fprintf(&entries, "%s    grants: %s\n", entry, g.grants)
		tokens[g.name] = token
	}
	principals := filepath.Join(t.TempDir(), "principals.yaml")
	if err := os.WriteFile(principals, []byte("principals:\n"+entries.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	d := start(t, "--principals", principals)
	conn, err := grpc.NewClient(d.target, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()

	methods := apiMethods()
	if len(methods) != len(rights) {
		t.Errorf("the API has %d methods, and rights has %d", len(methods), len(rights))
	}
	for _, method := range methods {
		right := rights[string(method.Parent().Name()+"."+method.Name())]
		for _, g := range granted {
			ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+tokens[g.name])
			try := func(input, right string) {
				t.Helper()
				code := status.Code(call(ctx, conn, method, input))
				permitted := code != codes.PermissionDenied && code != codes.Unauthenticated
				if want := slices.Contains(g.enough, right); permitted != want {
					t.Errorf("%s %s: %s gets %s, but it takes: %s", method.FullName(), input, g.name, code, right)
				}
			}
			if right != commandsRight {
				try("", right)
				continue
			}
			try(`{"command":"view","path":"/memories"}`, readRight)
			try(`{"command":"delete","path":"/memories/none"}`, writeRight)
		}
	}
}

// apiMethods returns all methods of memoryd.v1.
func apiMethods() []protoreflect.MethodDescriptor {
	var methods []protoreflect.MethodDescriptor
	protoregistry.GlobalFiles.RangeFilesByPackage(
		memoryv1.File_memoryd_v1_memory_proto.Package(), func(f protoreflect.FileDescriptor) bool {
			for i := range f.Services().Len() {
				for j := range f.Services().Get(i).Methods().Len() {
					methods = append(methods, f.Services().Get(i).Methods().Get(j))
				}
			}
			return true
		})
	return methods
}

// call calls a method about the namespace team; input is the command of those that take one.
func call(ctx context.Context, conn *grpc.ClientConn, method protoreflect.MethodDescriptor, input string) error {
	request := dynamicpb.NewMessage(method.Input())
	fields := request.Descriptor().Fields()
	switch method.Name() {
	case "Put":
		header := request.Mutable(fields.ByName("header")).Message()
		header.Set(header.Descriptor().Fields().ByName("namespace"), protoreflect.ValueOfString("team"))
	case "Apply":
		commands := request.Mutable(fields.ByName("commands")).List()
		command := commands.AppendMutable().Message()
		command.Set(command.Descriptor().Fields().ByName("input"), protoreflect.ValueOfString(input))
	case "Execute":
		request.Set(fields.ByName("input"), protoreflect.ValueOfString(input))
	}
	if field := fields.ByName("namespace"); field != nil {
		request.Set(field, protoreflect.ValueOfString("team"))
	}
	name := fmt.Sprintf("/%s/%s", method.Parent().FullName(), method.Name())
	response := dynamicpb.NewMessage(method.Output())
	if !method.IsStreamingClient() && !method.IsStreamingServer() {
		return conn.Invoke(ctx, name, request, response)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, name)
	if err != nil {
		return err
	}
	if err := stream.SendMsg(proto.Message(request)); err != nil {
		return err
	}
	if err := stream.CloseSend(); err != nil {
		return err
	}
	return stream.RecvMsg(response)
}
