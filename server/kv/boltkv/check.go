package boltkv

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	bolt "go.etcd.io/bbolt"

	"github.com/seed-7f2870e1/memoryd/server/kv/internal/txn"
)

// Check implements kv.Checker: every page of the database must be part of a tree or free, and every entry have the form
// that the package comment draws. Updates go on while it runs.
func (s *Store) Check(ctx context.Context) error {
	if err := s.usable(ctx); err != nil {
		return err
	}
	if err := s.check(ctx); err != nil {
		return fmt.Errorf("check store: %w", err)
	}
	return nil
}

func (s *Store) check(ctx context.Context) error {
	tx, freeList, err := s.beginCheck()
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // It fails only where it was done already.
	w := walk{pages: s.pagesOf(tx), all: true, entries: true}
	return w.run(ctx, freeList)
}

// beginCheck begins a transaction whose pages stay as they are, and returns the page of its list of free pages.
func (s *Store) beginCheck() (_ *bolt.Tx, freeList uint64, err error) {
	if !s.options.ReadOnly { // The meta page has the list, and must not be written again meanwhile: be the writer.
		writer, err := begin(s.db, true)
		if err != nil {
			return nil, 0, err
		}
		defer func() { _ = writer.Rollback() }() // It fails only where it was done already.
	}
	tx, err := begin(s.db, false)
	if err != nil {
		return nil, 0, err
	}
	pages := s.pagesOf(tx)
	if freeList, err = pages.freeList(tx.ID()); err != nil {
		return nil, 0, errors.Join(err, tx.Rollback())
	}
	return tx, freeList, nil
}

// checkEntry returns what is wrong with an entry of a bucket.
func checkEntry(stored []byte, valueBytes int64, bulk bool) error {
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
	case valueBytes > maxStoredBytes:
		return fmt.Errorf("value of %d bytes", valueBytes)
	}
	return nil
}
