package sealkv

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	"github.com/seed-7f2870e1/memoryd/server/kv"
)

// A transaction of Copy writes no more than this, and one value.
const (
	copyWrites = 2000
	copyBytes  = 4 << 20
)

// Copy copies all of a store that is not sealed to one that is and holds nothing, and then compares the two. Nobody may
// write to either.
func Copy(ctx context.Context, from kv.Store, to *Store) error {
	err := eachScope(ctx, from, func(scope string) error {
		if err := copyScope(ctx, from, to, scope); err != nil {
			return err
		}
		want, err := digest(ctx, from, scope)
		if err != nil {
			return err
		}
		got, err := digest(ctx, to, scope)
		if err == nil && got != want {
			err = fmt.Errorf("the copy of %s is not the same: %w", scope, kv.ErrCorrupt)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("copy to sealed store: %w", err)
	}
	return nil
}

// pair is a key and its value.
type pair struct{ key, value []byte }

func copyScope(ctx context.Context, from, to kv.Store, scope string) error {
	var batch []pair
	size := 0
	flush := func() error {
		err := to.Update(ctx, scope, func(tx kv.Tx) error {
			for _, p := range batch {
				if err := tx.Put(p.key, p.value); err != nil {
					return err
				}
			}
			return nil
		})
		batch, size = batch[:0], 0
		return err
	}
	err := from.View(ctx, scope, func(r kv.Reader) error {
		return r.Scan(kv.ScanOptions{}, func(key, value []byte) error {
			if hidden(scope, key) { // It belongs to the engine, which has its own in the other store.
				return nil
			}
			batch = append(batch, pair{bytes.Clone(key), bytes.Clone(value)})
			if size += len(key) + len(value); len(batch) < copyWrites && size < copyBytes {
				return nil
			}
			return flush()
		})
	})
	if err != nil {
		return err
	}
	return flush()
}

// digest stands for all keys and values of a scope, but for those that a sealed store does not show.
func digest(ctx context.Context, store kv.Store, scope string) (sum [sha256.Size]byte, err error) {
	hash := sha256.New()
	var size [8]byte
	add := func(b []byte) {
		_, _ = hash.Write(binary.BigEndian.AppendUint64(size[:0], uint64(len(b)))) // A hash never fails.
		_, _ = hash.Write(b)
	}
	err = store.View(ctx, scope, func(r kv.Reader) error {
		return r.Scan(kv.ScanOptions{}, func(key, value []byte) error {
			if !hidden(scope, key) {
				add(key)
				add(value)
			}
			return ctx.Err()
		})
	})
	hash.Sum(sum[:0])
	return sum, err
}
