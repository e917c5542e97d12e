package boltkv

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-7f2870e1/memoryd/server/kv"
)

// sparse makes a store of which most pages are free.
func sparse(t *testing.T, dir string) {
	t.Helper()
	store := openTest(t, Options{Dir: dir})
	mustPut(t, store, "a", "key", "value")
	mustPut(t, store, "b", "empty", "")
	value := strings.Repeat("v", 200_000)
	for i := range 40 { // 8 MB
		mustPut(t, store, "a", fmt.Sprintf("\xff%02d", i), value)
	}
	err := store.Update(t.Context(), "a", func(tx kv.Tx) error {
		for i := range 35 {
			if err := tx.Delete(fmt.Appendf(nil, "\xff%02d", i)); err != nil {
				return err
			}
		}
		return nil
	})
	if err := errors.Join(err, store.Close()); err != nil {
		t.Fatal(err)
	}
}

// contents are all keys and values of a store.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	store := openTest(t, Options{Dir: dir, ReadOnly: true})
	all := map[string]string{}
	for _, scope := range []string{"a", "b"} {
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
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	return all
}

func TestCompact(t *testing.T) {
	dir := t.TempDir()
	sparse(t, dir)
	want := contents(t, dir)
	before, err := os.Stat(filepath.Join(dir, fileName))
	if err != nil {
		t.Fatal(err)
	}
	report, err := Compact(t.Context(), Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	after, err := os.Stat(filepath.Join(dir, fileName))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(CompactReport{Before: before.Size(), After: after.Size()}, report); diff != "" {
		t.Errorf("report (-want +got):\n%s", diff)
	}
	if least, most := int64(8_000_000), int64(3_000_000); report.Before < least || report.After > most {
		t.Errorf("got %+v, want at least %d before and at most %d after", report, least, most)
	}
	if got, want := after.Mode().Perm(), fs.FileMode(0o600); got != want {
		t.Errorf("got mode %v, want %v", got, want)
	}
	if diff := cmp.Diff(want, contents(t, dir)); diff != "" {
		t.Error("what is stored differs")
	}
	if got := freeListPages(t, filepath.Join(dir, fileName)); got == 0 {
		t.Error("got no list of free pages, want one so that the next start is quick")
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("got files %v, %v, want the database alone", entries, err)
	}
	store := openTest(t, Options{Dir: dir})
	if got, want := store.db.Info().PageSize, pageSize; got != want {
		t.Errorf("got pages of %d bytes, want %d", got, want)
	}
	mustPut(t, store, "a", "key", "again")
}

func TestCompact_Fails(t *testing.T) {
	none := filepath.Join(t.TempDir(), "none")
	if _, err := Compact(t.Context(), Options{Dir: none}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no store: got error %v, want %v", err, fs.ErrNotExist)
	}
	if _, err := os.Stat(none); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("directory: got error %v, want it not to be made", err)
	}
	dir := t.TempDir()
	store := openTest(t, Options{Dir: dir})
	mustPut(t, store, "a", "key", "value")
	var inUse *InUseError
	if _, err := Compact(t.Context(), Options{Dir: dir, LockTimeout: 1}); !errors.As(err, &inUse) {
		t.Errorf("in use: got error %v, want an InUseError", err)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	_, err := Compact(ctx, Options{Dir: dir, step: func(string) { cancel() }})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("interrupted: got error %v, want %v", err, context.Canceled)
	}
	wantNoLeftovers(t, dir)
	wantValue(t, dir, "value")
}

// A copy that lacks a key is not put in the place of the store.
func TestCompact_ComparesKeys(t *testing.T) {
	dir := t.TempDir()
	store := openTest(t, Options{Dir: dir})
	mustPut(t, store, "a", "key", "value")
	temp, err := store.copyCompacted(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	mustPut(t, store, "a", "\xffnot copied", "value")
	err = store.checkCopy(t.Context(), temp)
	if !errors.Is(err, kv.ErrCorrupt) || !strings.Contains(err.Error(), "2 keys of 3") {
		t.Errorf("got error %v, want that a key is missing", err)
	}
}

func childCompact(dir string) int {
	_, err := Compact(context.Background(), Options{Dir: dir, step: stopAt})
	return exitCode(err)
}

func TestCompact_Killed(t *testing.T) {
	for _, step := range []string{"copied", "checked", "swapped"} {
		t.Run(step, func(t *testing.T) {
			dir := t.TempDir()
			sparse(t, dir)
			want := contents(t, dir)
			killAt(t, "compact", dir, step)
			if diff := cmp.Diff(want, contents(t, dir)); diff != "" {
				t.Error("what is stored differs")
			}
			if _, err := Compact(t.Context(), Options{Dir: dir}); err != nil {
				t.Errorf("once more: %v", err)
			}
			wantNoLeftovers(t, dir)
			if diff := cmp.Diff(want, contents(t, dir)); diff != "" {
				t.Error("what is stored differs after a second try")
			}
		})
	}
}
