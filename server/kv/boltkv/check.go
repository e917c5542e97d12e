package boltkv

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime/debug"

	bolt "go.etcd.io/bbolt"

	"github.com/seed-7f2870e1/memoryd/server/kv"
	"github.com/seed-7f2870e1/memoryd/server/kv/internal/txn"
)

// Check implements kv.Checker: first the keys, which reads every page that holds one, then bbolt's own check of all
// pages. Updates wait while it runs. The context cannot interrupt bbolt's check.
func (s *Store) Check(ctx context.Context) error {
	if err := s.usable(ctx); err != nil {
		return err
	}
	// bbolt's check reads the list of free pages. A writer changes that, so be the writer. Without one the check loads
	// the list into the database, which must not happen beside a View, so have a database of one's own.
	db := s.db
	if s.options.ReadOnly {
		own, err := s.openBolt(&bolt.Options{ReadOnly: true})
		if err != nil {
			return fmt.Errorf("check store: %w", err)
		}
		defer func() { _ = own.Close() }() // Nothing was written.
		db = own
	}
	tx, err := begin(db, !s.options.ReadOnly)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // It fails only where it was done already.

	if err := s.checkKeys(ctx, tx); err != nil {
		return fmt.Errorf("check store: %w", err)
	}
	var first error
	more := -1
	for err := range tx.Check() { // Drained to its end: the check must not outlive the transaction.
		if first == nil {
			first = err
		}
		more++
	}
	if first != nil {
		return fmt.Errorf("check store: %w (and %d more): %w", first, more, kv.ErrCorrupt)
	}
	return nil
}

// checkKeys checks that the keys have the form that the package comment draws, and returns what is wrong with the first
// that has not.
func (s *Store) checkKeys(ctx context.Context, tx *bolt.Tx) (err error) {
	defer s.recovered(&err)
	// A damaged page can name another that the file does not have. Reading it must not end the process.
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))

	return tx.ForEach(func(name []byte, bucket *bolt.Bucket) error {
		if bucket == nil || !bytes.Equal(name, bucketMeta) && !bytes.Equal(name, bucketBulk) {
			return fmt.Errorf("bucket %q is unknown: %w", name, kv.ErrCorrupt)
		}
		bulk := bytes.Equal(name, bucketBulk)
		return bucket.ForEach(func(key, value []byte) error {
			if err := checkEntry(key, value, bulk); err != nil {
				return fmt.Errorf("bucket %s: key %q: %w: %w", name, key, err, kv.ErrCorrupt)
			}
			return ctx.Err()
		})
	})
}

func checkEntry(stored, value []byte, bulk bool) error {
	scope, key, ok := bytes.Cut(stored, []byte{0})
	if !ok {
		return errors.New("no scope")
	}
	if err := txn.CheckScope(string(scope)); err != nil {
		return err
	}
	if err := txn.CheckKey(key); err != nil {
		return err
	}
	switch {
	case isBulk(key) != bulk:
		return errors.New("belongs to the other bucket")
	case value == nil:
		return errors.New("is a bucket")
	case len(value) > kv.MaxValueBytes:
		return fmt.Errorf("value of %d bytes", len(value))
	}
	return nil
}
