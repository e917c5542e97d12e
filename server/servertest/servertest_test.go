package servertest_test

import (
	"encoding/json"
	"testing"

	"go.uber.org/goleak"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	memoryv1 "github.com/seed-7f2870e1/memoryd/gen/memoryd/v1"
	"github.com/seed-7f2870e1/memoryd/server/kv/memkv"
	"github.com/seed-7f2870e1/memoryd/server/memory"
	"github.com/seed-7f2870e1/memoryd/server/servertest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestNew(t *testing.T) {
	s := servertest.New(t)
	handler := s.Client.Handler("test")
	input := json.RawMessage(`{"command":"create","path":"/memories/a.txt","file_text":"hello"}`)
	result := handler.Handle(t.Context(), input)
	if got, want := result.Text(), "File created successfully at: /memories/a.txt"; got != want || result.IsError {
		t.Errorf("got %q (error %t), want %q", got, result.IsError, want)
	}

	health, err := healthpb.NewHealthClient(s.Conn).Check(t.Context(), &healthpb.HealthCheckRequest{})
	if err != nil || health.GetStatus() != healthpb.HealthCheckResponse_SERVING {
		t.Errorf("got %v, %v; want SERVING", health, err)
	}
}

func TestNew_IsEmpty(t *testing.T) {
	for range 2 {
		s := servertest.New(t)
		create := &memoryv1.CreateRequest{Namespace: "n", Path: "/memories/a"}
		resp, err := s.Client.Create(t.Context(), create)
		if err != nil || resp.GetResult().GetIsError() {
			t.Fatalf("got %v, %v; want a new file", resp, err)
		}
	}
}

func TestWithStore(t *testing.T) {
	store := memkv.New()
	t.Run("write", func(t *testing.T) {
		s := servertest.New(t, servertest.WithStore(store))
		create := &memoryv1.CreateRequest{Namespace: "n", Path: "/memories/a"}
		if _, err := s.Client.Create(t.Context(), create); err != nil {
			t.Fatal(err)
		}
	})
	t.Run("read", func(t *testing.T) {
		s := servertest.New(t, servertest.WithStore(store))
		resp, err := s.Client.View(t.Context(), &memoryv1.ViewRequest{Namespace: "n", Path: "/memories/a"})
		if err != nil || resp.GetResult().GetIsError() {
			t.Errorf("got %v, %v; want the file that another server wrote", resp, err)
		}
	})
	if err := store.Close(); err != nil {
		t.Error(err)
	}
}

func TestWithSettings(t *testing.T) {
	s := servertest.New(t, servertest.WithSettings(memory.Settings{MaxFileBytes: new(int64(3))}))
	create := &memoryv1.CreateRequest{Namespace: "n", Path: "/memories/a", FileText: "four"}
	resp, err := s.Client.Create(t.Context(), create)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := resp.GetResult().GetReason(), memoryv1.Reason_REASON_FILE_TOO_LARGE; got != want {
		t.Errorf("got reason %v, want %v", got, want)
	}
}
