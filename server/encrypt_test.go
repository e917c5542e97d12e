package server

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	memoryv1 "github.com/seed-7f2870e1/memoryd/gen/memoryd/v1"
)

func TestEncrypt(t *testing.T) {
	k := newKeyset(t)
	data := filledData(t)
	plain := snapshotDir(t, data)["memoryd.db"]
	got, err := Encrypt(t.Context(), data, k, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := CheckReport{Namespaces: 2, Files: 4, Bytes: 20}
	if diff := cmp.Diff(want, got.Encrypted); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if !strings.HasPrefix(got.Kept, filepath.Join(data, "memoryd.db.before-encrypt-")) {
		t.Errorf("got %s kept", got.Kept)
	}
	if !strings.Contains(plain, "12345") {
		t.Error("the old store does not hold the text, so that this shows nothing")
	}
	if strings.Contains(snapshotDir(t, data)["memoryd.db"], "12345") {
		t.Error("the new store holds the text")
	}
	if got, err := Check(t.Context(), data, k); err != nil || got != want {
		t.Errorf("Check: got %+v, %v, want %+v", got, err, want)
	}
	r := start(t, Config{Data: data, EncryptionKeyset: k.File})
	resp, err := memoryv1.NewMemoryServiceClient(r.conn).View(t.Context(), &memoryv1.ViewRequest{
		Namespace: "b", Path: "/memories/d/y",
	})
	if err != nil || resp.GetResult().GetIsError() || !strings.Contains(resp.GetResult().String(), "12345") {
		t.Errorf("View: got %v, %v", resp, err)
	}
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}

	// The old one is whole, should the keyset get lost.
	if err := os.Rename(got.Kept, filepath.Join(data, "memoryd.db")); err != nil {
		t.Fatal(err)
	}
	if got, err := Check(t.Context(), data, Keyset{}); err != nil || got != want {
		t.Errorf("Check of the old store: got %+v, %v, want %+v", got, err, want)
	}
}

func TestEncrypt_Fails(t *testing.T) {
	k := newKeyset(t)
	sealed := sealedData(t, k)
	damaged := filledData(t)
	content, err := os.ReadFile(filepath.Join(damaged, "memoryd.db"))
	if err != nil {
		t.Fatal(err)
	}
	for i := 2 * 8 << 10; i < len(content); i++ { // Everything behind the two meta pages.
		content[i] ^= 0xff
	}
	if err := os.WriteFile(filepath.Join(damaged, "memoryd.db"), content, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name, data string
		keyset     Keyset
		want       string
	}{
		{"already", sealed, newKeyset(t), ErrEncrypted.Error()},
		{"no keyset", filledData(t), Keyset{}, "it must be the keyset to encrypt with"},
		{"no file", filledData(t), Keyset{File: "none.json"}, "none.json"},
		{"damaged", damaged, k, "corrupt"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			before := snapshotDir(t, tt.data)
			if got, err := Encrypt(t.Context(), tt.data, tt.keyset, nil); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %+v, %v, want %q", got, err, tt.want)
			}
			if diff := cmp.Diff(before, snapshotDir(t, tt.data)); diff != "" {
				t.Error("the directory has changed")
			}
		})
	}
	none := filepath.Join(t.TempDir(), "none")
	if _, err := Encrypt(t.Context(), none, k, nil); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no store: got %v, want %v", err, os.ErrNotExist)
	}
	if _, err := os.Stat(none); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("directory: got error %v, want it not to be made", err)
	}
}
