//go:build (darwin || dragonfly || freebsd || linux || netbsd || openbsd) && !android

package boltkv

import (
	"errors"
	"os"
	"syscall"
)

// flock takes the lock of an open file that bbolt takes when it opens one for writing. It is given up when the file is
// closed. Where another process has it, locked is false.
func flock(file *os.File) (locked bool, err error) {
	err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return false, nil
	}
	return err == nil, err
}
