package server_test

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/tink-crypto/tink-go/v2/aead"
	"github.com/tink-crypto/tink-go/v2/keyset"

	"github.com/seed-7f2870e1/memoryd/client"
	memoryv1 "github.com/seed-7f2870e1/memoryd/gen/memoryd/v1"
	"github.com/seed-7f2870e1/memoryd/server/kv"
	"github.com/seed-7f2870e1/memoryd/server/kv/boltkv"
	"github.com/seed-7f2870e1/memoryd/server/kv/kvtest"
	"github.com/seed-7f2870e1/memoryd/server/kv/memkv"
	"github.com/seed-7f2870e1/memoryd/server/kv/sealkv"
	"github.com/seed-7f2870e1/memoryd/server/memory"
	"github.com/seed-7f2870e1/memoryd/server/memory/memtest"
	"github.com/seed-7f2870e1/memoryd/server/servertest"
)

// sealedStore seals what it keeps in another, and is checked and closed when the test ends.
func sealedStore(t *testing.T, below kv.Store) kv.Store {
	t.Helper()
	handle, err := keyset.NewHandle(aead.AES256GCMKeyTemplate())
	if err != nil {
		t.Fatal(err)
	}
	store, err := sealkv.Open(t.Context(), below, sealkv.Options{Keyset: handle})
	if err != nil {
		t.Fatal(err)
	}
	kvtest.Check(t, store)
	return store
}

// What the model reads does not tell whether the store is encrypted.
func TestVectors_Sealed(t *testing.T) {
	memtest.Run(t, func(t *testing.T, config memtest.Config) memtest.Executor {
		store := sealedStore(t, kvtest.Harsh(memkv.NewWithHeadroom(sealkv.OverheadBytes)))
		return service{servertest.New(t, servertest.WithStore(store), servertest.WithSettings(settings(config))).Client}
	})
}

// The largest file fits in spite of what the seal adds, and the key of a namespace goes with the last of it.
func TestSealed_LargestFile(t *testing.T) {
	bolt, err := boltkv.Open(t.Context(), boltkv.Options{Dir: t.TempDir(), OverheadBytes: sealkv.OverheadBytes})
	if err != nil {
		t.Fatal(err)
	}
	limits := memory.Settings{MaxFileBytes: new(int64(memory.MaxFileBytes))}
	c := servertest.New(t, servertest.WithStore(sealedStore(t, bolt)), servertest.WithSettings(limits)).Client
	want := make([]byte, memory.MaxFileBytes)
	random := rand.NewChaCha8([32]byte{})
	_, _ = random.Read(want)
	for range 2 { // The second takes the place of the first, in one transaction.
		if err := (service{c}).Put(t.Context(), "/memories/f", want); err != nil {
			t.Fatal(err)
		}
	}
	wantFile(t, c, want)
	use, err := sealkv.KeyUse(t.Context(), bolt)
	if err != nil || len(use) != 1 {
		t.Errorf("KeyUse: got %v, %v, want one key", use, err)
	}
}

func wantFile(t *testing.T, c *client.Client, want []byte) {
	t.Helper()
	var got bytes.Buffer
	if _, err := c.Get(t.Context(), &memoryv1.GetRequest{Namespace: namespace, Path: "/memories/f"}, &got); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got.Bytes(), want) {
		t.Errorf("got %d bytes, want the %d that were put", got.Len(), len(want))
	}
}
