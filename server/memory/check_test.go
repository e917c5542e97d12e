package memory_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/seed-7f2870e1/memoryd/server/kv"
	"github.com/seed-7f2870e1/memoryd/server/kv/memkv"
	"github.com/seed-7f2870e1/memoryd/server/memory"
)

// TestCheck damages a namespace in every way that Check looks for.
func TestCheck(t *testing.T) {
	const file, dir = "e\x00\x02d\x00f", "e\x00\x01d"
	contents := "\xff" + strings.Repeat("\x00", 7) + "\x01" + strings.Repeat("\x00", 7) + "\x01" + strings.Repeat("\x00", 4)
	for _, test := range []struct {
		name   string
		damage func(kv.Tx) error
		want   string
	}{
		{"nothing", func(kv.Tx) error { return nil }, ""},
		{"no directory", func(tx kv.Tx) error { return tx.Delete([]byte(dir)) }, "/memories/d is damaged: it has entries and no record"},
		{"no root", func(tx kv.Tx) error { return tx.Delete([]byte("e\x00\x00")) }, "/memories is damaged: it has entries and no record"},
		{"no file", func(tx kv.Tx) error { return tx.Delete([]byte(file)) }, "/memories/d is damaged: its totals do not add up"},
		{"no contents", func(tx kv.Tx) error { return tx.Delete([]byte(contents)) }, "/memories/d/f is damaged: contents differ from their checksum"},
		{"other contents", func(tx kv.Tx) error { return tx.Put([]byte(contents), []byte("y")) }, "/memories/d/f is damaged: contents differ from their checksum"},
		{"more contents", func(tx kv.Tx) error { return tx.Put([]byte("\xff"), nil) }, "contents ff are those of no file"},
		{"no namespace", func(tx kv.Tx) error { return tx.Delete([]byte("n")) }, "/memories/d/f is damaged: it is newer than its namespace"},
		{"a record under another name", func(tx kv.Tx) error {
			values, err := tx.Get([]byte(file))
			if err != nil {
				return err
			}
			return errors.Join(tx.Delete([]byte(file)), tx.Put([]byte("e\x00\x02d\x00g"), values[0]))
		}, "/memories/d/g is damaged: its record differs from its checksum"},
		{"cut record", func(tx kv.Tx) error { return tx.Put([]byte(file), []byte{1}) }, "/memories/d/f is damaged: its record differs from its checksum"},
	} {
		t.Run(test.name, func(t *testing.T) {
			store := memkv.New()
			defer store.Close()
			m, err := memory.New(store, memory.Options{})
			if err != nil {
				t.Fatal(err)
			}
			must(t, m, memory.Create{Path: "/memories/d/f", FileText: "x"})
			if err := store.Update(t.Context(), namespace, test.damage); err != nil {
				t.Fatal(err)
			}
			err = m.Check(t.Context(), namespace)
			if test.want == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if !errors.Is(err, kv.ErrCorrupt) || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

// TestCheck_NamesAll damages the contents of two files: both are named.
func TestCheck_NamesAll(t *testing.T) {
	store := memkv.New()
	defer store.Close()
	m, err := memory.New(store, memory.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/memories/a", "/memories/b", "/memories/c"} {
		must(t, m, memory.Create{Path: path, FileText: "x"})
	}
	damage := func(tx kv.Tx) error {
		var keys [][]byte
		err := tx.Scan(kv.ScanOptions{Prefix: []byte{kv.BulkPrefix}, Limit: 2}, func(key, _ []byte) error {
			keys = append(keys, key)
			return nil
		})
		return errors.Join(err, tx.Put(keys[0], []byte("y")), tx.Delete(keys[1]))
	}
	if err := store.Update(t.Context(), namespace, damage); err != nil {
		t.Fatal(err)
	}
	err = m.Check(t.Context(), namespace)
	want := "/memories/b is damaged: contents differ from their checksum\n" +
		"/memories/a is damaged: contents differ from their checksum"
	if err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	var damaged *memory.DamagedError
	_, _, err = m.Read(t.Context(), namespace, "/memories/./a")
	if !errors.As(err, &damaged) || damaged.Path != "/memories/a" || !errors.Is(err, kv.ErrCorrupt) {
		t.Errorf("read: %v", err)
	}
}
