//go:build !linux

package main

import (
	"errors"
	"os"
)

// fileSystem returns what kind of file system a directory is on; "" where it cannot be said.
func fileSystem(string) string { return "" }

// evict drops a file from the page cache.
func evict(string) error { return errors.ErrUnsupported }

// syncData waits until the contents of a file are on the disk, as bbolt does.
func syncData(f *os.File) error { return f.Sync() }
