package boltkv

import (
	"context"
	"errors"
	"fmt"
	"os"

	bolt "go.etcd.io/bbolt"
)

// firstVersion is the schema version of the first release.
const firstVersion = 1

// migration brings a database from one schema version to the next.
type migration struct {
	name    string // for the log and for errors
	migrate func(tx *bolt.Tx) error
}

// migrations are all there are, in order: the first is from firstVersion to the version after it. One that was released
// is never changed. The package comment draws what the last one leads to.
var migrations []migration

// latestVersion is the schema version that this memoryd writes.
func (s *Store) latestVersion() int { return firstVersion + len(s.options.migrations) }

// migrate brings the database from an older schema version to the latest, in one transaction: a crash leaves the one or
// the other. A backup of what was there is kept beside it, for the memoryd that made it.
func (s *Store) migrate(version int) (err error) {
	defer s.recovered(&err)
	began, kept := s.now(), fmt.Sprintf("%s.schema-%d", s.path, version)
	s.log.Info("migrating store", "from", version, "to", s.latestVersion(), "backup", kept)
	if err := s.keepBackup(kept); err != nil {
		return fmt.Errorf("keep backup before migration: %w", err)
	}
	s.options.step("kept")
	err = s.db.Update(func(tx *bolt.Tx) error {
		for _, m := range s.options.migrations[version-firstVersion:] {
			if err := m.migrate(tx); err != nil {
				return fmt.Errorf("%s: %w", m.name, err)
			}
		}
		s.options.step("migrated")
		return putVersion(tx.Bucket(bucketMeta), s.latestVersion())
	})
	if err != nil {
		return fmt.Errorf("migrate from schema version %d: %w", version, err)
	}
	s.options.step("committed")
	s.log.Info("migrated store", "took", s.now().Sub(began))
	return nil
}

// keepBackup writes a backup file, in the place of an older one of that name.
func (s *Store) keepBackup(path string) (err error) {
	file, err := os.CreateTemp(s.options.Dir, keptPattern)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(file.Name()))
		}
	}()
	_, err = s.writeBackup(context.Background(), file) // A start is not interrupted half-way through a migration.
	if err := errors.Join(err, file.Sync(), file.Close()); err != nil {
		return err
	}
	if err := os.Rename(file.Name(), path); err != nil {
		return err
	}
	return syncDir(s.options.Dir)
}
