package boltkv

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/seed-7f2870e1/memoryd/server/kv"
)

// readBackup makes a backup and returns its bytes.
func readBackup(t *testing.T, store *Store) []byte {
	t.Helper()
	backup, err := store.Backup(t.Context())
	if err != nil {
		t.Fatalf("Backup: %v", err)
	}
	data, err := io.ReadAll(backup)
	if err := errors.Join(err, backup.Close()); err != nil {
		t.Fatalf("read backup: %v", err)
	}
	if got, want := int64(len(data)), backup.Size(); got != want {
		t.Errorf("got %d bytes, want the %d of its size", got, want)
	}
	return data
}

// backupFile writes a backup to a file of its own and returns the path.
func backupFile(t *testing.T, store *Store) string {
	t.Helper()
	return writeTemp(t, readBackup(t, store))
}

func writeTemp(t *testing.T, data []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "memoryd.backup")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// wantNoLeftovers checks that a data directory has no file that is under way.
func wantNoLeftovers(t *testing.T, dir string) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*.tmp"))
	if err != nil || len(names) > 0 {
		t.Errorf("left over: %q, %v", names, err)
	}
}

func TestBackup(t *testing.T) {
	dir := t.TempDir()
	store := openTest(t, Options{Dir: dir})
	mustPut(t, store, "a", "key", "old")
	mustPut(t, store, "a", "\xffcontents", strings.Repeat("v", 100_000))
	path := backupFile(t, store)
	mustPut(t, store, "a", "key", "new")
	wantNoLeftovers(t, dir)

	backup, err := OpenBackup(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := get(t, backup, "a", "key"), "old"; got != want {
		t.Errorf("got %q in the backup, want %q", got, want)
	}
	if err := errors.Join(backup.Check(t.Context()), backup.Close()); err != nil {
		t.Error(err)
	}
}

// Whoever reads a backup slowly, or not at all, keeps nobody from writing: neither where the file outgrows what is
// mapped, nor where pages could not be used again.
func TestBackup_ReaderStopsNobody(t *testing.T) {
	store := openTest(t, Options{Dir: t.TempDir(), MapBytes: 64 << 10})
	mustPut(t, store, "a", "key", "first")
	backup, err := store.Backup(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	value := strings.Repeat("v", 100_000)
	for i := range 50 { // 5 MB
		mustPut(t, store, "a", fmt.Sprintf("\xff%d", i), value)
	}
	info, err := os.Stat(store.path)
	if err != nil {
		t.Fatal(err)
	}
	if info.Size() < 5_000_000 {
		t.Fatalf("the file has %d bytes, which does not show that it outgrew the map", info.Size())
	}
	if n := store.db.Stats().OpenTxN; n != 0 {
		t.Errorf("got %d transactions that read, want none", n)
	}
	data, err := io.ReadAll(backup)
	if err := errors.Join(err, backup.Close()); err != nil {
		t.Fatal(err)
	}
	copied, err := OpenBackup(t.Context(), writeTemp(t, data))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := get(t, copied, "a", "key"), "first"; got != want {
		t.Errorf("got %q in the backup, want %q", got, want)
	}
	if err := errors.Join(copied.Check(t.Context()), copied.Close()); err != nil {
		t.Error(err)
	}
}

func TestBackup_WhileWriting(t *testing.T) {
	store := openTest(t, Options{Dir: t.TempDir(), MapBytes: 64 << 10})
	mustPut(t, store, "a", "n", "0")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() { // The two keys are always alike.
		for i := 0; ctx.Err() == nil; i++ {
			value := []byte(strings.Repeat(fmt.Sprint(i%10), 1000*(1+i%50)))
			err := store.Update(context.WithoutCancel(ctx), "a", func(tx kv.Tx) error {
				return errors.Join(tx.Put([]byte("n"), value), tx.Put([]byte("\xffn"), value))
			})
			if err != nil {
				done <- err
				return
			}
		}
		done <- nil
	}()
	for range 20 {
		backup, err := OpenBackup(t.Context(), backupFile(t, store))
		if err != nil {
			t.Fatal(err)
		}
		if record := get(t, backup, "a", "n"); record != "0" {
			if contents := get(t, backup, "a", "\xffn"); record != contents {
				t.Errorf("got a record of %d bytes with contents of %d, want those of one update",
					len(record), len(contents))
			}
		}
		if err := errors.Join(backup.Check(t.Context()), backup.Close()); err != nil {
			t.Error(err)
		}
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestBackup_Fails(t *testing.T) {
	dir := t.TempDir()
	store := openTest(t, Options{Dir: dir})
	mustPut(t, store, "a", "key", "value")
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := store.Backup(cancelled); !errors.Is(err, context.Canceled) {
		t.Errorf("context that is done: got error %v, want %v", err, context.Canceled)
	}
	if _, err := store.writeBackup(cancelled, io.Discard); !errors.Is(err, context.Canceled) {
		t.Errorf("context that is done while it writes: got error %v, want %v", err, context.Canceled)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Backup(t.Context()); !errors.Is(err, kv.ErrClosed) {
		t.Errorf("closed store: got error %v, want %v", err, kv.ErrClosed)
	}
	reader := openTest(t, Options{Dir: dir, ReadOnly: true})
	if _, err := reader.Backup(t.Context()); !errors.Is(err, kv.ErrReadOnly) {
		t.Errorf("opened for reading: got error %v, want %v", err, kv.ErrReadOnly)
	}
	wantNoLeftovers(t, dir)
}

// What a process left that was killed while it made a backup is removed by the next start, and nothing else is.
func TestOpen_RemovesLeftovers(t *testing.T) {
	dir := t.TempDir()
	stay := []string{"notes.tmp", "backup-of-mine", "memoryd.db.schema-0"}
	for _, name := range append([]string{"backup-1.tmp", "restore-2.tmp", "compact-3.tmp", "schema-4.tmp"}, stay...) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	store := openTest(t, Options{Dir: dir})
	mustPut(t, store, "a", "key", "value")
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, entry := range entries {
		got = append(got, entry.Name())
	}
	want := "LOCK backup-of-mine memoryd.db memoryd.db.schema-0 notes.tmp"
	if strings.Join(got, " ") != want {
		t.Errorf("got %q, want %s", got, want)
	}
}

func TestOpenBackup_Refuses(t *testing.T) {
	dir := t.TempDir()
	store := openTest(t, Options{Dir: dir})
	mustPut(t, store, "a", "\xffcontents", strings.Repeat("v", 100_000))
	whole := readBackup(t, store)
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	database, err := os.ReadFile(filepath.Join(dir, fileName))
	if err != nil {
		t.Fatal(err)
	}
	flip := func(at int) []byte {
		data := bytes.Clone(whole)
		data[at] ^= 1
		return data
	}
	newer := openVersion(t, t.TempDir(), []migration{{name: "none"}})

	for _, tt := range []struct {
		name string
		data []byte
		want string
	}{
		{"empty", nil, "is truncated, it has 0 bytes"},
		{"text", []byte(strings.Repeat("no backup\n", 10_000)), "no database of bbolt"},
		{"the trailer is missing", whole[:len(whole)-trailerBytes], ErrNoBackup.Error()},
		{"a byte is missing", whole[:len(whole)-1], fmt.Sprintf("has %d bytes of %d", len(whole)-1, len(whole))},
		{"half is missing", whole[:len(whole)/2], "is truncated"},
		{"all but the first page is missing", whole[:9000], "is truncated, it has 9000 bytes"},
		{"nearly all is missing", whole[:100], ""},
		{"a byte too many", append(bytes.Clone(whole), 0), "is no backup, or was added to"},
		{"a database", database, ErrNoBackup.Error()},
		{"a database of which all is used", database[:len(whole)-trailerBytes], ErrNoBackup.Error()},
		{"a byte of the first page", flip(100), "was changed"},
		{"a byte of the last page", flip(len(whole) - trailerBytes - 1), "was changed"},
		{"a byte in the middle", flip(len(whole) / 2), "was changed"},
		{"a byte of the trailer", flip(len(whole) - 1), "was changed"},
		{"newer", readBackup(t, newer), "has schema version 2; this memoryd reads up to 1; use a newer memoryd"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			path := writeTemp(t, tt.data)
			_, err := OpenBackup(t.Context(), path)
			if err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got error %v, want one with %q and %q", err, path, tt.want)
			}
			if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, tt.data) {
				t.Errorf("the file was changed (%v)", err)
			}
		})
	}
	t.Run("directory", func(t *testing.T) {
		if _, err := OpenBackup(t.Context(), dir); err == nil || !strings.Contains(err.Error(), "regular file") {
			t.Errorf("got error %v, want that it is not a regular file", err)
		}
	})
	t.Run("older", func(t *testing.T) {
		s := newStore(Options{migrations: []migration{{name: "none"}}, ReadOnly: true}, writeTemp(t, whole))
		err := s.openBackup(t.Context())
		if err == nil || !strings.Contains(err.Error(), "has schema version 1 and this memoryd reads 2") {
			t.Errorf("got error %v, want that the schema version is older", err)
		}
	})
}

// childFull makes a backup where files cannot become as large as that takes, which is to the store as if the disk were
// full, and says what came of it.
func childFull(dir string) int {
	store, err := Open(context.Background(), Options{Dir: dir})
	if err != nil {
		return exitCode(err)
	}
	err = store.Update(context.Background(), "a", func(tx kv.Tx) error {
		var err error
		for i := range 20 {
			err = errors.Join(err, tx.Put(fmt.Appendf(nil, "\xff%d", i), make([]byte, 100_000)))
		}
		return err
	})
	if err != nil {
		return exitCode(err)
	}
	signal.Ignore(syscall.SIGXFSZ)
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: 1_000_000, Max: 1_000_000}); err != nil {
		return exitCode(err)
	}
	_, err = store.Backup(context.Background())
	fmt.Fprintln(os.Stdout, errors.Is(err, kv.ErrFull), err)
	return 0
}

func TestBackup_Full(t *testing.T) {
	dir := t.TempDir()
	child := startChild(t, "full", dir)
	if got := child.line(); !strings.HasPrefix(got, "true ") {
		t.Errorf("got %q, want an error that is %v", got, kv.ErrFull)
	}
	if err := child.cmd.Wait(); err != nil {
		t.Errorf("child: %v", err)
	}
	wantNoLeftovers(t, dir)
	checkClosed(t, dir)
}

func TestCheckRoom(t *testing.T) {
	if err := CheckRoom(t.TempDir(), 1); err != nil {
		t.Errorf("a byte: got error %v", err)
	}
	if _, ok := freeBytes(t.TempDir()); !ok {
		t.Skip("this file system does not say how much room it has")
	}
	if err := CheckRoom(t.TempDir(), 1<<60); !errors.Is(err, kv.ErrFull) {
		t.Errorf("more than any disk has: got error %v, want %v", err, kv.ErrFull)
	}
}
