package boltkv

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	bolt "go.etcd.io/bbolt"

	"github.com/seed-7f2870e1/memoryd/server/kv"
)

// tree returns the files of a directory: name and mode, and contents.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		files[d.Name()+" "+info.Mode().String()] = string(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func TestOpen_MakesDirectory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "data")
	store := openTest(t, Options{Dir: dir, Address: "unix:///run/memoryd.sock"})
	info, err := os.Stat(dir)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := info.Mode().Perm(), fs.FileMode(0o700); got != want {
		t.Errorf("mode of the directory: got %v, want %v", got, want)
	}
	want := []string{"LOCK -rw-------", "memoryd.db -rw-------"}
	if diff := cmp.Diff(want, slices.Sorted(maps.Keys(tree(t, dir)))); diff != "" {
		t.Errorf("files: difference (-want +got):\n%s", diff)
	}
	mustPut(t, store, "a", "key", "value")
	if err := store.Close(); err != nil {
		t.Fatalf("Close: %v", err)
	}
	if diff := cmp.Diff(want[1:], slices.Sorted(maps.Keys(tree(t, dir)))); diff != "" {
		t.Errorf("files after Close: difference (-want +got):\n%s", diff)
	}
	store = openTest(t, Options{Dir: dir})
	if got, want := get(t, store, "a", "key"), "value"; got != want {
		t.Errorf("after opening again: got %q, want %q", got, want)
	}
}

// The address space that is mapped ahead takes no room in the file.
func TestOpen_FileStaysSmall(t *testing.T) {
	dir := t.TempDir()
	store := openTest(t, Options{Dir: dir})
	for range 20 {
		mustPut(t, store, "a", "key", "value")
	}
	info, err := os.Stat(filepath.Join(dir, fileName))
	if err != nil {
		t.Fatal(err)
	}
	if got, most := info.Size(), int64(2*minGrowthBytes); got > most {
		t.Errorf("size of a file of one record: got %d bytes, want at most %d", got, most)
	}
}

func TestOpen_ReadOnly(t *testing.T) {
	dir := t.TempDir()
	store := openTest(t, Options{Dir: dir})
	mustPut(t, store, "a", "key", "value")
	if err := store.Close(); err != nil {
		t.Fatalf("Close: %v", err)
	}
	// What a process leaves that was killed.
	if err := os.WriteFile(filepath.Join(dir, lockName), []byte(`{"pid": 1}`), 0o600); err != nil {
		t.Fatal(err)
	}
	before := tree(t, dir)

	first := openTest(t, Options{Dir: dir, ReadOnly: true})
	second := openTest(t, Options{Dir: dir, ReadOnly: true})
	for _, store := range []*Store{first, second} {
		if got, want := get(t, store, "a", "key"), "value"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		if err := store.Update(t.Context(), "a", put("key", "other")); !errors.Is(err, kv.ErrReadOnly) {
			t.Errorf("Update: got error %v, want %v", err, kv.ErrReadOnly)
		}
		if err := store.Check(t.Context()); err != nil {
			t.Errorf("Check: %v", err)
		}
	}
	var inUse *InUseError
	if _, err := Open(t.Context(), Options{Dir: dir, LockTimeout: 1}); !errors.As(err, &inUse) || inUse.PID != 0 {
		t.Errorf("Open for writing beside it: got error %v, want an InUseError that knows no holder", err)
	}
	if err := errors.Join(first.Close(), second.Close()); err != nil {
		t.Fatalf("Close: %v", err)
	}
	delete(before, "LOCK -rw-------") // Open for writing found out that it was stale.
	if diff := cmp.Diff(before, tree(t, dir)); diff != "" {
		t.Errorf("files: difference (-want +got):\n%s", diff)
	}
}

