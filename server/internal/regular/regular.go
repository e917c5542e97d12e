// Package regular reads the files that a running server follows.
package regular

import (
	"fmt"
	"io"
	"os"
	"syscall"
)

// ReadFile returns what a regular file holds, which is an error where that is more than so many bytes. Anything else is
// refused at once: a FIFO would be waited for, and gives what it holds only once.
func ReadFile(name string, most int64) ([]byte, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0) // It does not wait for the writer of a FIFO.
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // It was only read.
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("read %s: it must be a regular file, since it is read again", name)
	}
	data, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(data)) > most {
		err = fmt.Errorf("read %s: there are more than %d bytes", name, most)
	}
	return data, err
}
