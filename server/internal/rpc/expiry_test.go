package rpc

import (
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	memoryv1 "github.com/seed-7f2870e1/memoryd/gen/memoryd/v1"
)

func (s service) create(t *testing.T, path string) {
	t.Helper()
	resp, err := s.memory.Create(t.Context(), &memoryv1.CreateRequest{Namespace: "n", Path: path, FileText: "text"})
	if err != nil || resp.GetResult().GetIsError() {
		t.Fatal(resp, err)
	}
}

func TestPin(t *testing.T) {
	s := newService(t)
	s.create(t, "/memories/f")
	s.recorded.take()
	pin := func(req *memoryv1.PinRequest) *memoryv1.PinResponse {
		t.Helper()
		req.Namespace = "n"
		resp, err := s.files.Pin(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		return resp
	}
	first := pin(&memoryv1.PinRequest{Path: "/memories/f", RequestId: "id"})
	if !first.GetEntry().GetPinned() || first.GetRevision() != 2 || len(first.GetResult().GetContent()) != 0 {
		t.Errorf("pin: got %v", first)
	}
	unpinned := pin(&memoryv1.PinRequest{Path: "/memories/f", Unpin: true})
	if unpinned.GetEntry().GetPinned() || unpinned.GetRevision() != 3 {
		t.Errorf("unpin: got %v", unpinned)
	}
	check(t, "pin repeated", first, pin(&memoryv1.PinRequest{Path: "/memories/f", RequestId: "id"}))
	check(t, "missing", &memoryv1.PinResponse{Result: failed(memoryv1.Reason_REASON_VIEW_PATH_NOT_FOUND,
		"The path /memories/g does not exist. Please provide a valid path.")}, pin(&memoryv1.PinRequest{Path: "/memories/g"}))
	check(t, "recorded", []string{"pin ok", "pin ok", "pin ok", "pin view_path_not_found"}, s.recorded.take())

	_, err := s.files.Pin(t.Context(), &memoryv1.PinRequest{Namespace: "n", Path: "/memories"})
	if st := status.Convert(err); st.Code() != codes.InvalidArgument || st.Message() != "path is a directory; only files are pinned" {
		t.Errorf("directory: got %v", err)
	}
}

func TestPlanExpiry(t *testing.T) {
	s := newService(t)
	s.create(t, "/memories/a")
	s.create(t, "/memories/b")
	s.create(t, "/memories/c")
	if _, err := s.memory.View(t.Context(), &memoryv1.ViewRequest{Namespace: "n", Path: "/memories/b"}); err != nil {
		t.Fatal(err)
	}
	plan := func(req *memoryv1.PlanExpiryRequest) *memoryv1.PlanExpiryResponse {
		t.Helper()
		req.Namespace = "n"
		resp, err := s.admin.PlanExpiry(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		return resp
	}
	check(t, "off", &memoryv1.PlanExpiryResponse{}, plan(&memoryv1.PlanExpiryRequest{}))
	day := durationpb.New(24 * time.Hour)
	later := timestamppb.New(now.Add(26 * time.Hour))
	first := plan(&memoryv1.PlanExpiryRequest{ExpireUnreadAfter: day, ExpireBefore: later, PageSize: 2})
	want := []*memoryv1.ExpiringFile{
		{Entry: first.GetFiles()[0].GetEntry(), ExpireTime: timestamppb.New(now.Add(24 * time.Hour))},
		{
			Entry: first.GetFiles()[1].GetEntry(), ViewedTime: timestamppb.New(now),
			ExpireTime: timestamppb.New(now.Add(25 * time.Hour)),
		},
	}
	check(t, "first page", want, first.GetFiles())
	if got := first.GetFiles()[1].GetEntry(); got.GetPath() != "/memories/b" || got.GetSizeBytes() != 4 {
		t.Errorf("got entry %v", got)
	}
	second := plan(&memoryv1.PlanExpiryRequest{
		ExpireUnreadAfter: day, ExpireBefore: later, PageSize: 2, PageToken: first.GetNextPageToken(),
	})
	if len(second.GetFiles()) != 1 || second.GetNextPageToken() != "" {
		t.Errorf("second page: got %v", second)
	}

	for _, test := range []struct {
		field string
		req   *memoryv1.PlanExpiryRequest
	}{
		{"namespace", &memoryv1.PlanExpiryRequest{Namespace: "N"}},
		{"expire_unread_after", &memoryv1.PlanExpiryRequest{Namespace: "n", ExpireUnreadAfter: durationpb.New(time.Minute)}},
		{"expire_unread_after", &memoryv1.PlanExpiryRequest{
			Namespace: "n", ExpireUnreadAfter: &durationpb.Duration{Seconds: 1 << 40},
		}},
		{"expire_before", &memoryv1.PlanExpiryRequest{Namespace: "n", ExpireBefore: &timestamppb.Timestamp{Nanos: -1}}},
		{"page_size", &memoryv1.PlanExpiryRequest{Namespace: "n", PageSize: -1}},
		{"page_token", &memoryv1.PlanExpiryRequest{Namespace: "n", PageToken: "?"}},
		{"page_token", &memoryv1.PlanExpiryRequest{Namespace: "n", PageToken: encodePageToken("f")}},
	} {
		_, err := s.admin.PlanExpiry(t.Context(), test.req)
		if got := toldOf(t, err); got.Code != codes.InvalidArgument || got.Metadata[MetadataField] != test.field {
			t.Errorf("%v: got %+v, want the field %s", test.req, got, test.field)
		}
	}
}

// TestTooManyCalls checks that every method answers the limit as its result, and that administration does not count.
func TestTooManyCalls(t *testing.T) {
	s := newService(t)
	s.create(t, "/memories/f")
	for range 3 {
		_, err := s.admin.UpdateNamespace(t.Context(), &memoryv1.UpdateNamespaceRequest{
			Namespace: "n", Settings: &memoryv1.NamespaceSettings{CallsPerSecond: new(int64(1))},
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	s.create(t, "/memories/g") // The clock stands still: this was the only one.
	s.recorded.take()
	want := failed(memoryv1.Reason_REASON_TOO_MANY_CALLS, "Error: Too many memory calls. Wait 1 seconds and try again.")

	view, err := s.memory.View(t.Context(), &memoryv1.ViewRequest{Namespace: "n", Path: "/memories"})
	check(t, "view", want, view.GetResult())
	execute, executeErr := s.memory.Execute(t.Context(), &memoryv1.ExecuteRequest{
		Namespace: "n", Input: `{"command":"view","path":"/memories"}`,
	})
	check(t, "execute", want, execute.GetResult())
	apply, applyErr := s.memory.Apply(t.Context(), &memoryv1.ApplyRequest{
		Namespace: "n", Commands: []*memoryv1.ApplyCommand{{Input: `{"command":"view","path":"/memories"}`}},
	})
	check(t, "apply", &memoryv1.ApplyResponse{Result: want}, apply)
	list, listErr := s.files.List(t.Context(), &memoryv1.ListRequest{Namespace: "n", Path: "/memories"})
	check(t, "list", want, list.GetResult())
	pin, pinErr := s.files.Pin(t.Context(), &memoryv1.PinRequest{Namespace: "n", Path: "/memories/f"})
	check(t, "pin", want, pin.GetResult())
	for _, err := range []error{err, executeErr, applyErr, listErr, pinErr} {
		if err != nil {
			t.Error(err)
		}
	}
	get, err := s.files.Get(t.Context(), &memoryv1.GetRequest{Namespace: "n", Path: "/memories/f"})
	if err != nil {
		t.Fatal(err)
	}
	header, err := get.Recv()
	if err != nil {
		t.Fatal(err)
	}
	check(t, "get", want, header.GetHeader().GetResult())
	put, err := s.files.Put(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	part := &memoryv1.PutRequest_Header{Header: &memoryv1.PutHeader{Namespace: "n", Path: "/memories/f"}}
	if err := put.Send(&memoryv1.PutRequest{Part: part}); err != nil {
		t.Fatal(err)
	}
	stored, err := put.CloseAndRecv()
	if err != nil {
		t.Fatal(err)
	}
	check(t, "put", want, stored.GetResult())
	const refused = " too_many_calls"
	check(t, "recorded", []string{
		"view" + refused, "view" + refused, "apply" + refused, "list" + refused, "pin" + refused, "get" + refused,
		"put" + refused,
	}, s.recorded.take())
}
