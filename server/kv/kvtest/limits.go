package kvtest

import (
	"bytes"
	"encoding/binary"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-7f2870e1/memoryd/server/kv"
)

func testKeySize(t *testing.T, store kv.Store) {
	scope := strings.Repeat("s", kv.MaxScopeBytes) // The longest name goes with the longest key.
	for _, first := range []string{"k", "\xff"} {
		largest := first + strings.Repeat("k", kv.MaxKeyBytes-1)
		write(t, store, scope, pair{largest, "1"})
		if diff := cmp.Diff(pair{largest, "1"}, read(t, store, scope)[0]); diff != "" {
			t.Errorf("largest key: difference (-want +got):\n%s", diff)
		}

		tooLarge := []byte(largest + "k")
		for name, fn := range map[string]func(tx kv.Tx) error{
			"Put":    func(tx kv.Tx) error { return tx.Put(tooLarge, nil) },
			"Delete": func(tx kv.Tx) error { return tx.Delete(tooLarge) },
			"Get":    func(tx kv.Tx) error { _, err := tx.Get(tooLarge); return err },
		} {
			if err := update(t.Context(), store, scope, fn); !errors.Is(err, kv.ErrTooLarge) {
				t.Errorf("%s of a key of one byte more: got error %v, want %v", name, err, kv.ErrTooLarge)
			}
		}
		err := update(t.Context(), store, scope, func(tx kv.Tx) error { return tx.Delete([]byte(largest)) })
		if err != nil {
			t.Errorf("Delete of the largest key: %v", err)
		}
		if got := read(t, store, scope); len(got) > 0 {
			t.Errorf("afterwards: got %d keys, want none", len(got))
		}
	}
}

func testValueSize(t *testing.T, store kv.Store) {
	largest := bytes.Repeat([]byte("0123456789abcdef"), kv.MaxValueBytes/16)
	for _, key := range []string{"small", "\xffbulk"} {
		write(t, store, scope, pair{key, string(largest)})
		err := update(t.Context(), store, scope, func(tx kv.Tx) error {
			return tx.Put([]byte(key), append(largest, 'x'))
		})
		if !errors.Is(err, kv.ErrTooLarge) {
			t.Errorf("Put %q of a value of one byte more: got error %v, want %v", key, err, kv.ErrTooLarge)
		}
	}
	for _, p := range read(t, store, scope) {
		if p.Value != string(largest) {
			t.Errorf("key %q: got another value than was put", p.Key)
		}
	}
}

func testWriteCount(t *testing.T, store kv.Store) {
	// Deletes count, and so does the second write of a key.
	fill := func(tx kv.Tx, writes int) error {
		var key [3]byte
		for i := range writes {
			binary.BigEndian.PutUint16(key[1:], uint16(i/4*2)) // Two writes of each key, each twice.
			var err error
			if i%4 == 1 {
				err = tx.Delete(key[:])
			} else {
				err = tx.Put(key[:], []byte("x"))
			}
			if err != nil {
				return err
			}
		}
		return nil
	}
	err := update(t.Context(), store, scope, func(tx kv.Tx) error { return fill(tx, kv.MaxWrites) })
	if err != nil {
		t.Fatalf("Update of %d writes: %v", kv.MaxWrites, err)
	}
	if got, want := len(read(t, store, scope)), kv.MaxWrites/4; got != want {
		t.Errorf("got %d keys, want %d", got, want)
	}
	for name, last := range map[string]func(tx kv.Tx) error{
		"Put":    func(tx kv.Tx) error { return tx.Put([]byte("a"), nil) },
		"Delete": func(tx kv.Tx) error { return tx.Delete([]byte("a")) },
	} {
		err := update(t.Context(), store, "other", func(tx kv.Tx) error {
			if err := fill(tx, kv.MaxWrites); err != nil {
				t.Errorf("%d writes: got error %v, want none", kv.MaxWrites, err)
			}
			return last(tx)
		})
		if !errors.Is(err, kv.ErrTooLarge) {
			t.Errorf("%s as one write more: got error %v, want %v", name, err, kv.ErrTooLarge)
		}
	}
	if got := read(t, store, "other"); len(got) > 0 {
		t.Errorf("after a transaction that was too large: got %d keys, want none", len(got))
	}
}

func testTransactionSize(t *testing.T, store kv.Store) {
	value := bytes.Repeat([]byte{'v'}, kv.MaxValueBytes)
	// fill leaves room for exactly so many bytes.
	fill := func(tx kv.Tx, room int) error {
		left := kv.MaxTransactionBytes - room
		for i := 0; left > 0; i++ {
			key := []byte{kv.BulkPrefix, byte(i >> 8), byte(i)}
			n := min(len(value), left-len(key))
			if err := tx.Put(key, value[:n]); err != nil {
				return err
			}
			left -= len(key) + n
		}
		return nil
	}
	err := update(t.Context(), store, scope, func(tx kv.Tx) error {
		return errors.Join(fill(tx, len("key")+len("value")), tx.Put([]byte("key"), []byte("value")))
	})
	if err != nil {
		t.Fatalf("Update of %d bytes: %v", kv.MaxTransactionBytes, err)
	}
	sum := 0
	for _, p := range read(t, store, scope) {
		sum += len(p.Key) + len(p.Value)
	}
	if sum != kv.MaxTransactionBytes {
		t.Errorf("got %d bytes, want %d", sum, kv.MaxTransactionBytes)
	}
	for name, last := range map[string]func(tx kv.Tx) error{
		"Put":    func(tx kv.Tx) error { return tx.Put([]byte("key"), []byte("value")) },
		"Delete": func(tx kv.Tx) error { return tx.Delete([]byte("12345678")) },
	} {
		err := update(t.Context(), store, "other", func(tx kv.Tx) error {
			if err := fill(tx, 7); err != nil {
				t.Errorf("%d bytes: got error %v, want none", kv.MaxTransactionBytes-7, err)
			}
			return last(tx)
		})
		if !errors.Is(err, kv.ErrTooLarge) {
			t.Errorf("%s of one byte more: got error %v, want %v", name, err, kv.ErrTooLarge)
		}
	}
}
