package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// pendingFile is a local file that gets its name when it is complete and on disk: nobody ever finds half of it there.
type pendingFile struct {
	*os.File
	name  string
	force bool // replaces a file of that name
}

// createPending makes a file beside the one that it will be. That one must not be there, or be a regular file that
// force replaces.
func createPending(name string, force bool) (*pendingFile, error) {
	if err := checkFree(name, force); err != nil {
		return nil, err
	}
	f, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+".*.tmp")
	if err != nil {
		return nil, fmt.Errorf("create file: %w", err)
	}
	return &pendingFile{File: f, name: name, force: force}, nil
}

func checkFree(name string, force bool) error {
	info, err := os.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("look at file: %w", err)
	case !info.Mode().IsRegular():
		return usageErrorf("%s is there and is no regular file", name)
	case !force:
		return usageErrorf("%s is there already; --force replaces it", name)
	}
	return nil
}

// restart empties the file.
func (f *pendingFile) restart() error {
	if err := f.Truncate(0); err != nil {
		return fmt.Errorf("empty file: %w", err)
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return fmt.Errorf("empty file: %w", err)
	}
	return nil
}

// commit gives the file its name, after which discard does nothing.
func (f *pendingFile) commit() error {
	if err := f.Sync(); err != nil {
		return fmt.Errorf("sync file: %w", err)
	}
	if err := checkFree(f.name, f.force); err != nil { // it may have come in the meantime
		return err
	}
	if err := os.Rename(f.Name(), f.name); err != nil {
		return fmt.Errorf("rename file: %w", err)
	}
	_ = f.Close() // it is synced
	return syncDirectory(filepath.Dir(f.name))
}

// syncDirectory makes the name of a new file survive a crash of the machine.
func syncDirectory(name string) error {
	dir, err := os.Open(name)
	if err != nil {
		return fmt.Errorf("sync directory: %w", err)
	}
	defer func() { _ = dir.Close() }() // it was only synced
	if err := dir.Sync(); err != nil {
		return fmt.Errorf("sync directory: %w", err)
	}
	return nil
}

// discard removes a file that was not committed.
func (f *pendingFile) discard() {
	if f.Close() == nil {
		_ = os.Remove(f.Name())
	}
}
