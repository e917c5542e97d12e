package boltkv

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	bolt "go.etcd.io/bbolt"
)

// setValue is a migration that changes the value of the key of tests.
func setValue(from, to string) migration {
	return migration{name: from + " to " + to, migrate: func(tx *bolt.Tx) error {
		meta, key := tx.Bucket(bucketMeta), storedKey("a", []byte("key"))
		if got := string(meta.Get(key)); got != from {
			return errors.New("the value is " + got)
		}
		return meta.Put(key, []byte(to))
	}}
}

var testMigrations = []migration{setValue("one", "two"), setValue("two", "three")}

// firstSchema makes a store of the first schema version.
func firstSchema(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	store, err := Open(t.Context(), Options{Dir: dir, migrations: []migration{}})
	if err != nil {
		t.Fatal(err)
	}
	mustPut(t, store, "a", "key", "one")
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	return dir
}

func openVersion(t *testing.T, dir string, migrations []migration) *Store {
	t.Helper()
	store, err := Open(t.Context(), Options{Dir: dir, migrations: migrations})
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

// wantKept checks that the backup from before the migration has what was there.
func wantKept(t *testing.T, dir string) {
	t.Helper()
	s := newStore(Options{ReadOnly: true, migrations: []migration{}}, filepath.Join(dir, "memoryd.db.schema-1"))
	if err := s.openBackup(t.Context()); err != nil {
		t.Fatalf("backup from before the migration: %v", err)
	}
	go s.commitLoop()
	if got, want := get(t, s, "a", "key"), "one"; got != want {
		t.Errorf("got %q in the backup from before the migration, want %q", got, want)
	}
	if err := errors.Join(s.Check(t.Context()), s.Close()); err != nil {
		t.Error(err)
	}
}

func TestMigrate(t *testing.T) {
	dir := firstSchema(t)
	_, err := Open(t.Context(), Options{Dir: dir, ReadOnly: true, migrations: testMigrations})
	if err == nil || !strings.Contains(err.Error(), "has schema version 1 and this memoryd reads 3") {
		t.Errorf("opened for reading: got error %v, want that it has to be migrated", err)
	}
	var log bytes.Buffer
	store, err := Open(t.Context(), Options{
		Dir: dir, migrations: testMigrations, Logger: slog.New(slog.NewTextHandler(&log, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := get(t, store, "a", "key"), "three"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if err := errors.Join(store.Check(t.Context()), store.Close()); err != nil {
		t.Error(err)
	}
	for _, want := range []string{`msg="migrating store" from=1 to=3`, `msg="migrated store" took=`} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log lacks %s:\n%s", want, &log)
		}
	}
	wantKept(t, dir)
	wantNoLeftovers(t, dir)
	// Once only; and an older memoryd refuses it.
	if store, err = Open(t.Context(), Options{Dir: dir, migrations: testMigrations}); err != nil {
		t.Fatal(err)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	_, err = Open(t.Context(), Options{Dir: dir, ReadOnly: true, migrations: testMigrations[:1]})
	if err == nil || !strings.Contains(err.Error(), "has schema version 3; this memoryd reads up to 2; use a newer") {
		t.Errorf("older memoryd: got error %v, want that it is too old", err)
	}
}

// The steps of one start are one: where the second fails, the first is undone.
func TestMigrate_Fails(t *testing.T) {
	errMigrate := errors.New("cannot")
	for name, second := range map[string]func(*bolt.Tx) error{
		"error": func(*bolt.Tx) error { return errMigrate },
		"panic": func(*bolt.Tx) error { panic("damaged page") },
	} {
		t.Run(name, func(t *testing.T) {
			dir := firstSchema(t)
			failing := []migration{testMigrations[0], {name: "second", migrate: second}}
			_, err := Open(t.Context(), Options{Dir: dir, migrations: failing})
			if err == nil || name == "error" && !errors.Is(err, errMigrate) {
				t.Fatalf("got error %v, want %v", err, errMigrate)
			}
			if name == "error" && !strings.Contains(err.Error(), "migrate from schema version 1: second: cannot") {
				t.Errorf("got error %q, want one that names the migration", err)
			}
			wantKept(t, dir)
			if got, want := get(t, openVersion(t, dir, []migration{}), "a", "key"), "one"; got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
}

// Without a backup nothing is migrated.
func TestMigrate_NoBackup(t *testing.T) {
	dir := firstSchema(t)
	if err := os.Mkdir(filepath.Join(dir, "memoryd.db.schema-1"), 0o700); err != nil {
		t.Fatal(err)
	}
	_, err := Open(t.Context(), Options{Dir: dir, migrations: testMigrations})
	if err == nil || !strings.Contains(err.Error(), "keep backup before migration") {
		t.Fatalf("got error %v, want that the backup cannot be kept", err)
	}
	wantNoLeftovers(t, dir)
	if got, want := get(t, openVersion(t, dir, []migration{}), "a", "key"), "one"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func childMigrate(dir string) int {
	store, err := Open(context.Background(), Options{Dir: dir, migrations: testMigrations, step: stopAt})
	if err == nil {
		err = store.Close()
	}
	return exitCode(err)
}

func TestMigrate_Killed(t *testing.T) {
	for step, migrated := range map[string]bool{"kept": false, "migrated": false, "committed": true} {
		t.Run(step, func(t *testing.T) {
			dir := firstSchema(t)
			killAt(t, "migrate", dir, step)
			wantKept(t, dir)
			if !migrated {
				if got, want := get(t, openVersion(t, dir, []migration{}), "a", "key"), "one"; got != want {
					t.Errorf("for the memoryd before: got %q, want %q", got, want)
				}
				return
			}
			if got, want := get(t, openVersion(t, dir, testMigrations), "a", "key"), "three"; got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
}