func TestOpen_Fails(t *testing.T) {
	// A store of some pages, to be damaged.
	intact := t.TempDir()
	store := openTest(t, Options{Dir: intact})
	for _, key := range []string{"a", "b", "\xffa", "\xffb"} {
		mustPut(t, store, "scope", key, strings.Repeat(key, 100_000))
	}
	if err := store.Close(); err != nil {
		t.Fatalf("Close: %v", err)
	}
	whole, err := os.ReadFile(filepath.Join(intact, fileName))
	if err != nil {
		t.Fatal(err)
	}
	rewrite := func(fn func(tx *bolt.Tx) error) func(t *testing.T, path string) {
		return func(t *testing.T, path string) {
			db, err := bolt.Open(path, 0o600, nil)
			if err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(db.Update(fn), db.Close()); err != nil {
				t.Fatal(err)
			}
		}
	}
	write := func(data []byte) func(t *testing.T, path string) {
		return func(t *testing.T, path string) {
			if err := os.WriteFile(path, data, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	setVersion := func(version string) func(t *testing.T, path string) {
		return func(t *testing.T, path string) {
			write(whole)(t, path)
			rewrite(func(tx *bolt.Tx) error { return tx.Bucket(bucketMeta).Put(keySchema, []byte(version)) })(t, path)
		}
	}
	other := rewrite(func(tx *bolt.Tx) error { _, err := tx.CreateBucket([]byte("other")); return err })

	for _, tt := range []struct {
		name         string
		make         func(t *testing.T, path string)
		want         error  // is nil where only the text counts
		wantText     string // besides the name of the file
		readOnlyOnly bool   // a store is made there otherwise
	}{
		{"no file", nil, fs.ErrNotExist, "", true},
		{"empty file", write(nil), kv.ErrCorrupt, "is truncated, it has 0 bytes", false},
		{"no schema", rewrite(func(*bolt.Tx) error { return nil }), nil, "no schema version", true},
		{"text", write([]byte(strings.Repeat("no database\n", 10_000))), kv.ErrCorrupt, "no database of bbolt", false},
		{"short text", write([]byte("no database\n")), kv.ErrCorrupt, "no database of bbolt", false},
		{"truncated to half", write(whole[:len(whole)/2]), kv.ErrCorrupt, "is truncated", false},
		{"truncated to two pages", write(whole[:2*pageSize]), kv.ErrCorrupt, "is truncated", false},
		{"truncated to one page", write(whole[:pageSize]), kv.ErrCorrupt, "is truncated, it has 8192 bytes", false},
		{"truncated to 9,000 bytes", write(whole[:9000]), kv.ErrCorrupt, "is truncated, it has 9000 bytes", false},
		{"truncated to 3,000 bytes", write(whole[:3000]), kv.ErrCorrupt, "is truncated, it has 3000 bytes", false},
		{"of another program", other, nil, "not of memoryd", false},
		{"newer schema", setVersion("2"), nil, "schema version 2", false},
		{"odd schema", setVersion("x"), kv.ErrCorrupt, `"x"`, false},
	} {
		for _, readOnly := range []bool{true, false} {
			if tt.readOnlyOnly && !readOnly {
				continue
			}
			name := tt.name
			if readOnly {
				name += ", read-only"
			}
			t.Run(name, func(t *testing.T) {
				dir := filepath.Join(t.TempDir(), "data")
				if tt.make != nil {
					if err := os.Mkdir(dir, 0o700); err != nil {
						t.Fatal(err)
					}
					tt.make(t, filepath.Join(dir, fileName))
				}
				_, statErr := os.Stat(dir)
				var before map[string]string
				if statErr == nil {
					before = tree(t, dir)
				}
				_, err := Open(t.Context(), Options{Dir: dir, ReadOnly: readOnly})
				if err == nil || tt.want != nil && !errors.Is(err, tt.want) {
					t.Fatalf("got error %v, want %v", err, tt.want)
				}
				for _, text := range []string{fileName, tt.wantText} {
					if !strings.Contains(err.Error(), text) {
						t.Errorf("got error %q, want one with %q", err, text)
					}
				}
				if statErr != nil {
					if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
						t.Errorf("directory: got error %v, want it not to be made", err)
					}
					return
				}
				if diff := cmp.Diff(before, tree(t, dir)); diff != "" {
					t.Errorf("files: difference (-want +got):\n%s", diff)
				}
			})
		}
	}
}

func TestOpen_Options(t *testing.T) {
	if _, err := Open(t.Context(), Options{}); err == nil || !strings.Contains(err.Error(), "no data directory") {
		t.Errorf("no directory: got error %v", err)
	}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	dir := filepath.Join(t.TempDir(), "data")
	if _, err := Open(cancelled, Options{Dir: dir}); !errors.Is(err, context.Canceled) {
		t.Errorf("context that is done: got error %v, want %v", err, context.Canceled)
	}
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("directory: got error %v, want it not to be made", err)
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), Options{Dir: file}); err == nil {
		t.Error("directory that is a file: got no error")
	}
}

