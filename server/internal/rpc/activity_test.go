package rpc

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	memoryv1 "github.com/seed-7f2870e1/memoryd/gen/memoryd/v1"
	"github.com/seed-7f2870e1/memoryd/server/internal/activity"
	"github.com/seed-7f2870e1/memoryd/server/kv"
)

// storeStats is a store that tells these numbers.
type storeStats kv.Stats

func (s storeStats) Stats() kv.Stats              { return kv.Stats(s) }
func (storeStats) ObserveCommits(func(kv.Commit)) {}

// newActive returns a service to which calls were made in the minute before now.
func newActive() (*adminService, *activity.Activity) {
	const view, create = memoryv1.MemoryService_View_FullMethodName, memoryv1.MemoryService_Create_FullMethodName
	at := now
	calls := activity.New([]string{view, create}, func() time.Time { return at })
	note := func(method, namespace string, failed bool, took time.Duration) {
		calls.Note(activity.Call{Method: method, Namespace: namespace, Failed: failed, Took: took})
	}
	for range 3 {
		note(view, "acme/many", false, time.Second)
	}
	note(view, "acme/slow", false, 10*time.Second)
	note(view, "acme/slow", false, 10*time.Second)
	note(create, "acme/broken", true, time.Second)
	note(create, "../no namespace", true, time.Second)
	calls.NoteCommit(4, 2*time.Second)
	at = at.Add(20 * time.Second)
	return &adminService{activity: ActivityOptions{
		Version: "v1.2.3",
		Calls:   calls,
		Load:    func() Load { return Load{Running: 3, MaxRunning: 1024, Connections: 2} },
		Store:   storeStats{SizeBytes: 100, FreeBytes: 10, Waiting: 1, Updates: 5, Commits: 2},
	}}, calls
}

func TestGetActivity(t *testing.T) {
	s, _ := newActive()
	got, err := s.GetActivity(t.Context(), &memoryv1.GetActivityRequest{})
	if err != nil {
		t.Fatal(err)
	}
	const second = 973078528 * time.Nanosecond // as it is estimated
	latency := func(p50, p90, p99, most time.Duration) *memoryv1.Latency {
		return &memoryv1.Latency{
			P50: durationpb.New(p50), P90: durationpb.New(p90), P99: durationpb.New(p99), Max: durationpb.New(most),
		}
	}
	namespace := func(name string, calls, failed int64, took time.Duration) *memoryv1.NamespaceActivity {
		return &memoryv1.NamespaceActivity{
			Namespace: name, Calls: calls, FailedCalls: failed, TotalTime: durationpb.New(took),
		}
	}
	want := &memoryv1.GetActivityResponse{
		Version:      "v1.2.3",
		StartTime:    timestamppb.New(now),
		CurrentTime:  timestamppb.New(now.Add(20 * time.Second)),
		Window:       durationpb.New(20 * time.Second),
		RunningCalls: 3, MaxRunningCalls: 1024, Connections: 2,
		Methods: []*memoryv1.MethodActivity{{
			Method: memoryv1.MemoryService_Create_FullMethodName, Calls: 2, FailedCalls: 2, RecentCalls: 2, RecentFailedCalls: 2,
			RecentTotalTime: durationpb.New(2 * time.Second), Latency: latency(second, second, second, time.Second),
		}, {
			Method: memoryv1.MemoryService_View_FullMethodName, Calls: 5, RecentCalls: 5,
			RecentTotalTime: durationpb.New(23 * time.Second), Latency: latency(second, 10*time.Second, 10*time.Second, 10*time.Second),
		}},
		Namespaces: []*memoryv1.NamespaceActivity{
			namespace("acme/many", 3, 0, 3*time.Second),
			namespace("acme/slow", 2, 0, 20*time.Second),
			namespace("acme/broken", 1, 1, time.Second),
		},
		Store: &memoryv1.StoreActivity{
			SizeBytes: 100, FreeBytes: 10, WaitingUpdates: 1, Updates: 5, Commits: 2, RecentUpdates: 4, RecentCommits: 1,
			CommitLatency: latency(1946157056, 1946157056, 1946157056, 2*time.Second),
		},
	}
	if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestGetActivity_Busiest(t *testing.T) {
	s, calls := newActive()
	for _, tt := range []struct {
		order memoryv1.ActivityOrder
		limit int32
		want  []string
	}{
		{memoryv1.ActivityOrder_ACTIVITY_ORDER_CALLS, 2, []string{"acme/many", "acme/slow"}},
		{memoryv1.ActivityOrder_ACTIVITY_ORDER_TIME, 2, []string{"acme/slow", "acme/many"}},
		{memoryv1.ActivityOrder_ACTIVITY_ORDER_FAILED, 1, []string{"acme/broken"}},
	} {
		got, err := s.GetActivity(t.Context(), &memoryv1.GetActivityRequest{Order: tt.order, MaxNamespaces: tt.limit})
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, n := range got.GetNamespaces() {
			names = append(names, n.GetNamespace())
		}
		if diff := cmp.Diff(tt.want, names); diff != "" {
			t.Errorf("%d by %s (-want +got):\n%s", tt.limit, tt.order, diff)
		}
	}

	for i := range 200 {
		calls.Note(activity.Call{Method: memoryv1.MemoryService_View_FullMethodName, Namespace: fmt.Sprint("n", i)})
	}
	for limit, want := range map[int32]int{0: defaultBusiest, 99: 99, 101: maxBusiest} {
		got, err := s.GetActivity(t.Context(), &memoryv1.GetActivityRequest{MaxNamespaces: limit})
		if err != nil || len(got.GetNamespaces()) != want {
			t.Errorf("limit %d: got %d namespaces (%v), want %d", limit, len(got.GetNamespaces()), err, want)
		}
	}
}

func TestGetActivity_Refuses(t *testing.T) {
	s, _ := newActive()
	for field, req := range map[string]*memoryv1.GetActivityRequest{
		"max_namespaces": {MaxNamespaces: -1},
		"order":          {Order: 77},
	} {
		_, err := s.GetActivity(t.Context(), req)
		got := toldOf(t, err)
		if got.Code != codes.InvalidArgument || got.Reason != "INVALID_REQUEST" || got.Metadata["field"] != field {
			t.Errorf("%s: got %+v, want that the field is invalid", field, got)
		}
	}
}

// What is not known is left out.
func TestGetActivity_Nothing(t *testing.T) {
	got, err := (&adminService{}).GetActivity(t.Context(), &memoryv1.GetActivityRequest{})
	want := &memoryv1.GetActivityResponse{Window: durationpb.New(0)}
	if diff := cmp.Diff(want, got, protocmp.Transform()); err != nil || diff != "" {
		t.Errorf("got error %v (-want +got):\n%s", err, diff)
	}
}
