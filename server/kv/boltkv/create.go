package boltkv

import (
	"errors"
	"io/fs"
	"os"
)

// create makes the database of a new store under another name, and gives it its own when it is complete: whatever ends
// the process, there is a whole database or none. Where another process was quicker, its database stays.
func (s *Store) create() error {
	temp, err := s.makeDatabase(createPattern)
	if err == nil {
		err = errors.Join(link(temp, s.path), removeIfThere(temp))
	}
	if err == nil {
		return syncDir(s.options.Dir)
	}
	// The other process has its database by now, and may have removed ours among what was left over.
	if _, statErr := os.Lstat(s.path); statErr == nil {
		return nil
	}
	return err
}

// makeDatabase makes a database without entries under a name of its own, and returns its path.
func (s *Store) makeDatabase(pattern string) (path string, err error) {
	file, err := os.CreateTemp(s.options.Dir, pattern)
	if err != nil {
		return "", err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, removeIfThere(file.Name()))
		}
	}()
	if err := file.Close(); err != nil {
		return "", err
	}
	c := newStore(Options{Dir: s.options.Dir, migrations: s.options.migrations}, file.Name())
	if err := c.openForWriting(); err != nil {
		return "", err
	}
	return file.Name(), errors.Join(c.createSchema(), c.writeFreePages(), c.db.Close())
}

func removeIfThere(path string) error {
	if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
