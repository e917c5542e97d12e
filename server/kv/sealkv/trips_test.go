package sealkv_test

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-7f2870e1/memoryd/server/kv"
	"github.com/seed-7f2870e1/memoryd/server/kv/kvtest"
)

// counted is a store that notes the reads of transactions, each of which may be a round trip.
type counted struct {
	kv.Store
	reads []string
}

func (c *counted) View(ctx context.Context, scope string, fn func(kv.Reader) error) error {
	return c.Store.View(ctx, scope, func(r kv.Reader) error { return fn(countedReader{r, c}) })
}

func (c *counted) Update(ctx context.Context, scope string, fn func(kv.Tx) error) error {
	return c.Store.Update(ctx, scope, func(tx kv.Tx) error {
		return fn(struct {
			countedReader
			writer
		}{countedReader{tx, c}, tx})
	})
}

type writer interface {
	Put(key, value []byte) error
	Delete(key []byte) error
}

type countedReader struct {
	kv.Reader
	store *counted
}

func (r countedReader) Get(keys ...[]byte) ([][]byte, error) {
	r.store.reads = append(r.store.reads, "get")
	return r.Reader.Get(keys...)
}

func (r countedReader) Scan(opts kv.ScanOptions, fn func(key, value []byte) error) error {
	r.store.reads = append(r.store.reads, "scan")
	return r.Reader.Scan(opts, fn)
}

// The data key comes along with the first keys that are read.
func TestRoundTrips(t *testing.T) {
	getKey := func(r kv.Reader) error { _, err := r.Get([]byte("key")); return err }
	scanAll := func(r kv.Reader) error {
		return r.Scan(kv.ScanOptions{}, func(_, _ []byte) error { return nil })
	}
	for _, tt := range []struct {
		name string
		fn   func(tx kv.Tx) error
		want []string
	}{
		{"nothing", func(kv.Tx) error { return nil }, nil},
		{"get", func(tx kv.Tx) error { return getKey(tx) }, []string{"get"}},
		{"get twice and scan", func(tx kv.Tx) error {
			_ = getKey(tx)
			_ = getKey(tx)
			return scanAll(tx)
		}, []string{"get", "get", "scan"}},
		{"scan first", func(tx kv.Tx) error { return scanAll(tx) }, []string{"get", "scan"}},
		{"scan of keys", func(tx kv.Tx) error {
			return tx.Scan(kv.ScanOptions{KeysOnly: true}, func(_, _ []byte) error { return nil })
		}, []string{"scan"}},
		{"get and put", func(tx kv.Tx) error {
			_ = getKey(tx)
			return tx.Put([]byte("key"), []byte("new"))
		}, []string{"get"}},
		{"put", func(tx kv.Tx) error { return tx.Put([]byte("key"), []byte("new")) }, []string{"get"}},
		{"get, put and delete", func(tx kv.Tx) error {
			_ = getKey(tx)
			_ = tx.Delete([]byte("other"))
			return tx.Put([]byte("key"), []byte("new"))
		}, []string{"get"}},
		{"delete", func(tx kv.Tx) error { return tx.Delete([]byte("other")) }, []string{"scan"}},
		{"get and delete", func(tx kv.Tx) error { // Was that the last one?
			_ = getKey(tx)
			return tx.Delete([]byte("other"))
		}, []string{"get", "scan"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			below := &counted{Store: newMem()}
			store := open(t, below, newKeyset(t))
			kvtest.Check(t, store)
			mustPut(t, store, "a", "key", "value")
			mustPut(t, store, "a", "other", "value")
			below.reads = nil
			if err := store.Update(t.Context(), "a", tt.fn); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, below.reads); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// What is overwritten or deleted within a transaction is never sealed, nor written below.
func TestUpdate_WritesOnce(t *testing.T) {
	below := newMem()
	store := openChecked(t, below, newKeyset(t))
	err := store.Update(t.Context(), "a", func(tx kv.Tx) error {
		for range 1000 {
			if err := tx.Put([]byte("gone"), make([]byte, 10_000)); err != nil {
				return err
			}
		}
		return tx.Delete([]byte("gone"))
	})
	if err != nil {
		t.Fatal(err)
	}
	if names, err := store.Scopes(t.Context(), "", 10); err != nil || len(names) > 0 {
		t.Errorf("Scopes: got %q, %v, want none", names, err)
	}
}