// A database without a bucket is that of a new store.
func TestOpen_NoSchemaIsNew(t *testing.T) {
	dir := t.TempDir()
	db, err := bolt.Open(filepath.Join(dir, fileName), 0o600, &bolt.Options{PageSize: pageSize})
	if err == nil {
		err = db.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	mustPut(t, openTest(t, Options{Dir: dir}), "a", "key", "value")
}

// Whoever finds that the file is too short for any database reads what to do. What is done is theirs to decide.
func TestOpen_TooShortSaysWhatToDo(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, fileName)
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Open(t.Context(), Options{Dir: dir})
	want := "open store: " + path + " is truncated, it has 0 bytes: store is corrupt; restore a backup, or move the file " +
		"away to begin without memories"
	if err == nil || err.Error() != want {
		t.Errorf("got error %v, want %q", err, want)
	}
}

// A clean stop leaves the list of free pages in the file, so that the next start reads no tree to find it.
func TestClose_WritesFreeList(t *testing.T) {
	dir := t.TempDir()
	store := openTest(t, Options{Dir: dir})
	for i := range 10 {
		mustPut(t, store, "a", strings.Repeat("k", i+1), strings.Repeat("v", 10_000))
	}
	// A copy of what is in the file while the store runs is what a crash leaves.
	crashed := filepath.Join(t.TempDir(), fileName)
	data, err := os.ReadFile(filepath.Join(dir, fileName))
	if err == nil {
		err = os.WriteFile(crashed, data, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	if got := freeListPages(t, crashed); got != 0 {
		t.Errorf("while it runs: got %d pages of a list of free pages, want none", got)
	}
	if err := store.Close(); err != nil {
		t.Fatalf("Close: %v", err)
	}
	if got := freeListPages(t, filepath.Join(dir, fileName)); got == 0 {
		t.Error("after Close: got no list of free pages, want one")
	}
}

// freeListPages counts the pages that hold a list of free pages, old ones that are free themselves not counted.
func freeListPages(t *testing.T, path string) int {
	t.Helper()
	db, err := bolt.Open(path, 0o600, &bolt.Options{ReadOnly: true, PreLoadFreelist: true})
	if err != nil {
		t.Fatal(err)
	}
	count := 0
	err = db.View(func(tx *bolt.Tx) error {
		for id := 0; ; id++ {
			page, err := tx.Page(id)
			if err != nil || page == nil {
				return err
			}
			if page.Type == "freelist" {
				count++
			}
			id += page.OverflowCount
		}
	})
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	return count
}

// The log of a start says what takes long after a crash, how far it is, and how long it took.
func TestOpen_UncleanIsLogged(t *testing.T) {
	dir := t.TempDir()
	store := openTest(t, Options{Dir: dir})
	for i := range 4 {
		mustPut(t, store, "a", fmt.Sprintf("\xff%d", i), strings.Repeat("v", 250_000))
	}
	crashed := t.TempDir()
	for _, name := range []string{fileName, lockName} { // What is there while the store runs is what a crash leaves.
		if err := copyFile(filepath.Join(dir, name), filepath.Join(crashed, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	open := func(dir string) string {
		var log bytes.Buffer
		s := newStore(Options{Dir: dir, Logger: slog.New(slog.NewTextHandler(&log, nil))}, filepath.Join(dir, fileName))
		clock := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
		s.now = func() time.Time {
			clock = clock.Add(warmUpLogInterval)
			return clock
		}
		if err := s.openWritable(t.Context()); err != nil {
			t.Fatal(err)
		}
		go s.commitLoop()
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		return log.String()
	}
	log := open(crashed)
	for _, want := range []string{
		`msg="store was not closed cleanly, reading it to find its free pages"`, `msg="reading store" read_bytes=1048576 `,
		`msg="found the free pages of the store"`, "took=",
	} {
		if !strings.Contains(log, want) {
			t.Errorf("after a crash the log lacks %s:\n%s", want, log)
		}
	}
	for name, dir := range map[string]string{"crashed before": crashed, "never crashed": dir} {
		if log := open(dir); log != "" {
			t.Errorf("%s: after a clean stop something was logged:\n%s", name, log)
		}
	}
}
