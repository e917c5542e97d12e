package server

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	memoryv1 "github.com/seed-7f2870e1/memoryd/gen/memoryd/v1"
	"github.com/seed-7f2870e1/memoryd/server/internal/ops"
	"github.com/seed-7f2870e1/memoryd/server/kv"
	"github.com/seed-7f2870e1/memoryd/server/kv/boltkv"
	"github.com/seed-7f2870e1/memoryd/server/kv/kvtest"
	"github.com/seed-7f2870e1/memoryd/server/kv/memkv"
	"github.com/seed-7f2870e1/memoryd/server/kv/sealkv"
)

// snapshotDir is what the files of a directory hold.
func snapshotDir(t *testing.T, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, entry := range entries {
		content, err := os.ReadFile(filepath.Join(dir, entry.Name()))
		if err != nil {
			t.Fatal(err)
		}
		all[entry.Name()] = string(content)
	}
	return all
}

// sealedData is a data directory that is encrypted with a keyset, with two files in each of two namespaces.
func sealedData(t *testing.T, k Keyset) string {
	t.Helper()
	data := filledData(t)
	if _, err := Encrypt(t.Context(), data, k, nil); err != nil {
		t.Fatal(err)
	}
	return data
}

// A server whose keyset is wrong or missing does not start, and changes no byte.
func TestNew_KeysetMismatch(t *testing.T) {
	k := newKeyset(t)
	rotated := Keyset{File: filepath.Join(t.TempDir(), "rotated.json")}
	content, err := os.ReadFile(k.File)
	if err := errors.Join(err, os.WriteFile(rotated.File, content, 0o600)); err != nil {
		t.Fatal(err)
	}
	rotateTest(t, rotated)
	plain, sealed, sealedLater := filledData(t), sealedData(t, k), sealedData(t, rotated)
	rotating := sealedData(t, k)
	beginRotation(t, rotating, rotated)
	unsafe := newKeyset(t)
	if err := os.Chmod(unsafe.File, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name, data, file string
		want             error  // nil is any
		wantText         string // of the error
	}{
		{"missing", sealed, "", sealkv.ErrNoKeyset, "it must be the keyset that the store was encrypted with"},
		{"another", sealed, newKeyset(t).File, sealkv.ErrWrongKeyset, "is missing: it is not the keyset"},
		{"older", sealedLater, k.File, sealkv.ErrWrongKeyset, "is missing: it is not the keyset"},
		{"older, since a rotation that was interrupted", rotating, k.File, sealkv.ErrWrongKeyset, "is missing: it is not the keyset"},
		{"plain store", plain, k.File, sealkv.ErrPlainStore, "it must be empty, since the store is not encrypted"},
		{"no file", sealed, k.File + ".none", os.ErrNotExist, ""},
		{"readable by others", sealed, unsafe.File, nil, "run chmod 600"},
	} {
		for _, crashed := range []bool{false, true} {
			name := tt.name
			if crashed {
				name += ", after a crash"
			}
			t.Run(name, func(t *testing.T) {
				lock := filepath.Join(tt.data, "LOCK")
				if crashed {
					if err := os.WriteFile(lock, []byte("{}"), 0o600); err != nil {
						t.Fatal(err)
					}
					defer func() { _ = os.Remove(lock) }()
				}
				before := snapshotDir(t, tt.data)
				_, err := New(t.Context(), Config{Listen: []string{"127.0.0.1:0"}, Data: tt.data, EncryptionKeyset: tt.file})
				if err == nil || tt.want != nil && !errors.Is(err, tt.want) || !strings.Contains(err.Error(), tt.wantText) {
					t.Errorf("got %v, want %v with %q", err, tt.want, tt.wantText)
				}
				var invalid *ConfigError
				if got := errors.As(err, &invalid) && invalid.Field == "EncryptionKeyset"; got != (tt.wantText != "" && tt.want != nil) {
					t.Errorf("got %v as %+v, want the setting named", err, invalid)
				}
				if diff := cmp.Diff(before, snapshotDir(t, tt.data)); diff != "" {
					t.Error("the directory has changed")
				}
			})
		}
	}
}

