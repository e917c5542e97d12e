//go:build linux || darwin

package boltkv

import "syscall"

// freeBytes returns how much room the file system of a directory has; ok is false where it does not say.
func freeBytes(dir string) (n uint64, ok bool) {
	var stat syscall.Statfs_t
	if err := syscall.Statfs(dir, &stat); err != nil {
		return 0, false
	}
	return stat.Bavail * uint64(stat.Bsize), true
}
