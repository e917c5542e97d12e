package sealkv_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tink-crypto/tink-go/v2/insecurecleartextkeyset"
	"github.com/tink-crypto/tink-go/v2/keyset"
	tinkpb "github.com/tink-crypto/tink-go/v2/proto/tink_go_proto"
	"google.golang.org/protobuf/proto"

	"github.com/seed-7f2870e1/memoryd/server/kv"
	"github.com/seed-7f2870e1/memoryd/server/kv/sealkv"
)

// material returns a copy of the keys of a keyset.
func material(t testing.TB, handle *keyset.Handle) *tinkpb.Keyset {
	t.Helper()
	return proto.CloneOf(insecurecleartextkeyset.KeysetMaterial(handle))
}

func fromMaterial(t testing.TB, material *tinkpb.Keyset) *keyset.Handle {
	t.Helper()
	data, err := proto.Marshal(material)
	if err != nil {
		t.Fatal(err)
	}
	handle, err := insecurecleartextkeyset.Read(keyset.NewBinaryReader(bytes.NewReader(data)))
	if err != nil {
		t.Fatal(err)
	}
	return handle
}

// raw changes what is stored below a sealed store.
func raw(t testing.TB, below kv.Store, scope, key string, value []byte) {
	t.Helper()
	err := below.Update(t.Context(), scope, func(tx kv.Tx) error {
		if value == nil {
			return tx.Delete([]byte(key))
		}
		return tx.Put([]byte(key), value)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// stored returns what is stored below a sealed store.
func stored(t testing.TB, below kv.Store, scope, key string) []byte {
	t.Helper()
	value, err := get(below, scope, key)
	if err != nil || value == nil {
		t.Fatalf("stored %q of %q: got %q, %v", key, scope, value, err)
	}
	return value
}

const keyName = "\x00sealkv.key"

// Whatever is done to what is stored, nothing is read that was not written.
func TestTampering(t *testing.T) {
	flip := func(key string, at int) func(*testing.T, kv.Store) {
		return func(t *testing.T, below kv.Store) {
			value := stored(t, below, "a", key)
			value[(at+len(value))%len(value)] ^= 1
			raw(t, below, "a", key, value)
		}
	}
	copyTo := func(fromScope, from, to string) func(*testing.T, kv.Store) {
		return func(t *testing.T, below kv.Store) { raw(t, below, "a", to, stored(t, below, fromScope, from)) }
	}
	cut := func(key string, n int) func(*testing.T, kv.Store) {
		return func(t *testing.T, below kv.Store) {
			raw(t, below, "a", key, append([]byte{}, stored(t, below, "a", key)[:n]...))
		}
	}
	for _, tt := range []struct {
		name   string
		tamper func(*testing.T, kv.Store)
	}{
		{"form of a value", flip("key", 0)},
		{"key id of a value", flip("key", 1)},
		{"nonce of a value", flip("key", 5)},
		{"value", flip("key", 18)},
		{"tag of a value", flip("key", -1)},
		{"plain value", func(t *testing.T, below kv.Store) { raw(t, below, "a", "key", []byte("value")) }},
		{"no value", cut("key", 0)},
		{"value cut off", cut("key", 20)},
		{"value of another key", copyTo("a", "other", "key")},
		{"empty value of another key", copyTo("a", "empty", "key")},
		{"value of the same key elsewhere", copyTo("b", "key", "key")},
		{"form of the data key", flip(keyName, 0)},
		{"key id of the data key", flip(keyName, 4)},
		{"data key", flip(keyName, 30)},
		{"data key cut off", cut(keyName, 3)},
		{"data key of another scope", copyTo("b", keyName, keyName)},
		{"value as data key", copyTo("a", "key", keyName)},
		{"seal check as data key", func(t *testing.T, below kv.Store) {
			raw(t, below, "a", keyName, stored(t, below, kv.ReservedScope, "sealkv.check")[1:])
		}},
		{"no data key", func(t *testing.T, below kv.Store) { raw(t, below, "a", keyName, nil) }},
		{"scope moved", func(t *testing.T, below kv.Store) {
			for _, key := range []string{"key", keyName} {
				raw(t, below, "a", key, stored(t, below, "b", key))
			}
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			below, handle := newMem(), newKeyset(t)
			first := open(t, below, handle)
			for _, scope := range []string{"a", "b"} {
				mustPut(t, first, scope, "key", "value")
				mustPut(t, first, scope, "other", "value")
				mustPut(t, first, scope, "empty", "")
			}
			wantGet(t, first, "a", "key", "value")
			tt.tamper(t, below)
			for name, store := range map[string]*sealkv.Store{"cached data key": first, "new": open(t, below, handle)} {
				if got, err := get(store, "a", "key"); !errors.Is(err, kv.ErrCorrupt) {
					t.Errorf("%s: Get: got %q, %v, want %v", name, got, err, kv.ErrCorrupt)
				}
				err := store.View(t.Context(), "a", func(r kv.Reader) error {
					return r.Scan(kv.ScanOptions{Prefix: []byte("key")}, func(_, value []byte) error {
						t.Errorf("%s: Scan: got %q", name, value)
						return nil
					})
				})
				if !errors.Is(err, kv.ErrCorrupt) {
					t.Errorf("%s: Scan: got %v, want %v", name, err, kv.ErrCorrupt)
				}
				if err := store.Check(t.Context()); !errors.Is(err, kv.ErrCorrupt) || !strings.Contains(err.Error(), "a: ") {
					t.Errorf("%s: Check: got %v, want %v of scope a", name, err, kv.ErrCorrupt)
				}
				wantGet(t, store, "b", "key", "value")
			}
		})
	}
}

// What was erased cannot be read with the keyset and a copy of what was stored, since the data key is gone; nor with the
// data key of what was written under the same name afterwards.
func TestErasedScope(t *testing.T) {
	below, handle := newMem(), newKeyset(t)
	store := openChecked(t, below, handle)
	mustPut(t, store, "a", "key", "secret")
	mustPut(t, store, "a", "\xffbulk", "secret")
	mustPut(t, store, "b", "key", "value")
	old, oldKey := stored(t, below, "a", "key"), stored(t, below, "a", keyName)

	erase := func(keys ...string) {
		t.Helper()
		err := store.Update(t.Context(), "a", func(tx kv.Tx) error {
			for _, key := range keys {
				if err := tx.Delete([]byte(key)); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	erase("key")
	if got := stored(t, below, "a", keyName); !bytes.Equal(got, oldKey) {
		t.Error("the data key went, or changed, while a value was left")
	}
	wantGet(t, store, "a", "\xffbulk", "secret")
	erase("\xffbulk", "absent")
	for scopeKey := range dump(t, below, "a") {
		if strings.HasPrefix(scopeKey, "a ") {
			t.Errorf("%q is left", scopeKey)
		}
	}
	names, err := store.Scopes(t.Context(), "", 10)
	if err != nil || len(names) != 1 || names[0] != "b" {
		t.Errorf("Scopes: got %q, %v, want b", names, err)
	}

	raw(t, below, "a", "key", old)
	if got, err := get(store, "a", "key"); !errors.Is(err, kv.ErrCorrupt) {
		t.Errorf("old value alone: got %q, %v, want %v", got, err, kv.ErrCorrupt)
	}
	raw(t, below, "a", "key", nil)
	mustPut(t, store, "a", "new", "value")
	if bytes.Equal(stored(t, below, "a", keyName), oldKey) {
		t.Error("the scope that was made again has the old data key")
	}
	raw(t, below, "a", "key", old)
	if got, err := get(store, "a", "key"); !errors.Is(err, kv.ErrCorrupt) {
		t.Errorf("old value under the new data key: got %q, %v, want %v", got, err, kv.ErrCorrupt)
	}
	wantGet(t, store, "a", "new", "value")
	raw(t, below, "a", "key", nil)
}

// A scope that was deleted and made again below does not meet a cached data key.
func TestCachedKeyOfAnotherTime(t *testing.T) {
	below, handle := newMem(), newKeyset(t)
	store, other := openChecked(t, below, handle), open(t, below, handle)
	mustPut(t, store, "a", "key", "first")
	wantGet(t, store, "a", "key", "first")
	err := other.Update(t.Context(), "a", func(tx kv.Tx) error { return tx.Delete([]byte("key")) })
	if err != nil {
		t.Fatal(err)
	}
	mustPut(t, other, "a", "key", "second")
	wantGet(t, store, "a", "key", "second")
	mustPut(t, store, "a", "more", "third")
	wantGet(t, other, "a", "more", "third")
}

// Nothing of the values is in the file, and of the keys everything is: the test would find them.
func TestFileHoldsNoPlaintext(t *testing.T) {
	dir := t.TempDir()
	bolt := openBolt(t, dir)
	store := open(t, bolt, newKeyset(t))
	const text = "the plaintext that must not be found"
	for i := range 50 {
		mustPut(t, store, "acme/user-42", "path-"+string(rune('a'+i%26))+"-of-file", strings.Repeat(text, 1+i*100))
		mustPut(t, store, "acme/user-42", "\xffchunk", text)
		mustPut(t, store, kv.ReservedScope, "cursor", text)
	}
	if err := errors.Join(store.Check(t.Context()), store.Close()); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(filepath.Join(dir, "memoryd.db"))
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{text, text[:8], text[len(text)-8:]} {
		if bytes.Contains(content, []byte(text)) {
			t.Errorf("the file holds %q", text)
		}
	}
	for _, text := range []string{"acme/user-42", "path-c-of-file", "sealkv.check"} {
		if !bytes.Contains(content, []byte(text)) {
			t.Errorf("the file does not hold %q, so that the test shows nothing", text)
		}
	}
}
