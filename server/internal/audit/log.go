package audit

import (
	"fmt"
	"io"
	"os"
	"sync"
)

// Stdout is the path that stands for standard output.
const Stdout = "-"

// Log is where the trail is written. It is made by Open and is safe for concurrent use. A nil Log writes nothing, and
// its methods succeed.
type Log struct {
	path string

	mu   sync.Mutex
	out  io.Writer // nil after Close
	file *os.File  // out, unless that is standard output
	torn bool      // the output ends within a line
}

// Open opens the file at path for appending, and makes it, for its owner alone, where there is none. The path "-" is
// stdout, which stays open after Close. Where the file ends within a line, as after a crash or on a full disk, the next
// line begins on a new one.
func Open(path string, stdout io.Writer) (*Log, error) {
	l := &Log{path: path, out: stdout}
	if path == Stdout {
		return l, nil
	}
	file, torn, err := openFile(path)
	if err != nil {
		return nil, err
	}
	l.out, l.file, l.torn = file, file, torn
	return l, nil
}

// openFile opens the file at path and tells whether it ends within a line.
func openFile(path string) (file *os.File, torn bool, err error) {
	file, err = os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, false, fmt.Errorf("open audit log: %w", err)
	}
	if torn, err = endsTorn(file); err != nil {
		_ = file.Close() // nothing was written
		return nil, false, fmt.Errorf("read end of audit log: %w", err)
	}
	return file, torn, nil
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

// Write appends the line of an event. An error, as of a full disk, is of this line alone: the next one is tried anew.
func (l *Log) Write(e Event) error {
	if l == nil {
		return nil
	}
	line, err := e.line()
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.out == nil {
		return fmt.Errorf("write audit log: %w", os.ErrClosed)
	}
	end := 0
	if l.torn {
		line = append([]byte{'\n'}, line...)
		end = 1 // after which the output is no longer torn
	}
	n, err := l.out.Write(line)
	l.torn = n != end && n < len(line)
	if err == nil && n < len(line) {
		err = io.ErrShortWrite
	}
	if err != nil {
		return fmt.Errorf("write audit log: %w", err)
	}
	return nil
}

// Reopen opens the file anew by its path, for whoever has renamed it, as logrotate does. No line is lost meanwhile.
// Where that fails the trail goes on in the old file. It does nothing for standard output.
func (l *Log) Reopen() error {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.out == nil:
		return fmt.Errorf("reopen audit log: %w", os.ErrClosed)
	case l.file == nil:
		return nil
	}
	file, torn, err := openFile(l.path)
	if err != nil {
		return err
	}
	old := l.file
	l.out, l.file, l.torn = file, file, torn
	if err := old.Close(); err != nil {
		return fmt.Errorf("close old audit log: %w", err)
	}
	return nil
}

// Close closes the file. What is written later fails with os.ErrClosed.
func (l *Log) Close() error {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	file := l.file
	l.out, l.file = nil, nil
	if file == nil {
		return nil
	}
	if err := file.Close(); err != nil {
		return fmt.Errorf("close audit log: %w", err)
	}
	return nil
}
