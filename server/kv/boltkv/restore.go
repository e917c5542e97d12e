package boltkv

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// RestoreOptions are the options of Restore.
type RestoreOptions struct {
	// File is the backup file.
	File string
	// Dir is the data directory. It is made where it does not exist.
	Dir string
	// Force takes the place of a store that is there.
	Force bool
	// Check is called with the store in the file, once that is known to be sound and before anything is touched. Its
	// error ends the restore. nil checks no more.
	Check func(ctx context.Context, backup *Store) error
	// Now returns the time that is part of the name of the store that was there.
	Now func() time.Time

	step func(name string) // is called where tests interfere; nil does nothing
}

// ErrStoreExists means that a data directory holds a store already.
var ErrStoreExists = errors.New("holds a store already")

// Restore makes the store in a backup file that of a data directory, which no process may have open. Where a store was
// there, it returns the name that it has now. A crash leaves the directory as it was, or with the store of the file.
func Restore(ctx context.Context, o RestoreOptions) (kept string, err error) {
	if o.step == nil {
		o.step = func(string) {}
	}
	if kept, err = restore(ctx, o); err != nil {
		return "", fmt.Errorf("restore: %w", err)
	}
	return kept, nil
}

func restore(ctx context.Context, o RestoreOptions) (kept string, err error) {
	target := filepath.Join(o.Dir, fileName)
	old, err := lockStore(o.Dir)
	switch {
	case err == nil:
		defer func() { err = errors.Join(err, old.Close()) }()
		if !o.Force {
			return "", fmt.Errorf("%s %w", o.Dir, ErrStoreExists)
		}
	case !errors.Is(err, fs.ErrNotExist):
		return "", err
	}
	temp, err := unpack(ctx, o)
	if err != nil {
		return "", err
	}
	defer func() {
		if removeErr := os.Remove(temp); !errors.Is(removeErr, fs.ErrNotExist) {
			err = errors.Join(err, removeErr)
		}
	}()
	o.step("unpacked")
	if old == nil {
		// Not renamed: since there was nothing to lock, a server may have made a store meanwhile.
		err = link(temp, target)
		if errors.Is(err, fs.ErrExist) {
			err = fmt.Errorf("%s %w", o.Dir, ErrStoreExists)
		}
		return "", errors.Join(err, syncDir(o.Dir))
	}
	kept = keptName(target, "before-restore", o.Now())
	if err := link(target, kept); err != nil {
		return "", err
	}
	o.step("kept")
	if err := os.Rename(temp, target); err != nil {
		return "", err
	}
	o.step("placed")
	// Whoever wrote LOCK is gone, or the database would not have been ours to lock.
	if err := os.Remove(filepath.Join(o.Dir, lockName)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	return kept, syncDir(o.Dir)
}

// keptName returns the name that a database keeps when another takes its place.
func keptName(path, suffix string, now time.Time) string {
	return path + "." + suffix + "-" + now.UTC().Format("20060102T150405Z")
}

// lockStore locks the database of a data directory until the file that it returns is closed.
func lockStore(dir string) (*os.File, error) {
	s := newStore(Options{Dir: dir}, filepath.Join(dir, fileName))
	file, err := os.OpenFile(s.path, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	locked, err := flock(file)
	if err == nil && locked {
		locked, err = isFileAt(file, s.path) // Else somebody who had the lock put another file in its place.
	}
	if err == nil && !locked {
		err = s.inUse()
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

// unpack checks a backup file and makes a database of it, under another name than that of the database. It returns the
// path.
func unpack(ctx context.Context, o RestoreOptions) (path string, err error) {
	backup, err := OpenBackup(ctx, o.File)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, backup.Close()) }()
	if err := backup.Check(ctx); err != nil {
		return "", err
	}
	if o.Check != nil {
		if err := o.Check(ctx, backup); err != nil {
			return "", err
		}
	}
	if err := makeDir(o.Dir); err != nil {
		return "", err
	}
	file, err := os.CreateTemp(o.Dir, restorePattern)
	if err != nil {
		return "", err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(file.Name()))
		}
	}()
	err = copyBackup(ctx, file, o.File)
	if err := errors.Join(err, file.Sync(), file.Close()); err != nil {
		return "", err
	}
	// A running store has no list of its free pages, and so neither has its backup.
	s := newStore(Options{Dir: o.Dir}, file.Name())
	if err := s.openForWriting(); err != nil {
		return "", err
	}
	return file.Name(), errors.Join(s.writeFreePages(), s.db.Close())
}