// beginRotation opens a store with a keyset that was rotated, and is interrupted when one namespace has been seen to.
func beginRotation(t *testing.T, data string, k Keyset) {
	t.Helper()
	store, err := k.openSealed(t.Context(), boltkv.Options{Dir: data})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	sealed, _ := kv.As[*sealkv.Store](store)
	if err := sealed.Rewrap(ctx, func(sealkv.Progress) { cancel() }); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want %v", err, context.Canceled)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestConfig_Keyset(t *testing.T) {
	for _, tt := range []struct {
		cfg  Config
		want string
	}{
		{Config{EncryptionKeyURI: "aws-kms://key"}, "EncryptionKeyset is : it must be a file"},
		{Config{EncryptionKeyset: "k", Store: newStore(t)}, "EncryptionKeyset is k: it must be empty"},
		{Config{EncryptionKeyset: "k", EncryptionKeyURI: "aws-kms://key"}, ""},
	} {
		err := tt.cfg.Validate()
		if (err == nil) != (tt.want == "") || err != nil && !strings.HasPrefix(err.Error(), tt.want) {
			t.Errorf("got %v, want %q", err, tt.want)
		}
	}
}

// A new store is encrypted from the first byte on, is served, backed up by schedule, verified, restored and compacted.
func TestSealedServer(t *testing.T) {
	k := newKeyset(t)
	data := filepath.Join(t.TempDir(), "data")
	cfg := Config{Listen: []string{"127.0.0.1:0"}, Data: data, EncryptionKeyset: k.File}
	const text = "the plaintext that must not be found"
	r := start(t, cfg)
	client := memoryv1.NewMemoryServiceClient(r.conn)
	for _, namespace := range []string{"a", "b"} {
		resp, err := client.Create(t.Context(), &memoryv1.CreateRequest{
			Namespace: namespace, Path: "/memories/readable-path", FileText: text,
		})
		if err != nil || resp.GetResult().GetIsError() {
			t.Fatalf("got %v, %v", resp, err)
		}
	}
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	content := snapshotDir(t, data)["memoryd.db"]
	if strings.Contains(content, text) || strings.Contains(content, text[:10]) {
		t.Error("the store holds the text")
	}
	if !strings.Contains(content, "readable-path") {
		t.Error("the store does not hold the path, so that this shows nothing")
	}
	want := CheckReport{Namespaces: 2, Files: 2, Bytes: int64(2 * len(text))}
	if got, err := Check(t.Context(), data, k); err != nil || got != want {
		t.Errorf("Check: got %+v, %v, want %+v", got, err, want)
	}
	if _, err := Check(t.Context(), data, Keyset{}); !errors.Is(err, sealkv.ErrNoKeyset) {
		t.Errorf("Check without the keyset: got %v, want %v", err, sealkv.ErrNoKeyset)
	}
	if _, err := Compact(t.Context(), data, Keyset{}, nil); !errors.Is(err, sealkv.ErrNoKeyset) {
		t.Errorf("Compact without the keyset: got %v, want %v", err, sealkv.ErrNoKeyset)
	}
	if _, err := Compact(t.Context(), data, k, nil); err != nil {
		t.Errorf("Compact: %v", err)
	}
	if got, err := Check(t.Context(), data, k); err != nil || got != want {
		t.Errorf("Check after Compact: got %+v, %v, want %+v", got, err, want)
	}

	// A scheduled backup is verified with the keyset that is in force.
	cfg.BackupDir, cfg.BackupEvery = t.TempDir(), time.Hour
	store, closeStore, err := openStore(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	schedule, err := newBackupSchedule(cfg, store, ops.NewMetrics("test"))
	if err != nil {
		t.Fatal(err)
	}
	file, got, err := schedule.backUp(t.Context(), time.Now())
	if err != nil || got != want {
		t.Errorf("scheduled backup: got %+v, %v, want %+v", got, err, want)
	}
	if err := closeStore(); err != nil {
		t.Fatal(err)
	}
	if got, err := Verify(t.Context(), file, k); err != nil || got != want {
		t.Errorf("Verify: got %+v, %v, want %+v", got, err, want)
	}
	restored := filepath.Join(t.TempDir(), "restored")
	for name, k := range map[string]Keyset{"Verify without the keyset": {}, "Verify with another": newKeyset(t)} {
		if _, err := Verify(t.Context(), file, k); !errors.Is(err, sealkv.ErrNoKeyset) && !errors.Is(err, sealkv.ErrWrongKeyset) {
			t.Errorf("%s: got %v", name, err)
		}
		if _, err := Restore(t.Context(), RestoreOptions{File: file, Data: restored, Keyset: k}); err == nil {
			t.Errorf("Restore, as %s: got no error", name)
		}
	}
	if got, err := Restore(t.Context(), RestoreOptions{File: file, Data: restored, Keyset: k}); err != nil || got.Restored != want {
		t.Errorf("Restore: got %+v, %v, want %+v", got, err, want)
	}
	if got, err := Check(t.Context(), restored, k); err != nil || got != want {
		t.Errorf("Check of what was restored: got %+v, %v, want %+v", got, err, want)
	}
}

// A value that was changed is damage to who reads it, and is named by the check.
func TestSealed_Tampered(t *testing.T) {
	k := newKeyset(t)
	data := sealedData(t, k)
	bolt, err := boltkv.Open(t.Context(), boltkv.Options{Dir: data, OverheadBytes: sealkv.OverheadBytes})
	if err != nil {
		t.Fatal(err)
	}
	err = bolt.Update(t.Context(), "b", func(tx kv.Tx) error {
		type change struct{ key, value []byte }
		var changes []change
		err := tx.Scan(kv.ScanOptions{Prefix: []byte{kv.BulkPrefix}}, func(key, value []byte) error {
			value = append([]byte{}, value...)
			value[len(value)-1] ^= 1
			changes = append(changes, change{append([]byte{}, key...), value})
			return nil
		})
		for _, c := range changes {
			err = errors.Join(err, tx.Put(c.key, c.value))
		}
		return err
	})
	if err := errors.Join(err, bolt.Close()); err != nil {
		t.Fatal(err)
	}
	_, err = Check(t.Context(), data, k)
	if !errors.Is(err, kv.ErrCorrupt) || !strings.Contains(err.Error(), "b: ") || strings.Contains(err.Error(), "a: ") {
		t.Errorf("Check: got %v, want %v of b", err, kv.ErrCorrupt)
	}
	r := start(t, Config{Data: data, EncryptionKeyset: k.File})
	client := memoryv1.NewMemoryServiceClient(r.conn)
	if resp, err := client.View(t.Context(), &memoryv1.ViewRequest{Namespace: "b", Path: "/memories/x"}); err == nil {
		t.Errorf("View: got %v, want an error", resp)
	}
	if _, err := client.View(t.Context(), &memoryv1.ViewRequest{Namespace: "a", Path: "/memories/x"}); err != nil {
		t.Errorf("View of another namespace: %v", err)
	}
}

// A namespace that is deleted takes its key along.
func TestSealed_DeleteNamespace(t *testing.T) {
	k := newKeyset(t)
	data := sealedData(t, k)
	use := func() int {
		t.Helper()
		all, err := KeysetUse(t.Context(), data)
		if err != nil || len(all) != 1 {
			t.Fatalf("got %v, %v, want one key", all, err)
		}
		keys, err := KeysetKeys(t.Context(), k)
		if err != nil {
			t.Fatal(err)
		}
		return all[keys[0].ID]
	}
	before := use()
	r := start(t, Config{Data: data, EncryptionKeyset: k.File})
	_, err := memoryv1.NewAdminServiceClient(r.conn).DeleteNamespace(t.Context(), &memoryv1.DeleteNamespaceRequest{Namespace: "a"})
	if err := errors.Join(err, r.stop()); err != nil {
		t.Fatal(err)
	}
	if got, want := use(), before; got < want-1 || got > want { // The service may have made a key for its own state.
		t.Errorf("got %d data keys, want one of %d to be gone", got, want)
	}
	bolt, err := boltkv.Open(t.Context(), boltkv.Options{Dir: data, ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	names, err := bolt.Scopes(t.Context(), "", 10)
	if err := errors.Join(err, bolt.Close()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"b"}, names); diff != "" {
		t.Errorf("scopes (-want +got):\n%s", diff)
	}
}

// newTestSealing returns the sealing of a store in memory with so many scopes.
func newTestSealing(t *testing.T, k Keyset, below kv.Store, log *logBuffer) *sealing {
	t.Helper()
	handle, err := k.read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	store, err := sealkv.Open(t.Context(), below, sealkv.Options{Keyset: handle})
	if err != nil {
		t.Fatal(err)
	}
	for _, scope := range []string{"a", "b", "c"} {
		err := store.Update(t.Context(), scope, func(tx kv.Tx) error { return tx.Put([]byte("key"), []byte("value")) })
		if err != nil {
			t.Fatal(err)
		}
	}
	return newSealing(Config{EncryptionKeyset: k.File, Logger: log.logger()}, store, ops.NewMetrics("test"))
}

func keyUse(t *testing.T, store kv.Store) map[uint32]int {
	t.Helper()
	use, err := sealkv.KeyUse(t.Context(), store)
	if err != nil {
		t.Fatal(err)
	}
	return use
}

// A keyset that is rotated while the server runs is put into force, and what fails is tried again.
func TestSealing_Rotation(t *testing.T) {
	k := newKeyset(t)
	synctest.Test(t, func(t *testing.T) {
		log := &logBuffer{}
		below := &kvtest.Faulty{Store: memkv.NewWithHeadroom(sealkv.OverheadBytes)}
		s := newTestSealing(t, k, below, log)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			s.run(ctx)
		}()
		synctest.Wait()
		if got := log.String(); got != "" {
			t.Errorf("there is nothing to do, got the log %s", got)
		}

		below.BeforeUpdate = kvtest.OnCall(3, kv.ErrFull) // After the seal check and one data key.
		second := rotateTest(t, k)
		if _, err := s.reloadable().load(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if diff := cmp.Diff(2, keyUse(t, below)[second]); diff != "" {
			t.Errorf("after a failure (-want +got):\n%s", diff)
		}
		time.Sleep(rewrapRetry)
		synctest.Wait()
		if diff := cmp.Diff(map[uint32]int{second: 4}, keyUse(t, below)); diff != "" {
			t.Errorf("after the next try (-want +got):\n%s", diff)
		}
		for _, want := range []string{"failed", "store is full", "the primary key wraps all data keys"} {
			if !strings.Contains(log.String(), want) {
				t.Errorf("the log lacks %q:\n%s", want, log)
			}
		}
		cancel()
		<-done
	})
}

// A file that cannot be used leaves in force what is.
func TestSealing_BrokenFile(t *testing.T) {
	k := newKeyset(t)
	below := memkv.NewWithHeadroom(sealkv.OverheadBytes)
	s := newTestSealing(t, k, below, &logBuffer{})
	content, err := os.ReadFile(k.File)
	if err != nil {
		t.Fatal(err)
	}
	other, err := os.ReadFile(newKeyset(t).File)
	if err != nil {
		t.Fatal(err)
	}
	inForce := s.store.Keyset()
	for name, content := range map[string][]byte{"empty": nil, "cut off": content[:40], "another": other} {
		if err := os.WriteFile(k.File, content, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := s.reloadable().load(t.Context(), nil); err == nil {
			t.Errorf("%s: got no error", name)
		}
		if s.store.Keyset() != inForce {
			t.Errorf("%s: another keyset is in force", name)
		}
	}
	if err := os.WriteFile(k.File, content, 0o600); err != nil {
		t.Fatal(err)
	}
	if attrs, err := s.reloadable().load(t.Context(), nil); err != nil || len(attrs) != 1 {
		t.Errorf("as it was: got %v, %v", attrs, err)
	}
	if newSealing(Config{}, memkv.New(), ops.NewMetrics("test")) != nil {
		t.Error("a store that is not encrypted has something to seal")
	}
}
