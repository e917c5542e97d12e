package boltkv

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// fileNames returns the names of the files of a directory.
func fileNames(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	names := []string{}
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names
}

// Processes that start at once in a new directory end with one that has it, and errors that say so.
func TestCreate_AtOnce(t *testing.T) {
	for range 20 {
		dir := t.TempDir()
		const processes = 4
		stores, errs := make([]*Store, processes), make([]error, processes)
		var wg sync.WaitGroup
		for i := range processes {
			wg.Go(func() { stores[i], errs[i] = Open(t.Context(), Options{Dir: dir, LockTimeout: 1}) })
		}
		wg.Wait()
		opened := 0
		for i, store := range stores {
			var inUse *InUseError
			switch {
			case errs[i] == nil:
				opened++
				mustPut(t, store, "a", "key", "value")
				if err := store.Close(); err != nil {
					t.Errorf("Close: %v", err)
				}
			case !errors.As(errs[i], &inUse):
				t.Errorf("got error %v, want an InUseError", errs[i])
			}
		}
		if opened > 1 {
			t.Errorf("got %d stores, want one", opened)
		}
		store := openTest(t, Options{Dir: dir}) // The last to give up may have been the only one.
		if got := get(t, store, "a", "key"); opened == 1 && got != "value" {
			t.Errorf("got %q, want the value that was written", got)
		}
		if err := store.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
		if diff := cmp.Diff([]string{fileName}, fileNames(t, dir)); diff != "" {
			t.Errorf("files: difference (-want +got):\n%s", diff)
		}
	}
}

// What a start left that was cut short is removed, whatever it is.
func TestCreate_Leftover(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "create-1.tmp"), make([]byte, 10_000), 0o600); err != nil {
		t.Fatal(err)
	}
	store := openTest(t, Options{Dir: dir})
	mustPut(t, store, "a", "key", "value")
	if diff := cmp.Diff([]string{lockName, fileName}, fileNames(t, dir)); diff != "" {
		t.Errorf("files: difference (-want +got):\n%s", diff)
	}
}

// A LOCK that somebody removed is no reason for a stop to fail.
func TestClose_LockIsGone(t *testing.T) {
	dir := t.TempDir()
	store := openTest(t, Options{Dir: dir})
	if err := os.Remove(filepath.Join(dir, lockName)); err != nil {
		t.Fatal(err)
	}
	if err := store.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
}

func TestInUseError(t *testing.T) {
	for _, tt := range []struct{ name, lock, want string }{
		{"no file", "", "is in use by another process"},
		{"no JSON", "4711", "is in use by another process"},
		{"process", `{"pid": 4711}`, "is in use by process 4711"},
		{"address", `{"pid": 4711, "address": "unix:///run/m.sock"}`, "by process 4711, which serves unix:///run/m.sock"},
		{"no process", `{"pid": -1, "address": "x"}`, "is in use by another process"},
		{"control characters", `{"pid": 1, "address": "a\u001b[2J\nb"}`, `by process 1, which serves "a\x1b[2J\nb"`},
		{"blank", `{"pid": 1, "address": "a b"}`, `by process 1, which serves "a b"`},
		{"long", `{"pid": 1, "address": "` + string(make([]byte, maxHolderBytes)) + `"}`, "is in use by another process"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			if tt.lock != "" {
				if err := os.WriteFile(filepath.Join(dir, lockName), []byte(tt.lock), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			s := newStore(Options{Dir: dir}, filepath.Join(dir, fileName))
			want := "data directory " + dir + " " + tt.want
			if tt.want[:2] == "by" {
				want = "data directory " + dir + " is in use " + tt.want
			}
			if got := s.inUse().Error(); got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
}

// What LOCK links to is nobody's business.
func TestOpen_LockIsLink(t *testing.T) {
	dir, target := t.TempDir(), filepath.Join(t.TempDir(), "target")
	if err := os.WriteFile(target, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(dir, lockName)
	if err := os.Symlink(target, link); err != nil {
		t.Skip(err)
	}
	store := openTest(t, Options{Dir: dir})
	info, err := os.Lstat(link)
	if err != nil || !info.Mode().IsRegular() {
		t.Errorf("LOCK: got %v, error %v, want a file", info.Mode(), err)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(target); err != nil || string(got) != "precious" {
		t.Errorf("target: got %q, error %v, want it unchanged", got, err)
	}
	if _, err := os.Lstat(link); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("LOCK after Close: got error %v, want it to be gone", err)
	}
}
