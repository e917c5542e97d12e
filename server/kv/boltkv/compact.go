package boltkv

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"

	bolt "go.etcd.io/bbolt"

	"github.com/seed-7f2870e1/memoryd/server/kv"
)

// compactTxBytes is how much Compact writes in one transaction, which it holds in memory.
const compactTxBytes = 8 << 20

// CompactReport says what Compact came to.
type CompactReport struct {
	// Before and After are the bytes that the file takes.
	Before, After int64
}

// Compact copies the store of a data directory to a new file, without its free pages, and puts that in its place.
// Otherwise the file of a store never shrinks. No process may have the store open. A crash leaves the one file or the
// other.
func Compact(ctx context.Context, o Options) (CompactReport, error) {
	report, err := compact(ctx, o)
	if err != nil {
		return CompactReport{}, fmt.Errorf("compact store: %w", err)
	}
	return report, nil
}

func compact(ctx context.Context, o Options) (CompactReport, error) {
	path := filepath.Join(o.Dir, fileName)
	before, err := os.Stat(path) // Open would make a store where there is none.
	if err != nil {
		return CompactReport{}, err
	}
	s, err := Open(ctx, o)
	if err != nil {
		return CompactReport{}, err
	}
	temp, err := s.copyCompacted(ctx)
	if err != nil {
		return CompactReport{}, errors.Join(err, s.Close())
	}
	after, err := os.Stat(temp)
	if err != nil {
		return CompactReport{}, errors.Join(err, s.Close())
	}
	err = s.closeAfter(func() error {
		if err := os.Rename(temp, path); err != nil {
			return err
		}
		s.options.step("swapped")
		return syncDir(o.Dir)
	})
	if err != nil {
		if removeErr := os.Remove(temp); !errors.Is(removeErr, fs.ErrNotExist) {
			err = errors.Join(err, removeErr)
		}
		return CompactReport{}, err
	}
	return CompactReport{Before: before.Size(), After: after.Size()}, nil
}

// copyCompacted copies the database to a new file, which it syncs and checks, and returns its path.
func (s *Store) copyCompacted(ctx context.Context) (_ string, err error) {
	file, err := os.CreateTemp(s.options.Dir, compactPattern)
	if err != nil {
		return "", err
	}
	path := file.Name()
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(path))
		}
	}()
	if err := file.Close(); err != nil {
		return "", err
	}
	// The file is synced once, and has a list of its free pages.
	db, err := bolt.Open(path, 0o600, &bolt.Options{
		PageSize: pageSize, FreelistType: bolt.FreelistMapType, NoSync: true,
	})
	if err != nil {
		return "", err
	}
	if err := s.compactInto(db); err != nil {
		return "", errors.Join(err, db.Close())
	}
	size, err := usedBytes(db)
	if err := errors.Join(err, db.Sync(), db.Close()); err != nil {
		return "", err
	}
	if err := os.Truncate(path, size); err != nil { // bbolt makes the file larger than it needs
		return "", err
	}
	s.options.step("copied")
	if err := s.checkCopy(ctx, path); err != nil {
		return "", err
	}
	s.options.step("checked")
	return path, ctx.Err()
}

// usedBytes returns the size of a database without the space at its end that was never used.
func usedBytes(db *bolt.DB) (size int64, err error) {
	err = db.View(func(tx *bolt.Tx) error {
		size = tx.Size()
		return nil
	})
	return size, err
}

func (s *Store) compactInto(db *bolt.DB) (err error) {
	defer s.recovered(&err)
	// A damaged page can name another that the file does not have. Reading it must not end the process.
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	return bolt.Compact(db, s.db, compactTxBytes)
}

// checkCopy checks a copy of the database as memoryd check does, and that no key is missing.
func (s *Store) checkCopy(ctx context.Context, path string) error {
	c := newStore(Options{Dir: s.options.Dir, ReadOnly: true, migrations: s.options.migrations}, path)
	if err := c.openReadOnly(ctx); err != nil {
		return err
	}
	return errors.Join(s.compareCopy(ctx, c), c.db.Close())
}

func (s *Store) compareCopy(ctx context.Context, c *Store) error {
	if err := c.Check(ctx); err != nil {
		return err
	}
	want, err := s.countKeys()
	if err != nil {
		return err
	}
	got, err := c.countKeys()
	if err == nil && got != want {
		err = fmt.Errorf("the copy has %d keys of %d: %w", got, want, kv.ErrCorrupt)
	}
	return err
}

func (s *Store) countKeys() (n int, err error) {
	defer s.recovered(&err)
	err = s.db.View(func(tx *bolt.Tx) error {
		n = tx.Bucket(bucketMeta).Stats().KeyN + tx.Bucket(bucketBulk).Stats().KeyN
		return nil
	})
	return n, err
}
