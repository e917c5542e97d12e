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
		{"no directory", func(tx kv.Tx) error { return tx.Delete([]byte(dir)) }, "check /memories/d: has entries and no record"},
		{"no root", func(tx kv.Tx) error { return tx.Delete([]byte("e\x00\x00")) }, "check /memories: has entries and no record"},
		{"no file", func(tx kv.Tx) error { return tx.Delete([]byte(file)) }, "check /memories/d: has totals that do not add up"},
		{"no contents", func(tx kv.Tx) error { return tx.Delete([]byte(contents)) }, "check /memories/d/f: "},
		{"other contents", func(tx kv.Tx) error { return tx.Put([]byte(contents), []byte("y")) }, "check /memories/d/f: "},
		{"more contents", func(tx kv.Tx) error { return tx.Put([]byte("\xff"), nil) }, "check contents: ff belongs to no file"},
		{"no namespace", func(tx kv.Tx) error { return tx.Delete([]byte("n")) }, "is newer than its namespace"},
		{"a record under another name", func(tx kv.Tx) error {
			values, err := tx.Get([]byte(file))
			if err != nil {
				return err
			}
			return errors.Join(tx.Delete([]byte(file)), tx.Put([]byte("e\x00\x02d\x00g"), values[0]))
		}, "checksum of record \"e\\x00\\x02d\\x00g\" is wrong"},
		{"cut record", func(tx kv.Tx) error { return tx.Put([]byte(file), []byte{1}) }, "is wrong"},
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
