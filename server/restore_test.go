package server

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"

	memoryv1 "github.com/seed-7f2870e1/memoryd/gen/memoryd/v1"
	"github.com/seed-7f2870e1/memoryd/server/kv"
	"github.com/seed-7f2870e1/memoryd/server/kv/boltkv"
)

// receiveBackup receives what is left of a backup as a file.
func receiveBackup(t *testing.T, stream memoryv1.AdminService_BackupClient) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "backup")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	for {
		resp, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if _, err := file.Write(resp.GetChunk()); err != nil {
			t.Fatal(err)
		}
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

// boltStore is a store on disk that maps little, so that a small test outgrows it.
func boltStore(t *testing.T, dir string) *boltkv.Store {
	t.Helper()
	store, err := boltkv.Open(t.Context(), boltkv.Options{Dir: dir, MapBytes: 64 << 10})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(store.Check(context.Background()), store.Close()); err != nil {
			t.Error(err)
		}
	})
	return store
}

// A client that does not read keeps nobody from writing, also where the file outgrows what is mapped.
func TestBackup_SlowClientStopsNobody(t *testing.T) {
	dir := t.TempDir()
	r := start(t, Config{Store: boltStore(t, dir)})
	files := memoryv1.NewMemoryServiceClient(r.conn)
	create := func(path string) {
		t.Helper()
		resp, err := files.Create(t.Context(), &memoryv1.CreateRequest{
			Namespace: "a", Path: path, FileText: strings.Repeat("x", 500_000),
		})
		if err != nil || resp.GetResult().GetIsError() {
			t.Fatalf("got %v, %v", resp, err)
		}
	}
	create("/memories/before")

	// On a connection of its own, whose windows fill up.
	conn := dial(t, r.Addrs()[0])
	t.Cleanup(func() {
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
	})
	stream, err := memoryv1.NewAdminServiceClient(conn).Backup(t.Context(), &memoryv1.BackupRequest{})
	if err != nil {
		t.Fatal(err)
	}
	header, err := stream.Recv()
	if err != nil || header.GetHeader().GetSizeBytes() < 500_000 {
		t.Fatalf("got %v, %v, want the header", header, err)
	}
	for _, name := range []string{"1", "2", "3", "4", "5", "6", "7", "8", "9", "10"} {
		create("/memories/" + name)
	}
	info, err := os.Stat(filepath.Join(dir, "memoryd.db"))
	if err != nil || info.Size() < 5_000_000 {
		t.Fatalf("got a file of %v, %v, want one that outgrew what was mapped", info.Size(), err)
	}
	got, err := Verify(t.Context(), receiveBackup(t, stream), Keyset{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(CheckReport{Namespaces: 1, Files: 1, Bytes: 500_000}, got); diff != "" {
		t.Errorf("the backup (-want +got):\n%s", diff)
	}
}

// A backup goes on for longer than any call may take, as long as the client takes what is sent.
func TestBackup_OutlastsCallTimeout(t *testing.T) {
	const call = 20 * time.Millisecond
	store := boltStore(t, t.TempDir())
	r := start(t, Config{Store: store, CallTimeout: call})
	began := time.Now()
	stream, err := memoryv1.NewAdminServiceClient(r.conn).Backup(t.Context(), &memoryv1.BackupRequest{
		MaxBytesPerSecond: 40_000, // The store has at least 4 pages of 8 KiB.
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Verify(t.Context(), receiveBackup(t, stream), Keyset{}); err != nil {
		t.Error(err)
	}
	if took, least := time.Since(began), streamAllowance*call; took < least {
		t.Errorf("it took %s, which shows nothing; want more than %s", took, least)
	}
}

func TestBackup_Unsupported(t *testing.T) {
	r := start(t, Config{})
	stream, err := memoryv1.NewAdminServiceClient(r.conn).Backup(t.Context(), &memoryv1.BackupRequest{})
	if err == nil {
		_, err = stream.Recv()
	}
	wantStatus(t, err, codes.Unimplemented, "BACKUP_UNSUPPORTED")
}

// backedUpData is a data directory and a backup of it, with two files in each of two namespaces.
func backedUpData(t *testing.T) (data, backup string) {
	t.Helper()
	data = filledData(t)
	backups := t.TempDir()
	log := &logBuffer{}
	r := start(t, Config{Data: data, BackupDir: backups, BackupEvery: time.Hour, Logger: log.logger()})
	stream, err := memoryv1.NewAdminServiceClient(r.conn).Backup(t.Context(), &memoryv1.BackupRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); err != nil {
		t.Fatal(err)
	}
	backup = receiveBackup(t, stream)
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	return data, backup
}

func TestRestore(t *testing.T) {
	data, backup := backedUpData(t)
	want := CheckReport{Namespaces: 2, Files: 4, Bytes: 20}
	if got, err := Verify(t.Context(), backup, Keyset{}); err != nil || got != want {
		t.Errorf("Verify: got %+v, %v, want %+v", got, err, want)
	}
	fresh := filepath.Join(t.TempDir(), "fresh")
	got, err := Restore(t.Context(), RestoreOptions{File: backup, Data: fresh})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(RestoreReport{Restored: want}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got, err := Check(t.Context(), fresh, Keyset{}); err != nil || got != want {
		t.Errorf("Check: got %+v, %v, want %+v", got, err, want)
	}
	if _, err := Restore(t.Context(), RestoreOptions{File: backup, Data: data}); !errors.Is(err, boltkv.ErrStoreExists) {
		t.Errorf("over a store: got %v, want %v", err, boltkv.ErrStoreExists)
	}
	got, err = Restore(t.Context(), RestoreOptions{File: backup, Data: data, Force: true})
	if err != nil || !strings.HasPrefix(got.Kept, filepath.Join(data, "memoryd.db.before-restore-")) {
		t.Errorf("with Force: got %+v, %v, want where the old store is", got, err)
	}
}

// A backup that is not encrypted is restored without a keyset alone, and the report says where that takes the encryption
// away.
func TestRestore_NotEncrypted(t *testing.T) {
	_, backup := backedUpData(t)
	k := newKeyset(t)
	sealed, plain, damaged := sealedData(t, k), filledData(t), sealedData(t, k)
	if err := os.Truncate(filepath.Join(damaged, "memoryd.db"), 8<<10); err != nil {
		t.Fatal(err)
	}
	before := snapshotDir(t, sealed)
	got, err := Restore(t.Context(), RestoreOptions{File: backup, Data: sealed, Keyset: k, Force: true})
	const way = "restore it without a keyset, and then encrypt it with this one: memoryd encrypt"
	var invalid *ConfigError
	if !errors.As(err, &invalid) || invalid.Field != "EncryptionKeyset" || !strings.Contains(invalid.Want, way) {
		t.Errorf("with a keyset: got %+v, %v, want %s", got, err, way)
	}
	if diff := cmp.Diff(before, snapshotDir(t, sealed)); diff != "" {
		t.Error("with a keyset: the directory has changed")
	}
	for _, tt := range []struct {
		name, data string
		want       bool
	}{
		{"over an encrypted store", sealed, true},
		{"over one that is not", plain, false},
		{"over one that cannot be read", damaged, false},
		{"over none", filepath.Join(t.TempDir(), "fresh"), false},
	} {
		got, err := Restore(t.Context(), RestoreOptions{File: backup, Data: tt.data, Force: true})
		if err != nil || got.NoLongerEncrypted != tt.want {
			t.Errorf("%s: got %+v, %v, want NoLongerEncrypted %v", tt.name, got, err, tt.want)
		}
	}
}

// A store that is sound as a store is not restored where its namespaces are not.
func TestRestore_NamespaceNotSound(t *testing.T) {
	data := filledData(t)
	store, err := boltkv.Open(t.Context(), boltkv.Options{Dir: data})
	if err != nil {
		t.Fatal(err)
	}
	err = store.Update(t.Context(), "a", func(tx kv.Tx) error {
		var contents [][]byte
		err := tx.Scan(kv.ScanOptions{Prefix: []byte{kv.BulkPrefix}, KeysOnly: true}, func(key, _ []byte) error {
			contents = append(contents, bytes.Clone(key))
			return nil
		})
		for _, key := range contents {
			err = errors.Join(err, tx.Delete(key))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	backup, err := store.Backup(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "backup")
	err = writeSynced(t.Context(), path, backup)
	if err := errors.Join(err, backup.Close(), store.Close()); err != nil {
		t.Fatal(err)
	}
	if got, err := Verify(t.Context(), path, Keyset{}); !errors.Is(err, kv.ErrCorrupt) {
		t.Errorf("Verify: got %+v, %v, want an error that is %v", got, err, kv.ErrCorrupt)
	}
	fresh := filepath.Join(t.TempDir(), "fresh")
	if got, err := Restore(t.Context(), RestoreOptions{File: path, Data: fresh}); !errors.Is(err, kv.ErrCorrupt) {
		t.Errorf("Restore: got %+v, %v, want an error that is %v", got, err, kv.ErrCorrupt)
	}
	if _, err := os.Stat(fresh); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("directory: got error %v, want it not to be made", err)
	}
}

func TestCompact(t *testing.T) {
	data := filledData(t)
	got, err := Compact(t.Context(), data, Keyset{}, slog.New(slog.DiscardHandler))
	if err != nil || got.Before == 0 || got.After == 0 {
		t.Errorf("got %+v, %v, want the bytes before and after", got, err)
	}
	want := CheckReport{Namespaces: 2, Files: 4, Bytes: 20}
	if got, err := Check(t.Context(), data, Keyset{}); err != nil || got != want {
		t.Errorf("Check: got %+v, %v, want %+v", got, err, want)
	}
}
