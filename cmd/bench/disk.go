package main

import (
	"io/fs"
	"os"
	"path/filepath"
)

// tmpfs is the file system that is no disk.
const tmpfs = "tmpfs"

func inMemory(fileSystem string) bool { return fileSystem == tmpfs }

// treeBytes returns how much the files below a directory have.
func treeBytes(dir string) (int64, error) {
	var total int64
	err := filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return skipMissing(err)
		}
		info, err := d.Info()
		if err != nil {
			return skipMissing(err)
		}
		total += info.Size()
		return nil
	})
	return total, err
}

// skipMissing is err, but for what a server removed meanwhile.
func skipMissing(err error) error {
	if os.IsNotExist(err) {
		return nil
	}
	return err
}
