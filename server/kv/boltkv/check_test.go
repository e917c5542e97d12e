package boltkv

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	bolt "go.etcd.io/bbolt"

	"github.com/seed-7f2870e1/memoryd/server/kv"
)

// damaged returns the directory of a closed store whose file was changed.
func damaged(t *testing.T, damage func(t *testing.T, path string)) string {
	t.Helper()
	dir := t.TempDir()
	store, err := Open(t.Context(), Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"a", "b", "c", "d", "\xffa", "\xffb"} {
		mustPut(t, store, "scope", key, strings.Repeat(key, 5_000))
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	damage(t, filepath.Join(dir, fileName))
	return dir
}

func TestCheck_Entries(t *testing.T) {
	for _, tt := range []struct {
		name     string
		bucket   []byte
		key      string
		value    []byte
		wantText string
	}{
		{"no scope", bucketMeta, "scope", []byte("x"), "no scope"},
		{"empty scope", bucketMeta, "\x00key", []byte("x"), "empty name"},
		{"long scope", bucketMeta, strings.Repeat("s", 201) + "\x00key", []byte("x"), "201 bytes"},
		{"no key", bucketMeta, "scope\x00", []byte("x"), "empty"},
		{"long key", bucketMeta, "scope\x00" + strings.Repeat("k", 1281), []byte("x"), "1281 bytes"},
		{"long value", bucketBulk, "scope\x00\xff", make([]byte, maxStoredBytes+1), "262209 bytes"},
		{"contents among records", bucketMeta, "scope\x00\xffkey", []byte("x"), "other bucket"},
		{"record among contents", bucketBulk, "scope\x00key", []byte("x"), "other bucket"},
		{"bucket", bucketMeta, "scope\x00key", nil, "is a bucket"},
		{"unknown bucket", nil, "other", nil, `"other" is unknown`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := damaged(t, func(t *testing.T, path string) {
				db, err := bolt.Open(path, 0o600, nil)
				if err != nil {
					t.Fatal(err)
				}
				err = db.Update(func(tx *bolt.Tx) error {
					if tt.bucket == nil {
						_, err := tx.CreateBucket([]byte(tt.key))
						return err
					}
					if tt.value == nil {
						_, err := tx.Bucket(tt.bucket).CreateBucket([]byte(tt.key))
						return err
					}
					return tx.Bucket(tt.bucket).Put([]byte(tt.key), tt.value)
				})
				if err := errors.Join(err, db.Close()); err != nil {
					t.Fatal(err)
				}
			})
			wantCorrupt(t, dir, tt.wantText)
		})
	}
}

// wantCorrupt checks that a check finds a store corrupt, while it serves and offline.
func wantCorrupt(t *testing.T, dir, wantText string) {
	t.Helper()
	for _, readOnly := range []bool{true, false} {
		store, err := Open(t.Context(), Options{Dir: dir, ReadOnly: readOnly})
		if err != nil {
			t.Fatalf("Open: %v", err)
		}
		err = store.Check(t.Context())
		if !errors.Is(err, kv.ErrCorrupt) || !strings.Contains(err.Error(), wantText) {
			t.Errorf("Check with ReadOnly %v: got error %v, want one that wraps %v and has %q",
				readOnly, err, kv.ErrCorrupt, wantText)
		}
		if err := store.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	}
}

// overwritePages writes a byte over the pages of a type.
func overwritePages(t *testing.T, path, pageType string) {
	t.Helper()
	db, err := bolt.Open(path, 0o600, &bolt.Options{ReadOnly: true, PreLoadFreelist: true})
	if err != nil {
		t.Fatal(err)
	}
	var ids []int
	err = db.View(func(tx *bolt.Tx) error {
		root := int(tx.Cursor().Bucket().RootPage())
		for id := 2; ; id++ {
			page, err := tx.Page(id)
			if err != nil || page == nil {
				return err
			}
			if page.Type == pageType && id != root { // Without the root there are no buckets to speak of.
				ids = append(ids, id)
			}
			if page.Type != "free" { // Else it says what the page was before.
				id += page.OverflowCount
			}
		}
	})
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	if len(ids) == 0 {
		t.Fatalf("found no page of type %s", pageType)
	}
	file, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range ids {
		_, writeErr := file.WriteAt([]byte(strings.Repeat("\xee", 64)), int64(id)*pageSize)
		err = errors.Join(err, writeErr)
	}
	if err := errors.Join(err, file.Close()); err != nil {
		t.Fatal(err)
	}
}

