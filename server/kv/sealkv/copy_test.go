package sealkv_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-7f2870e1/memoryd/server/kv"
	"github.com/seed-7f2870e1/memoryd/server/kv/kvtest"
	"github.com/seed-7f2870e1/memoryd/server/kv/memkv"
	"github.com/seed-7f2870e1/memoryd/server/kv/sealkv"
)

// plainStore returns a store with more than goes into one transaction, an empty value, and what an engine keeps.
func plainStore(t *testing.T) kv.Store {
	t.Helper()
	store := memkv.New()
	err := store.Update(t.Context(), "many", func(tx kv.Tx) error {
		for i := range 5000 {
			if err := tx.Put(fmt.Appendf(nil, "key %d", i), fmt.Append(nil, i)); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 40 {
		mustPut(t, store, "large", fmt.Sprintf("\xff%02d", i), strings.Repeat("v", kv.MaxValueBytes))
	}
	mustPut(t, store, "large", "empty", "")
	mustPut(t, store, kv.ReservedScope, "cursor", "value")
	mustPut(t, store, kv.ReservedScope, "boltkv.schema", "1")
	return store
}

func TestCopy(t *testing.T) {
	from := plainStore(t)
	to := openChecked(t, newMem(), newKeyset(t))
	if err := sealkv.Copy(t.Context(), from, to); err != nil {
		t.Fatal(err)
	}
	want := dump(t, from)
	delete(want, kv.ReservedScope+" boltkv.schema")
	if diff := cmp.Diff(want, dump(t, to)); diff != "" {
		t.Error("the copy differs")
	}
}

func TestCopy_Fails(t *testing.T) {
	boom := errors.New("boom")
	for name, from := range map[string]*kvtest.Faulty{
		"scopes": {BeforeScopes: func() error { return boom }},
		"read":   {BeforeView: kvtest.OnCall(3, boom)},
	} {
		from.Store = plainStore(t)
		if err := sealkv.Copy(t.Context(), from, open(t, newMem(), newKeyset(t))); !errors.Is(err, boom) {
			t.Errorf("%s: got %v, want %v", name, err, boom)
		}
	}
	// What is written meanwhile is missing in the copy.
	from := plainStore(t)
	meanwhile := &kvtest.Faulty{Store: from, BeforeView: kvtest.OnCall(2, nil)}
	views := 0
	meanwhile.BeforeView = func(scope string) error {
		if views++; views == 2 { // The first is the copy of the scope, the second compares.
			mustPut(t, from, scope, "later", "value")
		}
		return nil
	}
	if err := sealkv.Copy(t.Context(), meanwhile, open(t, newMem(), newKeyset(t))); !errors.Is(err, kv.ErrCorrupt) {
		t.Errorf("another copy: got %v, want %v", err, kv.ErrCorrupt)
	}
}
