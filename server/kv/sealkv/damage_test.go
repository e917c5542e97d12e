package sealkv_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-7f2870e1/memoryd/server/kv"
)

// A scope whose data key is damaged can be emptied, and nothing else. Then it can be written again, and a rotation
// comes to its end.
func TestUpdate_EmptiesDamagedScope(t *testing.T) {
	for name, damage := range map[string]func(t *testing.T, below kv.Store){
		"changed": func(t *testing.T, below kv.Store) {
			value := stored(t, below, "a", keyName)
			value[40] ^= 1
			raw(t, below, "a", keyName, value)
		},
		"key id changed": func(t *testing.T, below kv.Store) {
			value := stored(t, below, "a", keyName)
			value[2] ^= 1
			raw(t, below, "a", keyName, value)
		},
		"cut off":       func(t *testing.T, below kv.Store) { raw(t, below, "a", keyName, []byte{1}) },
		"empty":         func(t *testing.T, below kv.Store) { raw(t, below, "a", keyName, []byte{}) },
		"of another":    func(t *testing.T, below kv.Store) { raw(t, below, "a", keyName, stored(t, below, "b", keyName)) },
		"there is none": func(t *testing.T, below kv.Store) { raw(t, below, "a", keyName, nil) },
	} {
		t.Run(name, func(t *testing.T) {
			below, first := newMem(), newKeyset(t)
			second := rotated(t, first)
			store := open(t, below, first)
			for _, scope := range []string{"a", "b"} {
				for _, key := range []string{"1", "2", "\xffbulk"} {
					mustPut(t, store, scope, key, "value")
				}
			}
			damage(t, below)
			store = openChecked(t, below, first) // Without cached data keys.
			before := dump(t, below)
			if name != "there is none" { // Then there is a new one.
				err := store.Update(t.Context(), "a", func(tx kv.Tx) error {
					return errors.Join(tx.Delete([]byte("1")), tx.Put([]byte("2"), []byte("value")))
				})
				if !errors.Is(err, kv.ErrCorrupt) {
					t.Errorf("Put: got %v, want %v", err, kv.ErrCorrupt)
				}
			}
			if diff := cmp.Diff(before, dump(t, below)); diff != "" {
				t.Errorf("the store has changed (-before +after):\n%s", diff)
			}

			var keys []string
			err := store.Update(t.Context(), "a", func(tx kv.Tx) error {
				keys = nil
				err := tx.Scan(kv.ScanOptions{KeysOnly: true}, func(key, _ []byte) error {
					keys = append(keys, string(key))
					return nil
				})
				return errors.Join(err, tx.Delete([]byte("1")))
			})
			if diff := cmp.Diff([]string{"1", "2", "\xffbulk"}, keys); err != nil || diff != "" {
				t.Fatalf("got %v, keys (-want +got):\n%s", err, diff)
			}
			// The data key, as it is, stays to the last.
			delete(before, "a 1")
			if diff := cmp.Diff(before, dump(t, below)); diff != "" {
				t.Errorf("after the first (-want +got):\n%s", diff)
			}
			err = store.Update(t.Context(), "a", func(tx kv.Tx) error { // What cannot be read stands in nobody's way.
				if _, err := tx.Get([]byte("2")); !errors.Is(err, kv.ErrCorrupt) {
					t.Errorf("Get: got error %v, want %v", err, kv.ErrCorrupt)
				}
				return errors.Join(tx.Delete([]byte("2")), tx.Delete([]byte("\xffbulk")), tx.Delete([]byte("absent")))
			})
			if err != nil {
				t.Fatal(err)
			}
			if names, err := store.Scopes(t.Context(), "", 10); err != nil || !cmp.Equal(names, []string{"b"}) {
				t.Errorf("Scopes: got %q, %v, want b", names, err)
			}

			mustPut(t, store, "a", "1", "anew")
			wantGet(t, store, "a", "1", "anew")
			mustSet(t, store, second)
			if err := store.Rewrap(t.Context(), nil); err != nil {
				t.Errorf("Rewrap: %v", err)
			}
			mustSet(t, store, without(t, second, primary(t, first)))
			wantGet(t, store, "a", "1", "anew")
			wantGet(t, store, "b", "1", "value")
		})
	}
}

// Deletions where there is nothing write no more than that.
func TestUpdate_DeletesInNoScope(t *testing.T) {
	below := newMem()
	store := openChecked(t, below, newKeyset(t))
	before := dump(t, below)
	err := store.Update(t.Context(), "none", func(tx kv.Tx) error { return tx.Delete([]byte("key")) })
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, dump(t, below)); diff != "" {
		t.Errorf("the store has changed (-before +after):\n%s", diff)
	}
}
