package sealkv_test

import (
	"errors"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/tink-crypto/tink-go/v2/aead"
	"github.com/tink-crypto/tink-go/v2/keyset"

	"github.com/seed-7f2870e1/memoryd/server/kv"
	"github.com/seed-7f2870e1/memoryd/server/kv/kvtest"
	"github.com/seed-7f2870e1/memoryd/server/kv/sealkv"
)

// dump is all that a store holds, by scope and key.
func dump(t testing.TB, store kv.Store, scopes ...string) map[string]string {
	t.Helper()
	names, err := store.Scopes(t.Context(), "", 1000)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, scope := range append(append(names, kv.ReservedScope), scopes...) {
		err := store.View(t.Context(), scope, func(r kv.Reader) error {
			return r.Scan(kv.ScanOptions{}, func(key, value []byte) error {
				all[scope+" "+string(key)] = string(value)
				return nil
			})
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// A store and a keyset that do not belong together are told apart, and nothing is written.
func TestOpen_Mismatch(t *testing.T) {
	theirs := newKeyset(t)
	later := rotated(t, theirs)
	sealed := newMem()
	mustPut(t, open(t, sealed, later), "a", "key", "value")
	plain := newMem()
	mustPut(t, plain, "a", "key", "value")
	plainState := newMem()
	mustPut(t, plainState, kv.ReservedScope, "cursor", "value")
	damaged := newMem()
	mustPut(t, damaged, kv.ReservedScope, "sealkv.check", "\x01x")
	newer := newMem()
	mustPut(t, newer, kv.ReservedScope, "sealkv.check", "\x02x")

	for _, tt := range []struct {
		name   string
		below  kv.Store
		keyset *keyset.Handle // nil is none
		want   error          // nil is any
	}{
		{"none", sealed, nil, sealkv.ErrNoKeyset},
		{"another", sealed, newKeyset(t), sealkv.ErrWrongKeyset},
		{"primary key is missing", sealed, theirs, sealkv.ErrWrongKeyset},
		{"same id and another key", sealed, sameID(t, later), sealkv.ErrWrongKeyset},
		{"plain", plain, theirs, sealkv.ErrPlainStore},
		{"plain state", plainState, theirs, sealkv.ErrPlainStore},
		{"damaged check", damaged, theirs, kv.ErrCorrupt},
		{"newer format", newer, theirs, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			before := dump(t, tt.below)
			untouched := &kvtest.Faulty{Store: tt.below, BeforeUpdate: func(string) error {
				t.Error("the store was written to")
				return kv.ErrReadOnly
			}}
			var err error
			if tt.keyset == nil {
				err = sealkv.CheckPlain(t.Context(), untouched)
			} else {
				_, err = sealkv.Open(t.Context(), untouched, sealkv.Options{Keyset: tt.keyset})
				if checkErr := sealkv.CheckKeyset(t.Context(), tt.below, tt.keyset); err == nil || checkErr == nil ||
					err.Error() != checkErr.Error() {
					t.Errorf("CheckKeyset: got %v, want what Open says: %v", checkErr, err)
				}
			}
			if err == nil || tt.want != nil && !errors.Is(err, tt.want) {
				t.Errorf("got %v, want %v", err, tt.want)
			}
			if diff := cmp.Diff(before, dump(t, tt.below)); diff != "" {
				t.Errorf("the store has changed (-before +after):\n%s", diff)
			}
		})
	}
}

// sameID returns a keyset whose primary key has the id of another's, and is another key.
func sameID(t testing.TB, handle *keyset.Handle) *keyset.Handle {
	t.Helper()
	other := newKeyset(t)
	material := material(t, other)
	material.PrimaryKeyId = primary(t, handle)
	material.GetKey()[0].KeyId = material.GetPrimaryKeyId()
	return fromMaterial(t, material)
}

func TestOpen_Fits(t *testing.T) {
	first := newKeyset(t)
	below := newMem()
	mustPut(t, below, kv.ReservedScope, "boltkv.schema", "1") // What an engine keeps there does not make it plain.
	if err := sealkv.CheckPlain(t.Context(), below); err != nil {
		t.Errorf("CheckPlain of an empty store: %v", err)
	}
	if err := sealkv.CheckKeyset(t.Context(), below, first); err != nil {
		t.Errorf("CheckKeyset of an empty store: %v", err)
	}
	mustPut(t, open(t, below, first), "a", "key", "value")
	for _, handle := range []*keyset.Handle{first, rotated(t, first)} {
		wantGet(t, openChecked(t, &unclosed{below}, handle), "a", "key", "value")
	}
}

// unclosed is a store that stays open.
type unclosed struct{ kv.Store }

func (u *unclosed) Close() error { return nil }

// A store that cannot be written to and holds nothing can be opened, for a check.
func TestOpen_EmptyAndReadOnly(t *testing.T) {
	below := &kvtest.Faulty{Store: newMem(), BeforeUpdate: func(string) error { return kv.ErrReadOnly }}
	store := openChecked(t, below, newKeyset(t))
	if got, err := get(store, "a", "key"); got != nil || err != nil {
		t.Errorf("got %q, %v, want nothing", got, err)
	}
	if err := store.Rewrap(t.Context(), nil); err != nil {
		t.Errorf("Rewrap: %v", err)
	}
}

// Which key wraps what is told by the id before it, so that a keyset without ids is refused.
func TestOpen_KeysetWithoutIDs(t *testing.T) {
	handle, err := keyset.NewHandle(aead.AES256GCMNoPrefixKeyTemplate())
	if err != nil {
		t.Fatal(err)
	}
	for name, handle := range map[string]*keyset.Handle{"no ids": handle, "none": nil} {
		if _, err := sealkv.Open(t.Context(), newMem(), sealkv.Options{Keyset: handle}); err == nil {
			t.Errorf("%s: got no error, want one", name)
		}
	}
}

// What engines and the store itself keep is not the caller's.
func TestHiddenKeys(t *testing.T) {
	below := newMem()
	mustPut(t, below, kv.ReservedScope, "boltkv.schema", "1")
	mustPut(t, below, kv.ReservedScope, "boltkv.z", "1")
	store := openChecked(t, below, newKeyset(t))
	for scope, hidden := range map[string][]string{
		"a":              {"\x00sealkv.key"},
		kv.ReservedScope: {"\x00sealkv.key", "sealkv.check", "boltkv.schema"},
	} {
		for _, key := range []string{"\x00", "boltkv.z.not", "c", "z"} {
			if scope == kv.ReservedScope && key == "boltkv.z.not" {
				key = "Boltkv.z"
			}
			mustPut(t, store, scope, key, "value")
		}
		for _, key := range hidden {
			if got, err := get(store, scope, key); got != nil || err != nil {
				t.Errorf("Get %q of %q: got %q, %v, want nothing", key, scope, got, err)
			}
			for name, write := range map[string]func(tx kv.Tx) error{
				"Put":    func(tx kv.Tx) error { return tx.Put([]byte(key), []byte("x")) },
				"Delete": func(tx kv.Tx) error { return tx.Delete([]byte(key)) },
				"Put whose error is ignored": func(tx kv.Tx) error {
					_ = tx.Put([]byte(key), []byte("x"))
					return tx.Put([]byte("other"), nil)
				},
			} {
				if err := store.Update(t.Context(), scope, write); !errors.Is(err, kv.ErrInvalid) {
					t.Errorf("%s %q of %q: got error %v, want %v", name, key, scope, err, kv.ErrInvalid)
				}
			}
		}
		for _, keysOnly := range []bool{true, false} {
			for _, limit := range []int{0, 1, 2, 3, 4, math.MaxInt} {
				var got []string
				err := store.View(t.Context(), scope, func(r kv.Reader) error {
					return r.Scan(kv.ScanOptions{Limit: limit, KeysOnly: keysOnly}, func(key, _ []byte) error {
						got = append(got, string(key))
						return nil
					})
				})
				want := []string{"\x00", "boltkv.z.not", "c", "z"}
				if scope == kv.ReservedScope {
					want = []string{"\x00", "Boltkv.z", "c", "z"}
				}
				if limit > 0 {
					want = want[:min(limit, len(want))]
				}
				if diff := cmp.Diff(want, got); err != nil || diff != "" {
					t.Errorf("Scan of %q with limit %d, %v (-want +got):\n%s", scope, limit, err, diff)
				}
			}
		}
	}
}

// The reserved scope keeps its data key, among the keys that nobody sees, whatever is deleted there.
func TestReservedScope_KeepsKey(t *testing.T) {
	store := openChecked(t, newMem(), newKeyset(t))
	mustPut(t, store, kv.ReservedScope, "x", "value")
	mustPut(t, store, kv.ReservedScope, "y", "value")
	err := store.Update(t.Context(), kv.ReservedScope, func(tx kv.Tx) error { return tx.Delete([]byte("x")) })
	if err != nil {
		t.Fatal(err)
	}
	wantGet(t, store, kv.ReservedScope, "y", "value")
}

// Of two that open an empty store at once, with keysets of their own, one is refused.
func TestOpen_AtOnce(t *testing.T) {
	first, second := newKeyset(t), newKeyset(t)
	below := newMem()
	quicker := func(string) error {
		mustPut(t, open(t, below, first), "a", "key", "value")
		return nil
	}
	_, err := sealkv.Open(t.Context(), &kvtest.Faulty{Store: below, BeforeUpdate: quicker}, sealkv.Options{Keyset: second})
	if !errors.Is(err, sealkv.ErrWrongKeyset) {
		t.Errorf("got %v, want %v", err, sealkv.ErrWrongKeyset)
	}
	wantGet(t, open(t, below, first), "a", "key", "value")
}
