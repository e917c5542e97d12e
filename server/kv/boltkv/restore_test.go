package boltkv

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func restoreNow() time.Time { return time.Date(2026, 11, 30, 12, 0, 1, 0, time.UTC) }

const beforeRestore = "memoryd.db.before-restore-20261130T120001Z"

// fixture is a backup file with one value of a key.
func fixture(t *testing.T, value string) string {
	t.Helper()
	store := openTest(t, Options{Dir: t.TempDir()})
	mustPut(t, store, "a", "key", value)
	return backupFile(t, store)
}

// wantValue checks that the store of a directory is sound and has a value.
func wantValue(t *testing.T, dir, want string) {
	t.Helper()
	store := openTest(t, Options{Dir: dir, ReadOnly: true})
	if got := get(t, store, "a", "key"); got != want {
		t.Errorf("got value %q, want %q", got, want)
	}
	if err := store.Close(); err != nil {
		t.Error(err)
	}
}

func TestRestore(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "data")
	kept, err := Restore(t.Context(), RestoreOptions{File: fixture(t, "value"), Dir: dir, Now: restoreNow})
	if err != nil {
		t.Fatal(err)
	}
	if kept != "" {
		t.Errorf("got %q as the store that was there, want none", kept)
	}
	if got := freeListPages(t, filepath.Join(dir, fileName)); got == 0 {
		t.Error("got no list of free pages, want one so that the next start is quick")
	}
	files := tree(t, dir)
	if _, ok := files["memoryd.db -rw-------"]; !ok || len(files) != 1 {
		t.Errorf("got files %v, want the database alone, with mode 0600", len(files))
	}
	wantValue(t, dir, "value")
}

func TestRestore_StoreExists(t *testing.T) {
	dir := t.TempDir()
	store := openTest(t, Options{Dir: dir})
	mustPut(t, store, "a", "key", "old")
	options := RestoreOptions{File: fixture(t, "new"), Dir: dir, Force: true, Now: restoreNow}

	var inUse *InUseError
	if _, err := Restore(t.Context(), options); !errors.As(err, &inUse) || inUse.PID != os.Getpid() {
		t.Errorf("while it is open: got error %v, want an InUseError that names the process", err)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	before := tree(t, dir)
	options.Force = false
	if _, err := Restore(t.Context(), options); !errors.Is(err, ErrStoreExists) {
		t.Errorf("without force: got error %v, want %v", err, ErrStoreExists)
	}
	if diff := cmp.Diff(before, tree(t, dir)); diff != "" {
		t.Errorf("files: difference (-want +got):\n%s", diff)
	}

	// What a process leaves that was killed.
	if err := os.WriteFile(filepath.Join(dir, lockName), []byte(`{"pid": 1}`), 0o600); err != nil {
		t.Fatal(err)
	}
	options.Force = true
	kept, err := Restore(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	if want := filepath.Join(dir, beforeRestore); kept != want {
		t.Errorf("got %q as the store that was there, want %q", kept, want)
	}
	wantValue(t, dir, "new")
	old := t.TempDir()
	if err := os.Rename(kept, filepath.Join(old, fileName)); err != nil {
		t.Fatal(err)
	}
	wantValue(t, old, "old")
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Errorf("got files %v, %v, want the database alone", entries, err)
	}
}

// A store that is beyond use is the one that needs a restore most.
func TestRestore_OverDamagedStore(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, fileName), []byte("no database"), 0o600); err != nil {
		t.Fatal(err)
	}
	options := RestoreOptions{File: fixture(t, "value"), Dir: dir, Now: restoreNow}
	if _, err := Restore(t.Context(), options); !errors.Is(err, ErrStoreExists) {
		t.Errorf("without force: got error %v, want %v", err, ErrStoreExists)
	}
	options.Force = true
	if _, err := Restore(t.Context(), options); err != nil {
		t.Fatal(err)
	}
	wantValue(t, dir, "value")
	if got, err := os.ReadFile(filepath.Join(dir, beforeRestore)); err != nil || string(got) != "no database" {
		t.Errorf("got %q, %v as the store that was there, want it unchanged", got, err)
	}
}

func TestRestore_RefusesBeforeItTouches(t *testing.T) {
	file := fixture(t, "new")
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	changed := bytes.Clone(data)
	changed[len(changed)/2] ^= 1
	errCheck := errors.New("not sound")
	for name, options := range map[string]RestoreOptions{
		"truncated": {File: writeTemp(t, data[:len(data)-1])},
		"changed":   {File: writeTemp(t, changed)},
		"no file":   {File: filepath.Join(t.TempDir(), "none")},
		"check":     {File: file, Check: func(context.Context, *Store) error { return errCheck }},
	} {
		t.Run(name, func(t *testing.T) {
			options.Force, options.Now = true, restoreNow
			options.Dir = filepath.Join(t.TempDir(), "data")
			if _, err := Restore(t.Context(), options); err == nil {
				t.Error("into a new directory: got no error")
			}
			if _, err := os.Stat(options.Dir); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("directory: got error %v, want it not to be made", err)
			}
			store := openTest(t, Options{Dir: options.Dir})
			mustPut(t, store, "a", "key", "old")
			if err := store.Close(); err != nil {
				t.Fatal(err)
			}
			before := tree(t, options.Dir)
			if _, err := Restore(t.Context(), options); err == nil {
				t.Error("over a store: got no error")
			}
			if diff := cmp.Diff(before, tree(t, options.Dir)); diff != "" {
				t.Errorf("files: difference (-want +got):\n%s", diff)
			}
		})
	}
}

