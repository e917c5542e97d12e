package server_test

import (
	"bytes"
	"testing"

	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/seed-7f2870e1/memoryd/client"
	memoryv1 "github.com/seed-7f2870e1/memoryd/gen/memoryd/v1"
	"github.com/seed-7f2870e1/memoryd/server/kv"
	"github.com/seed-7f2870e1/memoryd/server/kv/memkv"
	"github.com/seed-7f2870e1/memoryd/server/servertest"
)

// TestDamagedContents views a file whose contents are damaged, through the whole service: the call names it, others go
// on, the file can be replaced, and health tells.
func TestDamagedContents(t *testing.T) {
	store := memkv.New()
	t.Cleanup(func() { _ = store.Close() })
	memoryd := servertest.New(t, servertest.WithStore(store))
	c := memoryd.Client
	for _, path := range []string{"/memories/damaged", "/memories/sound"} {
		if _, err := c.Create(t.Context(), &memoryv1.CreateRequest{Path: path, FileText: path}); err != nil {
			t.Fatal(err)
		}
	}
	err := store.Update(t.Context(), client.DefaultNamespace, func(tx kv.Tx) error {
		var damaged []byte
		err := tx.Scan(kv.ScanOptions{Prefix: []byte{kv.BulkPrefix}}, func(key, value []byte) error {
			if bytes.Equal(value, []byte("/memories/damaged")) {
				damaged = bytes.Clone(key)
			}
			return nil
		})
		if err != nil {
			return err
		}
		return tx.Put(damaged, []byte("/memories/DAMAGED"))
	})
	if err != nil {
		t.Fatal(err)
	}

	const want = `stored data of "/memories/damaged" in namespace default are damaged`
	_, err = c.View(t.Context(), &memoryv1.ViewRequest{Path: "/memories/damaged"})
	if st := status.Convert(err); st.Code() != codes.DataLoss || st.Message() != want {
		t.Errorf("view: got %v, want %s", err, want)
	}
	_, err = c.Insert(t.Context(), &memoryv1.InsertRequest{Path: "/memories/damaged"})
	if status.Code(err) != codes.DataLoss || client.MayHaveBeenMade(err) {
		t.Errorf("insert: got %v, may have been made %t", err, client.MayHaveBeenMade(err))
	}
	if resp, err := c.View(t.Context(), &memoryv1.ViewRequest{Path: "/memories/sound"}); err != nil {
		t.Errorf("view another file: %v %v", resp, err)
	}
	resp, err := c.Put(t.Context(), &memoryv1.PutHeader{Path: "/memories/damaged"}, bytes.NewReader([]byte("new")))
	if err != nil || resp.GetResult().GetIsError() {
		t.Errorf("put: %v %v", resp, err)
	}
	if _, err := c.View(t.Context(), &memoryv1.ViewRequest{Path: "/memories/damaged"}); err != nil {
		t.Errorf("view what was put: %v", err)
	}

	watch, err := healthpb.NewHealthClient(memoryd.Conn).Watch(t.Context(), &healthpb.HealthCheckRequest{})
	if err != nil {
		t.Fatal(err)
	}
	for {
		resp, err := watch.Recv()
		if err != nil {
			t.Fatal(err)
		}
		if resp.GetStatus() == healthpb.HealthCheckResponse_NOT_SERVING {
			break
		}
	}
}
