package server

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/testing/protocmp"

	memoryv1 "github.com/seed-7f2870e1/memoryd/gen/memoryd/v1"
)

// callCounts are the calls of a method or namespace, and how many of them failed.
type callCounts struct{ Calls, Failed int64 }

// GetActivity tells of the calls of all, whatever became of them, and only to whoever may administer everything.
func TestActivity(t *testing.T) {
	s := start(t, Config{Data: t.TempDir(), Principals: writePrincipals(t, principalsFile)})
	memories, admin := memoryv1.NewMemoryServiceClient(s.conn), memoryv1.NewAdminServiceClient(s.conn)
	plant(t, s, "shared")
	view := func(token, namespace, path string) error {
		_, err := memories.View(as(t, token), &memoryv1.ViewRequest{Namespace: namespace, Path: path})
		return err
	}
	for _, path := range []string{"/memories", "/memories/secret-plans.md", "/memories/none"} { // the last is an error result
		if err := view("reader", "shared", path); err != nil {
			t.Fatal(err)
		}
	}
	wantStatus(t, view("reader", "acme/bob", "/memories"), codes.PermissionDenied, "NOT_PERMITTED")
	wantStatus(t, view("reader", "../bob", "/memories"), codes.InvalidArgument, "INVALID_NAMESPACE")
	wantStatus(t, view("wrong", "acme/eve", "/memories"), codes.Unauthenticated, "UNAUTHENTICATED")

	for _, token := range []string{"alice", "keeper", "nobody"} {
		_, err := admin.GetActivity(as(t, token), &memoryv1.GetActivityRequest{})
		wantStatus(t, err, codes.PermissionDenied, "NOT_PERMITTED")
	}
	resp, err := admin.GetActivity(as(t, "operator"), &memoryv1.GetActivityRequest{})
	if err != nil {
		t.Fatal(err)
	}
	methods, namespaces := map[string]callCounts{}, map[string]callCounts{}
	for _, m := range resp.GetMethods() {
		methods[m.GetMethod()] = callCounts{m.GetCalls(), m.GetFailedCalls()}
		if m.GetRecentCalls() != m.GetCalls() || m.GetLatency().GetMax().AsDuration() <= 0 {
			t.Errorf("got %v, want that the calls are recent and took their time", m)
		}
	}
	for _, n := range resp.GetNamespaces() {
		namespaces[n.GetNamespace()] = callCounts{n.GetCalls(), n.GetFailedCalls()}
	}
	wantMethods := map[string]callCounts{
		memoryv1.MemoryService_Create_FullMethodName:     {1, 0},
		memoryv1.MemoryService_View_FullMethodName:       {6, 4},
		memoryv1.AdminService_GetActivity_FullMethodName: {3, 3},
	}
	if diff := cmp.Diff(wantMethods, methods); diff != "" {
		t.Errorf("methods (-want +got):\n%s", diff)
	}
	// Nothing is read of the request of a stranger.
	if diff := cmp.Diff(map[string]callCounts{"shared": {4, 1}, "acme/bob": {1, 1}}, namespaces); diff != "" {
		t.Errorf("namespaces (-want +got):\n%s", diff)
	}
	if got := resp.GetConnections(); got != 1 {
		t.Errorf("got %d connections, want that of the test", got)
	}
	if resp.GetRunningCalls() != 0 || resp.GetMaxRunningCalls() != DefaultMaxConcurrentCalls {
		t.Errorf("got %d of %d calls running, want none of %d", resp.GetRunningCalls(), resp.GetMaxRunningCalls(),
			DefaultMaxConcurrentCalls)
	}
	store := resp.GetStore()
	if store.GetSizeBytes() == 0 || store.GetUpdates() == 0 || store.GetRecentCommits() == 0 ||
		store.GetCommitLatency().GetP50().AsDuration() <= 0 {
		t.Errorf("got %v, want the numbers of a store that was written to", store)
	}
	if resp.GetVersion() != Version() {
		t.Errorf("got version %q, want %q", resp.GetVersion(), Version())
	}
}

// Where all slots are taken, it still tells what has taken them.
func TestActivity_Overloaded(t *testing.T) {
	s := start(t, Config{MaxConcurrentCalls: 1})
	if _, err := s.limits.acquire(t.Context()); err != nil {
		t.Fatal(err)
	}
	_, err := memoryv1.NewMemoryServiceClient(s.conn).View(t.Context(), &memoryv1.ViewRequest{
		Namespace: "n", Path: "/memories",
	})
	wantOverloaded(t, err)
	resp, err := memoryv1.NewAdminServiceClient(s.conn).GetActivity(t.Context(), &memoryv1.GetActivityRequest{})
	if err != nil || resp.GetRunningCalls() != 1 {
		t.Errorf("got %d running calls, %v; want the one that runs", resp.GetRunningCalls(), err)
	}
}

// A store that tells nothing is left out.
func TestActivity_StoreWithoutNumbers(t *testing.T) {
	s := start(t, Config{})
	resp, err := memoryv1.NewAdminServiceClient(s.conn).GetActivity(t.Context(), &memoryv1.GetActivityRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff((*memoryv1.StoreActivity)(nil), resp.GetStore(), protocmp.Transform()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
