package audit

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
)

// output is what lines are written to.
type output struct {
	w    io.Writer
	file *os.File // w, unless that is standard output
	torn bool     // it ends within a line
}

// openFile opens the file at path. It does not wait for the reader of a FIFO, so that a write to it can be ended by
// closing it, and does not become one either.
func openFile(path string) (*output, error) {
	access := os.O_RDWR
	if info, err := os.Stat(path); err == nil && info.Mode()&fs.ModeNamedPipe != 0 {
		access = os.O_WRONLY
	}
	file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|syscall.O_NONBLOCK|access, 0o600)
	if errors.Is(err, syscall.ENXIO) {
		return nil, fmt.Errorf("open audit log: open %s: it is a FIFO that nobody reads, or a socket", path)
	}
	if err != nil {
		return nil, fmt.Errorf("open audit log: %w", err)
	}
	torn, err := endsTorn(file)
	if err != nil {
		_ = file.Close() // nothing was written
		return nil, fmt.Errorf("read end of audit log: %w", err)
	}
	return &output{w: file, file: file, torn: torn}, nil
}

func endsTorn(file *os.File) (bool, error) {
	info, err := file.Stat()
	if err != nil || !info.Mode().IsRegular() || info.Size() == 0 {
		return false, err
	}
	var last [1]byte
	if _, err := file.ReadAt(last[:], info.Size()-1); err != nil {
		return false, err
	}
	return last[0] != '\n', nil
}

// same tells whether both are one file.
func (o *output) same(other *output) bool {
	info, err := o.file.Stat()
	if err != nil {
		return false
	}
	otherInfo, err := other.file.Stat()
	return err == nil && os.SameFile(info, otherInfo)
}

// write writes a line.
func (o *output) write(line []byte) error {
	end := 0
	if o.torn {
		line = append([]byte{'\n'}, line...)
		end = 1 // after which the output is no longer torn
	}
	n, err := o.w.Write(line)
	o.torn = n != end && n < len(line)
	if err == nil && n < len(line) {
		err = io.ErrShortWrite
	}
	return err
}

// close closes the file. It waits for no write: one to a FIFO fails, one to a file goes on.
func (o *output) close() error {
	if o.file == nil {
		return nil
	}
	return o.file.Close()
}