// The schema version is on a page too.
func TestDamagedPages_Schema(t *testing.T) {
	dir := damaged(t, func(t *testing.T, path string) { overwritePages(t, path, "leaf") })
	for _, readOnly := range []bool{true, false} {
		_, err := Open(t.Context(), Options{Dir: dir, ReadOnly: readOnly})
		if !errors.Is(err, kv.ErrCorrupt) {
			t.Errorf("Open with ReadOnly %v: got error %v, want %v", readOnly, err, kv.ErrCorrupt)
		}
	}
}

// A damaged page is an error of what reads it, not the end of the process, and the error has no path of the host.
func TestDamagedPages_Contents(t *testing.T) {
	dir := damaged(t, func(*testing.T, string) {})
	store, err := Open(t.Context(), Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	// While it runs, and in the bucket of contents only.
	var root int64
	err = store.db.View(func(tx *bolt.Tx) error {
		root = int64(tx.Bucket(bucketBulk).RootPage())
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	file, err := os.OpenFile(filepath.Join(dir, fileName), os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = file.WriteAt([]byte(strings.Repeat("\xee", 64)), root*pageSize)
	if err := errors.Join(err, file.Close()); err != nil {
		t.Fatal(err)
	}

	for name, read := range map[string]func(r kv.Reader) error{
		"Get": func(r kv.Reader) error { _, err := r.Get([]byte("\xffa")); return err },
		"Scan": func(r kv.Reader) error {
			return r.Scan(kv.ScanOptions{}, func(_, _ []byte) error { return nil })
		},
	} {
		err := store.View(t.Context(), "scope", read)
		if !errors.Is(err, kv.ErrCorrupt) || strings.Contains(err.Error(), dir) {
			t.Errorf("View with %s: got error %v, want %v without a path", name, err, kv.ErrCorrupt)
		}
		err = store.Update(t.Context(), "scope", func(tx kv.Tx) error { return read(tx) })
		if !errors.Is(err, kv.ErrCorrupt) || strings.Contains(err.Error(), dir) {
			t.Errorf("Update with %s: got error %v, want %v without a path", name, err, kv.ErrCorrupt)
		}
	}
	if _, err := store.Scopes(t.Context(), "", 10); !errors.Is(err, kv.ErrCorrupt) {
		t.Errorf("Scopes: got error %v, want %v", err, kv.ErrCorrupt)
	}
	if err := store.Check(t.Context()); !errors.Is(err, kv.ErrCorrupt) {
		t.Errorf("Check: got error %v, want %v", err, kv.ErrCorrupt)
	}
	// Records are sound, and can be written.
	if got, want := get(t, store, "scope", "a"), strings.Repeat("a", 5_000); got != want {
		t.Errorf("record: got %d bytes, want %d", len(got), len(want))
	}
	mustPut(t, store, "scope", "e", "value")
	// A write to the damaged page fails, and is the last one.
	if err := store.Update(t.Context(), "scope", put("\xffa", "x")); !errors.Is(err, kv.ErrCorrupt) {
		t.Errorf("Update of contents: got error %v, want %v", err, kv.ErrCorrupt)
	}
	if err := store.Update(t.Context(), "scope", put("f", "x")); !errors.Is(err, kv.ErrReadOnly) {
		t.Errorf("next Update: got error %v, want %v", err, kv.ErrReadOnly)
	}
	if got, want := get(t, store, "scope", "e"), "value"; got != want {
		t.Errorf("record: got %q, want %q", got, want)
	}
}
