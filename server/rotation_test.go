package server

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	memoryv1 "github.com/seed-7f2870e1/memoryd/gen/memoryd/v1"
	"github.com/seed-7f2870e1/memoryd/server/kv/sealkv"
)

// A server that runs takes a keyset that was rotated, refuses one that lost a key, and tells nobody what is in it.
func TestSealedServer_Rotation(t *testing.T) {
	k := newKeyset(t)
	data := sealedData(t, k)
	log := &logBuffer{}
	r := start(t, Config{Data: data, EncryptionKeyset: k.File, Logger: log.logger()})
	before, err := os.ReadFile(k.File)
	if err != nil {
		t.Fatal(err)
	}
	id := rotateTest(t, k)
	if err := r.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(10 * time.Second); !strings.Contains(log.String(), "wraps all data keys"); {
		if time.Now().After(deadline) {
			t.Fatalf("the data keys were not wrapped anew:\n%s", log)
		}
		time.Sleep(time.Millisecond)
	}
	rotated, err := os.ReadFile(k.File)
	if err := errors.Join(err, os.WriteFile(k.File, before, 0o600)); err != nil {
		t.Fatal(err)
	}
	if err := r.Reload(t.Context()); !errors.Is(err, sealkv.ErrWrongKeyset) {
		t.Errorf("the keyset of before: got %v, want %v", err, sealkv.ErrWrongKeyset)
	}
	if err := os.WriteFile(k.File, rotated, 0o600); err != nil {
		t.Fatal(err)
	}
	resp, err := memoryv1.NewMemoryServiceClient(r.conn).View(t.Context(), &memoryv1.ViewRequest{
		Namespace: "a", Path: "/memories/x",
	})
	if err != nil || resp.GetResult().GetIsError() {
		t.Errorf("View: got %v, %v", resp, err)
	}
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	use, err := KeysetUse(t.Context(), data)
	if err != nil || len(use) != 1 || use[id] < 2 {
		t.Errorf("KeysetUse: got %v, %v, want key %d alone", use, err, id)
	}
	content := log.String()
	for _, secret := range append(keyValues(t, rotated), "12345") {
		if strings.Contains(content, secret) {
			t.Error("the log holds a key, or what was written")
		}
	}
}
