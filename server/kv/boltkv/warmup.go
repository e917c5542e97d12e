package boltkv

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"
)

const (
	// warmUpBytes is how much of the file is read at a time.
	warmUpBytes = 1 << 20
	// warmUpLogInterval is how often the log says how far that is.
	warmUpLogInterval = 2 * time.Second
)

// warmUp reads the database from start to end where it was not closed cleanly. All of its pages are looked at then to
// find the free ones, in the order of the tree, and a disk gives them ten times faster in their own.
func (s *Store) warmUp(ctx context.Context, size int64) error {
	// A LOCK is stale: whoever wrote it would hold the database.
	if _, err := os.Stat(s.lockPath()); errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	s.log.Info("store was not closed cleanly, reading it to find its free pages", "dir", s.options.Dir, "bytes", size)
	logged := s.now()
	buf := make([]byte, warmUpBytes)
	for done := int64(0); done < size && ctx.Err() == nil; {
		n, err := s.file.ReadAt(buf[:min(warmUpBytes, size-done)], done)
		if err != nil {
			return fmt.Errorf("read %s: %w", s.path, err)
		}
		done += int64(n)
		if now := s.now(); now.Sub(logged) >= warmUpLogInterval {
			s.log.Info("reading store", "read_bytes", done, "bytes", size)
			logged = now
		}
	}
	return ctx.Err()
}
