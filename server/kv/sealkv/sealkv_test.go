package sealkv_test

import (
	"context"
	"errors"
	"testing"

	"github.com/tink-crypto/tink-go/v2/aead"
	"github.com/tink-crypto/tink-go/v2/keyset"
	"go.uber.org/goleak"

	"github.com/seed-7f2870e1/memoryd/server/kv"
	"github.com/seed-7f2870e1/memoryd/server/kv/boltkv"
	"github.com/seed-7f2870e1/memoryd/server/kv/kvtest"
	"github.com/seed-7f2870e1/memoryd/server/kv/memkv"
	"github.com/seed-7f2870e1/memoryd/server/kv/sealkv"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// newKeyset returns a keyset of one key.
func newKeyset(t testing.TB) *keyset.Handle {
	t.Helper()
	handle, err := keyset.NewHandle(aead.AES256GCMKeyTemplate())
	if err != nil {
		t.Fatal(err)
	}
	return handle
}

// rotated returns a keyset with one key more, which is primary.
func rotated(t testing.TB, handle *keyset.Handle) *keyset.Handle {
	t.Helper()
	manager := keyset.NewManagerFromHandle(handle)
	id, err := manager.Add(aead.AES256GCMKeyTemplate())
	if err := errors.Join(err, manager.SetPrimary(id)); err != nil {
		t.Fatal(err)
	}
	return mustHandle(t, manager)
}

// without returns a keyset that has lost a key.
func without(t testing.TB, handle *keyset.Handle, id uint32) *keyset.Handle {
	t.Helper()
	manager := keyset.NewManagerFromHandle(handle)
	if err := manager.Delete(id); err != nil {
		t.Fatal(err)
	}
	return mustHandle(t, manager)
}

func mustHandle(t testing.TB, manager *keyset.Manager) *keyset.Handle {
	t.Helper()
	handle, err := manager.Handle()
	if err != nil {
		t.Fatal(err)
	}
	return handle
}

func primary(t testing.TB, handle *keyset.Handle) uint32 {
	t.Helper()
	entry, err := handle.Primary()
	if err != nil {
		t.Fatal(err)
	}
	return entry.KeyID()
}

func newMem() *memkv.Store { return memkv.NewWithHeadroom(sealkv.OverheadBytes) }

func openBolt(t testing.TB, dir string) *boltkv.Store {
	t.Helper()
	store, err := boltkv.Open(context.Background(), boltkv.Options{Dir: dir, OverheadBytes: sealkv.OverheadBytes})
	if err != nil {
		t.Fatal(err)
	}
	return store
}

// open opens a sealed store that nobody checks or closes.
func open(t testing.TB, below kv.Store, handle *keyset.Handle) *sealkv.Store {
	t.Helper()
	store, err := sealkv.Open(context.Background(), below, sealkv.Options{Keyset: handle})
	if err != nil {
		t.Fatal(err)
	}
	return store
}

// openChecked opens a sealed store that is checked and closed when the test ends.
func openChecked(t testing.TB, below kv.Store, handle *keyset.Handle) *sealkv.Store {
	t.Helper()
	store := open(t, below, handle)
	kvtest.Check(t, store)
	return store
}

func mustPut(t testing.TB, store kv.Store, scope, key, value string) {
	t.Helper()
	err := store.Update(context.Background(), scope, func(tx kv.Tx) error { return tx.Put([]byte(key), []byte(value)) })
	if err != nil {
		t.Fatalf("put %q in %q: %v", key, scope, err)
	}
}

// get returns the value of a key, nil where it is absent.
func get(store kv.Store, scope, key string) (value []byte, err error) {
	err = store.View(context.Background(), scope, func(r kv.Reader) error {
		values, err := r.Get([]byte(key))
		if err == nil && values[0] != nil {
			value = append([]byte{}, values[0]...)
		}
		return err
	})
	return value, err
}

func wantGet(t testing.TB, store kv.Store, scope, key, want string) {
	t.Helper()
	got, err := get(store, scope, key)
	if err != nil || string(got) != want {
		t.Errorf("get %q of %q: got %q, %v, want %q", key, scope, got, err, want)
	}
}

// The store keeps to the contract whatever is below it, and whatever is above it.
func TestConformance(t *testing.T) {
	for _, tt := range []struct {
		name string
		new  func(t *testing.T) kv.Store
	}{
		{"memkv", func(t *testing.T) kv.Store { return open(t, newMem(), newKeyset(t)) }},
		{"boltkv", func(t *testing.T) kv.Store { return open(t, openBolt(t, t.TempDir()), newKeyset(t)) }},
		{"over harsh", func(t *testing.T) kv.Store { return open(t, kvtest.Harsh(newMem()), newKeyset(t)) }},
		{"under harsh", func(t *testing.T) kv.Store { return kvtest.Harsh(open(t, newMem(), newKeyset(t))) }},
		{"one cached key", func(t *testing.T) kv.Store {
			store, err := sealkv.Open(t.Context(), newMem(), sealkv.Options{Keyset: newKeyset(t), CachedKeys: 1})
			if err != nil {
				t.Fatal(err)
			}
			return store
		}},
	} {
		t.Run(tt.name, func(t *testing.T) { kvtest.Run(t, tt.new) })
	}
}
