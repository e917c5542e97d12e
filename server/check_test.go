package server

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	memoryv1 "github.com/seed-7f2870e1/memoryd/gen/memoryd/v1"
	"github.com/seed-7f2870e1/memoryd/server/kv"
	"github.com/seed-7f2870e1/memoryd/server/kv/boltkv"
)

// filledData is a data directory with two files in each of two namespaces.
func filledData(t *testing.T) string {
	t.Helper()
	data := filepath.Join(t.TempDir(), "data")
	r := start(t, Config{Listen: []string{"127.0.0.1:0"}, Data: data})
	client := memoryv1.NewMemoryServiceClient(r.conn)
	for _, namespace := range []string{"a", "b"} {
		for _, path := range []string{"/memories/x", "/memories/d/y"} {
			_, err := client.Create(t.Context(), &memoryv1.CreateRequest{Namespace: namespace, Path: path, FileText: "12345"})
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	return data
}

func TestCheck(t *testing.T) {
	got, err := Check(t.Context(), filledData(t), Keyset{})
	if err != nil {
		t.Fatal(err)
	}
	want := CheckReport{Namespaces: 2, Files: 4, Bytes: 20}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestCheck_Corrupt(t *testing.T) {
	data := filledData(t)
	path := filepath.Join(data, "memoryd.db")
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	// Everything behind the two meta pages.
	for i := 2 * 8 << 10; i < len(content); i++ {
		content[i] ^= 0xff
	}
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := Check(t.Context(), data, Keyset{}); !errors.Is(err, kv.ErrCorrupt) {
		t.Errorf("got %+v, %v; want an error that is %v", got, err, kv.ErrCorrupt)
	}
}

func TestCheck_InUse(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	start(t, Config{Listen: []string{"127.0.0.1:0"}, Data: data})
	_, err := Check(t.Context(), data, Keyset{})
	var inUse *boltkv.InUseError
	if !errors.As(err, &inUse) {
		t.Errorf("got %v, want a *boltkv.InUseError", err)
	}
}

func TestCheck_Nothing(t *testing.T) {
	data := filepath.Join(t.TempDir(), "none")
	if got, err := Check(t.Context(), data, Keyset{}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %+v, %v; want an error that is %v", got, err, os.ErrNotExist)
	}
	if _, err := os.Stat(data); !os.IsNotExist(err) {
		t.Errorf("the directory was made: %v", err)
	}
}
