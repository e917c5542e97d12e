package kvtest

import (
	"encoding/binary"
	"errors"
	"testing"

	"github.com/seed-7f2870e1/memoryd/server/kv"
)

// Headroom tests an engine that was opened for a decorator which adds so many bytes to each value: it takes what a
// decorator makes of the largest value and the largest transactions, and little more.
func Headroom(t *testing.T, overheadBytes int, newStore func(t *testing.T) kv.Store) {
	// own is what a decorator may write besides.
	own := func(tx kv.Tx) error { return tx.Put([]byte("own"), make([]byte, 1<<10-len("own")-overheadBytes)) }
	t.Run("value", func(t *testing.T) {
		store := newStore(t)
		Check(t, store)
		largest := make([]byte, kv.MaxValueBytes+overheadBytes)
		write(t, store, scope, pair{"\xff", string(largest)})
		if got := read(t, store, scope); len(got) != 1 || len(got[0].Value) != len(largest) {
			t.Errorf("got %d values, want the largest one", len(got))
		}
		err := update(t.Context(), store, scope, func(tx kv.Tx) error { return tx.Put([]byte("a"), append(largest, 'x')) })
		wantError(t, "Put of one byte more", err, kv.ErrTooLarge)
	})
	t.Run("writes", func(t *testing.T) {
		store := newStore(t)
		Check(t, store)
		fill := func(tx kv.Tx) error {
			var key [3]byte
			for i := range kv.MaxWrites {
				binary.BigEndian.PutUint16(key[1:], uint16(i))
				if err := tx.Put(key[:], make([]byte, overheadBytes)); err != nil {
					return err
				}
			}
			return own(tx)
		}
		if err := update(t.Context(), store, scope, fill); err != nil {
			t.Errorf("Update of %d writes and one: %v", kv.MaxWrites, err)
		}
		err := update(t.Context(), store, scope, func(tx kv.Tx) error {
			return errors.Join(fill(tx), tx.Delete([]byte("a")))
		})
		wantError(t, "one write more", err, kv.ErrTooLarge)
	})
	t.Run("bytes", func(t *testing.T) {
		store := newStore(t)
		Check(t, store)
		// As many writes as may be, which have as many bytes as may be.
		size := kv.MaxTransactionBytes/kv.MaxWrites - 4
		fill := func(tx kv.Tx) error {
			var key [4]byte
			left := kv.MaxTransactionBytes
			for i := range kv.MaxWrites {
				n := size
				if i == kv.MaxWrites-1 {
					n = left - len(key)
				}
				left -= len(key) + n
				binary.BigEndian.PutUint32(key[:], uint32(i))
				if err := tx.Put(key[:], make([]byte, n+overheadBytes)); err != nil {
					return err
				}
			}
			return own(tx)
		}
		if err := update(t.Context(), store, scope, fill); err != nil {
			t.Errorf("Update of %d bytes and headroom: %v", kv.MaxTransactionBytes, err)
		}
	})
}
