package main

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// fileSystem returns what kind of file system a directory is on; "" where it cannot be said.
func fileSystem(dir string) string {
	var stat unix.Statfs_t
	if err := unix.Statfs(dir, &stat); err != nil {
		return ""
	}
	switch stat.Type {
	case unix.EXT4_SUPER_MAGIC:
		return "ext4"
	case unix.XFS_SUPER_MAGIC:
		return "xfs"
	case unix.BTRFS_SUPER_MAGIC:
		return "btrfs"
	case unix.TMPFS_MAGIC:
		return tmpfs
	case unix.OVERLAYFS_SUPER_MAGIC:
		return "overlayfs"
	}
	return fmt.Sprintf("%#x", stat.Type)
}

// evict drops a file from the page cache, in which no process may have it mapped.
func evict(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	if err := f.Sync(); err != nil { // Dirty pages stay.
		return err
	}
	if err := unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED); err != nil {
		return fmt.Errorf("drop %s from the page cache: %w", name, err)
	}
	return nil
}

// syncData waits until the contents of a file are on the disk, as bbolt does.
func syncData(f *os.File) error { return unix.Fdatasync(int(f.Fd())) }