// Where there was no store to lock, one that a server made meanwhile stays.
func TestRestore_ServerStartsMeanwhile(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	_, err := Restore(t.Context(), RestoreOptions{
		File: fixture(t, "restored"), Dir: dir, Now: restoreNow,
		Check: func(context.Context, *Store) error {
			mustPut(t, openTest(t, Options{Dir: dir}), "a", "key", "server")
			return nil
		},
	})
	if !errors.Is(err, ErrStoreExists) {
		t.Errorf("got error %v, want %v", err, ErrStoreExists)
	}
	wantNoLeftovers(t, dir)
}

// A start that waited for the lock does not go on with a file that has lost its name.
func TestOpen_ReplacedMeanwhile(t *testing.T) {
	dir := t.TempDir()
	store := openTest(t, Options{Dir: dir})
	mustPut(t, store, "a", "key", "old")
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	replaced := false
	_, err := Open(t.Context(), Options{Dir: dir, step: func(name string) {
		if name == "opened" && !replaced {
			replaced = true
			_, err := Restore(t.Context(), RestoreOptions{File: fixture(t, "new"), Dir: dir, Force: true, Now: restoreNow})
			if err != nil {
				t.Errorf("restore: %v", err)
			}
		}
	}})
	if err == nil || !strings.Contains(err.Error(), "was replaced while it was being opened") {
		t.Errorf("got error %v, want that the store was replaced", err)
	}
	wantValue(t, dir, "new")
}

func TestLink(t *testing.T) {
	dir := t.TempDir()
	from, to := filepath.Join(dir, "from"), filepath.Join(dir, "to")
	for _, path := range []string{from, to} {
		if err := os.WriteFile(path, []byte(path), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := link(from, to); !errors.Is(err, fs.ErrExist) {
		t.Errorf("to a name that is taken: got error %v, want %v", err, fs.ErrExist)
	}
	if got, err := os.ReadFile(to); err != nil || string(got) != to {
		t.Errorf("got %q, %v, want the file that was there", got, err)
	}
	if err := link(from, filepath.Join(dir, "free")); err != nil {
		t.Error(err)
	}
}

// stepEnv names the step at which a child stops and waits to be killed.
const stepEnv = "BOLTKV_TEST_STEP"

// stopAt is a function for the steps of a child: it says on standard output where it is, and waits for ever at the step
// that stepEnv names.
func stopAt(step string) {
	if step != os.Getenv(stepEnv) {
		return
	}
	fmt.Fprintln(os.Stdout, step)
	_, _ = bufio.NewReader(os.Stdin).ReadByte()
}

// killAt starts a child and kills it at a step.
func killAt(t *testing.T, name, dir, step string) {
	t.Helper()
	t.Setenv(stepEnv, step)
	child := startChild(t, name, dir)
	if got := child.line(); got != step {
		t.Fatalf("child: got %q, want %q", got, step)
	}
	if err := child.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = child.cmd.Wait() // It was killed.
}

// exitCode is the exit status of a child for how it ended.
func exitCode(err error) int {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// childRestore restores the backup file beside the data directory.
func childRestore(dir string) int {
	_, err := Restore(context.Background(), RestoreOptions{
		File: filepath.Join(dir, "..", "backup"), Dir: dir, Force: true, Now: restoreNow, step: stopAt,
	})
	return exitCode(err)
}

func TestRestore_Killed(t *testing.T) {
	for step, want := range map[string]string{"unpacked": "old", "kept": "old", "placed": "new"} {
		t.Run(step, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "data")
			if err := os.Rename(fixture(t, "new"), filepath.Join(dir, "..", "backup")); err != nil {
				t.Fatal(err)
			}
			store := openTest(t, Options{Dir: dir})
			mustPut(t, store, "a", "key", "old")
			if err := store.Close(); err != nil {
				t.Fatal(err)
			}
			killAt(t, "restore", dir, step)
			wantValue(t, dir, want)
			store = openTest(t, Options{Dir: dir})
			wantNoLeftovers(t, dir)
			if got := get(t, store, "a", "key"); got != want {
				t.Errorf("opened for writing: got %q, want %q", got, want)
			}
		})
	}
}

// Into a directory without a store: what is left is no store, which the next start may make, and never half of one.
func TestRestore_KilledBeforeThereIsAStore(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	if err := os.Rename(fixture(t, "new"), filepath.Join(dir, "..", "backup")); err != nil {
		t.Fatal(err)
	}
	killAt(t, "restore", dir, "unpacked")
	if _, err := os.Stat(filepath.Join(dir, fileName)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got error %v, want no store", err)
	}
	if _, err := Restore(t.Context(), RestoreOptions{
		File: filepath.Join(dir, "..", "backup"), Dir: dir, Now: restoreNow,
	}); err != nil {
		t.Fatal(err)
	}
	wantValue(t, dir, "new")
}
