//go:build unix

package server

import (
	"io/fs"
	"os"
	"syscall"
)

// keepOwner gives a file the owner and the group of another. Whoever may not do that would make a file that its reader
// cannot read.
func keepOwner(file *os.File, like fs.FileInfo) error {
	want, ok := like.Sys().(*syscall.Stat_t)
	if !ok {
		return nil
	}
	info, err := file.Stat()
	if err != nil {
		return err
	}
	if got, ok := info.Sys().(*syscall.Stat_t); ok && got.Uid == want.Uid && got.Gid == want.Gid {
		return nil
	}
	return file.Chown(int(want.Uid), int(want.Gid))
}
